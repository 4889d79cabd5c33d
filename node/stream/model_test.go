package stream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// logged is one command of a generated log, or a history rewrite before it.
type logged struct {
	bytes   []byte // as stored
	stamp   uint64
	rewrite bool
}

func genCommand(t *rapid.T) Command {
	key := Key{Bucket: "demo", Stream: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "stream")}
	switch rapid.SampledFrom([]string{"append", "append", "append", "produce", "produce", "produce", "produce", "create", "create", "delete", "touch", "expire"}).Draw(t, "kind") {
	case "create":
		c := Command{Kind: KindCreate, Key: key}
		c.ContentType = rapid.SampledFrom([]string{"text/plain", "text/plain", "Text/Plain; charset=utf-8", "application/json"}).Draw(t, "type")
		c.Close = rapid.IntRange(0, 7).Draw(t, "close") == 0
		c.Payload = genPayload(t)
		switch rapid.IntRange(0, 3).Draw(t, "lifetime") {
		case 0:
			ttl := rapid.SampledFrom([]uint64{0, 1, 30, 60, 61, 240, 1<<53 - 1, 1<<64 - 1}).Draw(t, "ttl")
			c.Expiry = Expiry{TTL: ttl, HasTTL: true}
		case 1:
			at := rapid.Uint64Range(900_000, 1_200_000).Draw(t, "at")
			c.Expiry = Expiry{At: at, AtText: fmt.Sprint("t", at)}
		}
		return c
	case "delete":
		return Command{Kind: KindDelete, Key: key}
	case "touch":
		return Command{Kind: KindTouch, IDs: genIDs(t)}
	case "expire":
		return Command{Kind: KindExpire, IDs: genIDs(t)}
	case "produce":
		c := genAppend(t, key)
		c.Producer = &ProducerKey{
			ID:    rapid.SampledFrom([]string{"p", "q", ""}).Draw(t, "producer"),
			Epoch: rapid.Uint64Range(0, 2).Draw(t, "epoch"),
			Seq:   rapid.Uint64Range(0, 3).Draw(t, "pseq"),
		}
		if d := rapid.IntRange(0, 5).Draw(t, "digest"); d < 2 {
			c.Producer.Digest = Digest{Given: true}
			c.Producer.Digest.Sum[0] = byte(d + 1)
		}
		return c
	default:
		return genAppend(t, key)
	}
}

func genAppend(t *rapid.T, key Key) Command {
	c := Command{Kind: KindAppend, Key: key}
	c.MediaType = rapid.SampledFrom([]string{"text/plain", "text/plain", "text/plain", "application/json", ""}).Draw(t, "media")
	c.Close = rapid.IntRange(0, 9).Draw(t, "close") == 0
	c.Seq = rapid.SampledFrom([]string{"", "", "", "1", "10", "2", "3"}).Draw(t, "seq")
	if rapid.IntRange(0, 9).Draw(t, "faulty") == 0 {
		c.Fault = Fault(rapid.IntRange(1, 4).Draw(t, "fault"))
	} else {
		c.Payload = genPayload(t)
	}
	return c
}

func genPayload(t *rapid.T) []byte {
	return []byte(rapid.SampledFrom([]string{"", "x", "hello", "0123456789"}).Draw(t, "payload"))
}

func genIDs(t *rapid.T) []ID {
	return rapid.SliceOfN(rapid.Map(rapid.Uint64Range(0, 12), func(v uint64) ID { return ID(v) }), 0, 4).Draw(t, "ids")
}

func genLog(t *rapid.T) []logged {
	clock := uint64(1_000_000)
	n := rapid.IntRange(1, 60).Draw(t, "commands")
	log := make([]logged, n)
	for i := range log {
		c := genCommand(t)
		switch rapid.IntRange(0, 5).Draw(t, "clock") {
		case 0:
			clock += rapid.Uint64Range(0, 90_000).Draw(t, "idle")
		case 1:
			clock -= rapid.Uint64Range(0, 5_000).Draw(t, "back")
		case 2:
			clock += rapid.Uint64Range(0, 1_500).Draw(t, "step")
		}
		log[i] = logged{
			bytes:   append(AppendHeader(nil, &c), c.Payload...),
			stamp:   clock,
			rewrite: rapid.IntRange(0, 20).Draw(t, "rewrite") == 0,
		}
	}
	return log
}

// replica applies a log in runs of its own choice, forgetting what it has
// cached and moving to a snapshot of itself as it likes.
type replica struct {
	base    *memBase
	tx      *Tx
	command Command // re-used from command to command, as a shard does
	texts   []string
}

// replay applies log; cut says before which commands a run ends, evict which
// records are forgotten at its end and move whether a snapshot takes over.
func (r *replica) replay(t *rapid.T, log []logged, cut, evict, move func() bool) (answers []answer) {
	g := Group{Histories: []uint64{testHistory}}
	r.base = newMemBase(g)
	r.tx = NewTx(r.base)
	var results []Result
	end := func() {
		m := r.tx.Mutations()
		r.texts = append(r.texts, mutationsText(m))
		if err := r.base.apply(m); err != nil {
			t.Fatal(err)
		}
		// Only now: a later command of the run must not show in a result.
		for _, res := range results {
			answers = append(answers, answerOf(res))
		}
		results = nil
		if move() {
			r.base = r.base.restore()
		}
		r.base.evict(evict)
		if err := r.base.check(); err != nil {
			t.Fatal(err)
		}
		r.tx.Reset(r.base)
	}
	for i, l := range log {
		if l.rewrite || cut() {
			end()
		}
		if l.rewrite {
			g, err := r.base.Group()
			if err != nil {
				t.Fatal(err)
			}
			g.Histories = append(g.Histories, uint64(i))
			r.base.group = AppendGroup(nil, g)
		}
		if err := Decode(l.bytes, &r.command); err != nil {
			t.Fatal(err)
		}
		res, err := r.tx.Apply(&r.command, l.stamp)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, res)
	}
	end()
	return answers
}

// mutationsText is all of m, in its order.
func mutationsText(m *Mutations) string {
	var w strings.Builder
	if m.Group != nil {
		fmt.Fprintf(&w, "group %x\n", AppendGroup(nil, m.Group))
	}
	for _, s := range m.Removed {
		fmt.Fprintf(&w, "removed %x\n", AppendStream(nil, s))
	}
	for _, s := range m.Put {
		fmt.Fprintf(&w, "put %x\n", AppendStream(nil, s))
	}
	for _, p := range m.Producers {
		fmt.Fprintf(&w, "producer %d %q %x\n", p.Stream, p.ID, AppendProducer(nil, p.Producer))
	}
	for _, a := range m.Appends {
		fmt.Fprintf(&w, "append %d %d %q\n", a.Stream, a.Offset, a.Data)
	}
	return w.String()
}

func TestModel_ResultsAndStateDependOnTheLogAlone(t *testing.T) {
	always, never := func() bool { return true }, func() bool { return false }
	rapid.Check(t, func(t *rapid.T) {
		log := genLog(t)
		flips := func(name string, oneIn int) func() bool {
			return func() bool { return rapid.IntRange(1, oneIn).Draw(t, name) == 1 }
		}

		want := make([]answer, len(log))
		o := newOracle()
		for i, l := range log {
			if l.rewrite {
				o.rewrites++
			}
			var c Command
			if err := Decode(l.bytes, &c); err != nil {
				t.Fatal(err)
			}
			want[i] = o.apply(&c, l.stamp)
		}

		var single, whole, random replica
		checkAnswers(t, "one command a run, nothing cached", want, single.replay(t, log, always, always, never))
		checkAnswers(t, "one run", want, whole.replay(t, log, never, never, never))
		checkAnswers(t, "random runs, evictions and restarts", want, random.replay(t, log, flips("cut", 4), flips("evict", 3), flips("move", 10)))
		for name, r := range map[string]*replica{"single": &single, "whole": &whole, "random": &random} {
			got, err := baseState(r.base)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(o.state(), got); diff != "" {
				t.Fatalf("%s: state differs from the oracle's (-want +got):\n%s", name, diff)
			}
		}
		if diff := cmp.Diff(single.base.dump(), whole.base.dump()); diff != "" {
			t.Fatalf("stored bytes depend on where runs end:\n%s", diff)
		}
		if diff := cmp.Diff(single.base.dump(), random.base.dump()); diff != "" {
			t.Fatalf("stored bytes depend on what was cached:\n%s", diff)
		}
	})
}

func TestModel_MutationsAndTheirOrderDoNotDependOnResidency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := genLog(t)
		cuts := rapid.SliceOfN(rapid.Bool(), len(log), len(log)).Draw(t, "cuts")
		cutAt := func() func() bool {
			i := -1
			return func() bool { i++; return cuts[i%len(cuts)] }
		}
		never := func() bool { return false }
		evict := func() bool { return rapid.Bool().Draw(t, "evict") }
		var cached, evicted replica
		cached.replay(t, log, cutAt(), never, never)
		evicted.replay(t, log, cutAt(), evict, evict)
		if diff := cmp.Diff(cached.texts, evicted.texts); diff != "" {
			t.Fatalf("mutations differ (-cached +evicted):\n%s", diff)
		}
	})
}

func checkAnswers(t *rapid.T, name string, want, got []answer) {
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: answers differ from the oracle's (-want +got):\n%s", name, diff)
	}
}

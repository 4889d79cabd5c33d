package basestore

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/stream"
)

// tester is what helpers need of a test; rapid's T has it too.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a model of what the store should hold.
type world map[uint32]*worldGroup

type worldGroup struct {
	replica uint64
	applied Applied
	record  stream.Group
	streams map[stream.ID]*worldStream
	blobs   map[string]string
}

type worldStream struct {
	record    stream.Stream
	data      []byte
	producers map[string]stream.Producer
}

func newWorld(groups ...uint32) world {
	w := world{}
	for _, g := range groups {
		w[g] = newWorldGroup(1)
	}
	return w
}

func newWorldGroup(replica uint64) *worldGroup {
	return &worldGroup{
		replica: replica,
		record:  stream.Group{Histories: []uint64{77}},
		streams: map[stream.ID]*worldStream{},
		blobs:   map[string]string{},
	}
}

func (w world) clone() world {
	out := world{}
	for id, g := range w {
		c := *g
		c.blobs = maps.Clone(g.blobs)
		c.streams = map[stream.ID]*worldStream{}
		for sid, s := range g.streams {
			cs := *s
			cs.producers = maps.Clone(s.producers)
			c.streams[sid] = &cs
		}
		out[id] = &c
	}
	return out
}

func (g *worldGroup) named(key stream.Key) *worldStream {
	for _, s := range g.streams {
		if s.record.Key == key {
			return s
		}
	}
	return nil
}

func modelKey(n int) stream.Key {
	return stream.Key{Bucket: fmt.Sprintf("bucket%d", n%2), Stream: fmt.Sprintf("s%d", n)}
}

const modelNames = 8

// step changes a group as a run of commands would.
func (g *worldGroup) step(rng *rand.Rand) {
	for range 1 + rng.IntN(4) {
		key := modelKey(rng.IntN(modelNames))
		s := g.named(key)
		switch {
		case s == nil:
			g.record.LastID++
			g.record.LastCreated++
			id := g.record.LastID
			s = &worldStream{producers: map[string]stream.Producer{}}
			s.record = stream.Stream{ID: id, Key: key, ContentType: "text/plain", Created: g.record.LastCreated}
			g.streams[id] = s
		case rng.IntN(8) == 0:
			delete(g.streams, s.record.ID)
			continue
		case rng.IntN(6) == 0:
			name := fmt.Sprintf("producer%d", rng.IntN(3))
			s.producers[name] = stream.Producer{Epoch: 1, Seq: s.producers[name].Seq + 1, LastWrite: g.record.Time}
			s.record.Producers = uint32(len(s.producers))
		}
		size := rng.IntN(300)
		if rng.IntN(20) == 0 {
			size = rng.IntN(3 * blockBytes)
		}
		piece := make([]byte, size)
		for i := range piece {
			piece[i] = byte(rng.Uint32())
		}
		// A new backing array: clones of the world share the old one.
		s.data = slices.Concat(s.data, piece)
		s.record.Tail = uint64(len(s.data))
		s.record.Touched++
	}
	g.record.Time += rng.Uint64N(3)
	if rng.IntN(4) == 0 {
		g.blobs[fmt.Sprintf("blob%d", rng.IntN(3))] = fmt.Sprint(rng.Uint64())
	}
	g.applied.Index += 1 + rng.Uint64N(3)
	g.applied.Term += rng.Uint64N(2)
	if rng.IntN(5) == 0 {
		g.applied.Conf = raftpb.ConfState{Voters: []uint64{g.replica, rng.Uint64N(100)}, Learners: []uint64{rng.Uint64N(9)}}
	}
}

// change adds to a batch what turns before into g.
func (g *worldGroup) change(t tester, b *Batch, id uint32, before *worldGroup, rng *rand.Rand) {
	t.Helper()
	m := &stream.Mutations{}
	if !cmp.Equal(g.record, before.record) {
		rec := g.record
		m.Group = &rec
	}
	for _, sid := range slices.Sorted(maps.Keys(before.streams)) {
		if g.streams[sid] == nil {
			rec := before.streams[sid].record
			m.Removed = append(m.Removed, &rec)
		}
	}
	for _, sid := range slices.Sorted(maps.Keys(g.streams)) {
		s, old := g.streams[sid], before.streams[sid]
		if old == nil {
			old = &worldStream{}
		}
		if !cmp.Equal(s.record, old.record) {
			rec := s.record
			m.Put = append(m.Put, &rec)
		}
		for _, name := range slices.Sorted(maps.Keys(s.producers)) {
			if p := s.producers[name]; p != old.producers[name] {
				m.Producers = append(m.Producers, stream.ProducerPut{Stream: sid, ID: name, Producer: &p})
			}
		}
		// The new bytes as one to three appends.
		for at := len(old.data); at < len(s.data); {
			n := 1 + rng.IntN(len(s.data)-at)
			if rng.IntN(3) > 0 {
				n = len(s.data) - at
			}
			m.Appends = append(m.Appends, stream.Append{Stream: sid, Offset: uint64(at), Data: s.data[at : at+n]})
			at += n
		}
	}
	check(t, b.Apply(id, m))
	for k, v := range g.blobs {
		if before.blobs[k] != v {
			check(t, b.PutBlob(id, []byte(k), []byte(v)))
		}
	}
	var conf *raftpb.ConfState
	if !cmp.Equal(g.applied.Conf, before.applied.Conf) {
		conf = &g.applied.Conf
	}
	check(t, b.Mark(id, g.replica, g.applied.Index, g.applied.Term, conf))
}

// turn makes one random batch over some of the world's groups and commits it.
func (w world) turn(t tester, s *Store, rng *rand.Rand) error {
	t.Helper()
	return w.batch(t, s, rng).Commit()
}

// batch is a turn that is not committed yet.
func (w world) batch(t tester, s *Store, rng *rand.Rand) *Batch {
	t.Helper()
	b := s.NewBatch()
	for _, id := range slices.Sorted(maps.Keys(w)) {
		if rng.IntN(3) == 0 {
			continue
		}
		before := world{id: w[id]}.clone()[id]
		w[id].step(rng)
		w[id].change(t, b, id, before, rng)
	}
	return b
}

// keys returns all keys the store should have for a group.
func (g *worldGroup) keys(id uint32) []string {
	var out []string
	add := func(k []byte) { out = append(out, string(k)) }
	add(headKey(id, headPointer))
	add(headKey(id, headApplied))
	if !cmp.Equal(g.applied.Conf, raftpb.ConfState{}) {
		add(headKey(id, headConf))
	}
	add(appendKind(nil, id, firstGeneration, kindGroup))
	for sid, s := range g.streams {
		add(appendName(nil, id, firstGeneration, s.record.Key))
		add(appendStreamKind(nil, id, firstGeneration, kindStream, sid))
		for name := range s.producers {
			add(appendProducerKey(nil, id, firstGeneration, sid, name))
		}
		for n := 0; n*blockBytes < len(s.data); n++ {
			add(appendBlockKey(nil, id, firstGeneration, sid, uint64(n)))
		}
	}
	for k := range g.blobs {
		add(appendBlobKey(nil, id, firstGeneration, []byte(k)))
	}
	slices.Sort(out)
	return out
}

// checkWorld compares everything in the store with the model, key by key and
// through every way of reading.
func checkWorld(t tester, s *Store, w world) {
	t.Helper()
	for id, g := range w {
		if got, want := groupKeys(t, s, id), g.keys(id); !slices.Equal(got, want) {
			t.Fatalf("group %d has keys\n%q\nwant\n%q", id, got, want)
		}
		checkGroup(t, s, id, g)
	}
}

func checkGroup(t tester, s *Store, id uint32, g *worldGroup) {
	t.Helper()
	st, err := s.Replica(id)
	check(t, err)
	want := ReplicaState{Replica: Replica{id, g.replica}, Applied: g.applied, Generation: firstGeneration}
	if d := cmp.Diff(want, st); d != "" {
		t.Fatalf("group %d replica: %s", id, d)
	}
	l := s.Loader(id)
	rec, err := l.Group()
	check(t, err)
	if d := cmp.Diff(&g.record, rec); d != "" {
		t.Fatalf("group %d record: %s", id, d)
	}
	for n := range modelNames {
		got, err := l.Lookup(modelKey(n))
		check(t, err)
		var want *stream.Stream
		if ws := g.named(modelKey(n)); ws != nil {
			want = &ws.record
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("group %d lookup %v: %s", id, modelKey(n), d)
		}
	}
	for sid := stream.ID(1); sid <= g.record.LastID+1; sid++ {
		checkStream(t, s, id, sid, g.streams[sid])
	}
	for k, v := range g.blobs {
		got, err := s.Blob(id, []byte(k))
		check(t, err)
		if string(got) != v {
			t.Fatalf("group %d blob %s is %q, want %q", id, k, got, v)
		}
	}
}

func checkStream(t tester, s *Store, id uint32, sid stream.ID, want *worldStream) {
	t.Helper()
	l := s.Loader(id)
	got, err := l.Stream(sid)
	check(t, err)
	if want == nil {
		if got != nil {
			t.Fatalf("group %d stream %d is %+v, want none", id, sid, got)
		}
		if _, err := s.ReadBytes(nil, id, sid, 0, 1); !isGone(err) {
			t.Fatalf("group %d stream %d: read of a deleted stream: %v", id, sid, err)
		}
		return
	}
	if d := cmp.Diff(&want.record, got); d != "" {
		t.Fatalf("group %d stream %d: %s", id, sid, d)
	}
	for n := range 3 {
		name := fmt.Sprintf("producer%d", n)
		p, err := l.Producer(sid, name)
		check(t, err)
		wp, ok := want.producers[name]
		if ok != (p != nil) || ok && *p != wp {
			t.Fatalf("group %d stream %d %s is %+v, want %+v", id, sid, name, p, wp)
		}
	}
	data, err := s.ReadBytes(nil, id, sid, 0, want.record.Tail)
	check(t, err)
	if !bytes.Equal(data, want.data) {
		t.Fatalf("group %d stream %d has %d bytes that differ from the %d expected", id, sid, len(data), len(want.data))
	}
}

func groupKeys(t tester, s *Store, id uint32) []string {
	t.Helper()
	start, end := groupSpan(id)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	check(t, err)
	var out []string
	for it.First(); it.Valid(); it.Next() {
		out = append(out, string(it.Key()))
	}
	check(t, it.Close())
	return out
}

func check(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testOptions are small, so that flushes and compactions happen.
func testOptions(fs vfs.FS) Options {
	return Options{
		FS: fs, Dir: "base",
		CacheBytes: 1 << 20, RecordCacheBytes: 1 << 20, TailCacheBytes: 1 << 20, MemTableBytes: 256 << 10,
		Logger: slog.New(slog.DiscardHandler),
	}
}

func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

func (w world) create(t tester, s *Store) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(w)) {
		check(t, s.CreateReplica(Replica{id, w[id].replica}, w[id].record))
	}
}

// seeded returns a source and prints its seed when the test fails.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

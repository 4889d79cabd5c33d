package stream

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
)

// declared is a Loader that serves only what a command declared by Keys.
type declared struct {
	Loader
	keys      map[Key]bool
	ids       map[ID]bool
	producers map[ProducerRef]bool
}

func declaredBy(l Loader, commands ...*Command) *declared {
	d := &declared{Loader: l, keys: map[Key]bool{}, ids: map[ID]bool{}, producers: map[ProducerRef]bool{}}
	for _, c := range commands {
		keys, producers, ids := c.Keys()
		for _, k := range keys {
			d.keys[k] = true
		}
		for _, p := range producers {
			d.producers[p] = true
		}
		for _, id := range ids {
			d.ids[id] = true
		}
	}
	return d
}

func (d *declared) Lookup(k Key) (*Stream, error) {
	if !d.keys[k] {
		return nil, fmt.Errorf("undeclared stream %v", k)
	}
	return d.Loader.Lookup(k)
}

func (d *declared) Stream(id ID) (*Stream, error) {
	if !d.ids[id] {
		return nil, fmt.Errorf("undeclared id %d", id)
	}
	return d.Loader.Stream(id)
}

func (d *declared) Producer(id ID, producer string) (*Producer, error) {
	s, err := d.Loader.Stream(id)
	if err != nil || s == nil || !d.producers[ProducerRef{Key: s.Key, ID: producer}] {
		return nil, fmt.Errorf("undeclared producer %d %q", id, producer)
	}
	return d.Loader.Producer(id, producer)
}

func TestTrapS1_CommandsDeclareEverythingTheyRead(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(withTTL(create("s"), 1)), Created)
	m.want(m.do(by(write("s", "a"), "p", 0, 0)), Appended)
	for _, c := range []Command{
		create("s"), create("new"), write("s", "b"), by(write("s", "b"), "p", 0, 1), by(write("s", "b"), "q", 0, 0),
		by(write("absent", "b"), "p", 0, 0), remove("s"), remove("absent"),
		{Kind: KindTouch, IDs: []ID{1, 7}}, {Kind: KindExpire, IDs: []ID{1, 7}},
	} {
		for _, now := range []uint64{m.now, m.now + 5_000} { // alive and expired
			if _, err := NewTx(declaredBy(m.base, &c)).Apply(&c, now); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}

func TestTrapS1_ALoaderErrorVoidsTheRun(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(create("s")), Created)
	c, other := write("s", "a"), write("other", "a")
	tx := NewTx(declaredBy(m.base, &c))
	if _, err := tx.Apply(&other, m.now); err == nil {
		t.Fatal("no error of the loader")
	}
	if _, err := tx.Apply(&c, m.now); err == nil {
		t.Fatal("the run went on after an error")
	}
	tx.Reset(m.base)
	if r, err := tx.Apply(&c, m.now); err != nil || r.Outcome != Appended {
		t.Fatalf("after a reset: %+v, %v", r, err)
	}
}

func TestTrapR14_AnUnknownKindStopsApply(t *testing.T) {
	m := newMachine(t)
	for _, k := range []Kind{0, KindExpire + 1, 255} {
		if _, err := NewTx(m.base).Apply(&Command{Kind: k}, m.now); !errors.Is(err, ErrUnsupported) {
			t.Errorf("kind %d: %v", k, err)
		}
	}
	if _, err := NewTx(loaderWithoutGroup{}).Apply(&Command{Kind: KindDelete}, 1); err == nil {
		t.Error("a group without a record was applied to")
	}
}

type loaderWithoutGroup struct{ Loader }

func (loaderWithoutGroup) Group() (*Group, error) { return nil, nil }

func TestTrapD1_GroupTimeIsTheLargestStamp(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(withTTL(create("s"), 10)), Created)
	m.now += 9_000
	m.want(m.do(write("s", "a")), Appended)
	m.now -= 8_000
	m.want(m.do(write("s", "b")), Appended)
	if g := m.group(); g.Time != 1_009_000 {
		t.Fatalf("group time %d went back", g.Time)
	}
	if s := m.stream("s"); s.Touched != 1_009_000 {
		t.Fatalf("touched %d, want the group's time", s.Touched)
	}
}

func TestTrapD2_CreationStampsRiseStrictly(t *testing.T) {
	m := newMachine(t)
	last := uint64(0)
	for i, step := range []int64{0, 0, 0, -5_000, 1, 0, 60_000, -60_000} {
		m.now = uint64(int64(m.now) + step)
		r := m.want(m.do(create("s")), Created)
		if r.Stream.Created <= last {
			t.Fatalf("create %d: stamp %d is not above %d", i, r.Stream.Created, last)
		}
		last = r.Stream.Created
		m.want(m.do(remove("s")), Deleted)
	}
	if g := m.group(); g.LastCreated != last || g.LastID != 8 {
		t.Fatalf("group %+v", g)
	}
}

func TestTrapD2_CreationStampsStayWithinTheTokens(t *testing.T) {
	m := newMachine(t)
	m.now = maxCreated
	m.want(m.do(create("last")), Created)
	m.want(m.do(create("more")), OutOfRange)
	m.want(m.do(write("last", "a")), Appended)
}

func TestTrapD3_NamedStreamsAreCheckedAgain(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(withTTL(create("idle"), 10)), Created)
	m.want(m.do(withTTL(create("written"), 10)), Created)
	m.want(m.do(withTTL(create("reused"), 10)), Created)
	m.want(m.do(create("forever")), Created)
	m.now += 9_999
	all := []ID{1, 2, 3, 4, 5, 99, 1}
	if r := m.want(m.do(Command{Kind: KindExpire, IDs: all}), Touched); r.Count != 0 {
		t.Fatalf("%d streams expired a millisecond early", r.Count)
	}
	// Between the leader's look and the command, one is written and one is
	// deleted and made again: neither is the stream that was named.
	m.want(m.do(write("written", "a")), Appended)
	m.want(m.do(remove("reused")), Deleted)
	m.want(m.do(withTTL(create("reused"), 10)), Created)
	m.now++
	if r := m.want(m.do(Command{Kind: KindExpire, IDs: all}), Touched); r.Count != 1 {
		t.Fatalf("%d streams expired, want 1", r.Count)
	}
	for name, want := range map[string]bool{"idle": false, "written": true, "reused": true, "forever": true} {
		if got := m.stream(name) != nil; got != want {
			t.Errorf("%s exists: %v, want %v", name, got, want)
		}
	}
}

func TestTrapD4_ProducersCarryTheOrderOfTheirLastWrite(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(create("s")), Created)
	m.want(m.do(by(write("s", "a"), "p", 0, 0)), Appended)
	first := m.now
	m.now += 500
	r := m.want(m.do(by(write("s", "a"), "p", 0, 0)), Duplicate)
	if r.Producer.LastWrite != first {
		t.Fatalf("a repeat moved the last write to %d", r.Producer.LastWrite)
	}
	r = m.want(m.do(by(write("s", "b"), "p", 0, 1)), Appended)
	if r.Producer.LastWrite != m.now {
		t.Fatalf("last write %d, want %d", r.Producer.LastWrite, m.now)
	}
}

func TestTrapD5_ApplyTakesThePayloadAsItStands(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(contentType(create("j"), "application/json")), Created)
	c := typed(write("j", "not JSON, and not flattened here"), "application/json")
	c.Messages = 3
	m.want(m.do(c), Appended)
	if got := m.base.data[1]; !bytes.Equal(got, c.Payload) {
		t.Fatalf("stored %q", got)
	}
}

func TestTrapP1_ContentFaultsComeAfterTheProducerRulesAndClosure(t *testing.T) {
	bad := func(seq uint64) Command { return faulty(by(write("s", ""), "p", 1, seq), FaultInvalidJSON) }
	runSteps(t, []step{
		{name: "no stream", do: bad(0), want: NotFound},
		{do: create("s"), want: Created},
		{name: "it would apply", do: bad(0), want: ContentFault, check: fault(FaultInvalidJSON)},
		{do: by(write("s", "ab"), "p", 1, 0), want: Appended},
		{name: "a repeat", do: bad(0), want: Duplicate, check: func(t *testing.T, _ *machine, r Result) {
			if !r.Receipt || r.Start != 0 || r.End != 2 {
				t.Fatalf("receipt %+v", r)
			}
		}},
		{name: "a gap", do: bad(5), want: ProducerGap},
		{name: "stale", do: faulty(by(write("s", ""), "p", 0, 1), FaultInvalidJSON), want: EpochStale},
		{name: "unclaimed", do: faulty(by(write("s", ""), "p", 2, 1), FaultInvalidJSON), want: EpochNotClaimed},
		{name: "a closing fault closes nothing", do: closing(bad(1)), want: ContentFault, check: fault(FaultInvalidJSON)},
		{do: closeOnly("s"), want: Appended},
		{name: "closed", do: bad(1), want: StreamClosed},
	})
}

func TestTrapP2_SlidingExpiryAllowsForTouchesNotYetReplicated(t *testing.T) {
	tests := []struct {
		ttl    uint64
		idle   uint64 // milliseconds after the last replicated touch
		needs  bool
		expiry bool
	}{
		{ttl: 0, idle: 0, needs: true, expiry: true},
		{ttl: 2, idle: 0, needs: true},
		{ttl: 2, idle: 1_999, needs: true},
		{ttl: 2, idle: 2_000, needs: true, expiry: true},
		{ttl: 59, idle: 58_999, needs: true},
		{ttl: 59, idle: 59_000, needs: true, expiry: true},
		{ttl: 60, idle: 0},
		{ttl: 60, idle: 15_000},
		{ttl: 60, idle: 15_001, needs: true},
		{ttl: 60, idle: 74_999, needs: true},
		{ttl: 60, idle: 75_000, needs: true, expiry: true},
		{ttl: 61, idle: 15_250},
		{ttl: 61, idle: 15_251, needs: true},
		{ttl: 61, idle: 76_249, needs: true},
		{ttl: 61, idle: 76_250, needs: true, expiry: true},
		{ttl: 1<<53 - 1, idle: 1 << 52},
		{ttl: math.MaxUint64, idle: 1 << 52},
	}
	for _, tt := range tests {
		s := Stream{Touched: 1_000_000, Expiry: Expiry{TTL: tt.ttl, HasTTL: true}}
		if got := s.NeedsTouch(s.Touched + tt.idle); got != tt.needs {
			t.Errorf("TTL %d s, idle %d ms: needs a touch %v", tt.ttl, tt.idle, got)
		}
		if got := s.ExpiredAt(s.Touched + tt.idle); got != tt.expiry {
			t.Errorf("TTL %d s, idle %d ms: expired %v", tt.ttl, tt.idle, got)
		}
		// A read that still needs no touch is promised a whole window.
		if d, ok := s.Deadline(); !tt.needs && ok && s.Touched+tt.idle+1000*tt.ttl > d {
			t.Errorf("TTL %d s, idle %d ms: unreplicated read is not honoured until %d", tt.ttl, tt.idle, d)
		}
	}
	forever, at := Stream{}, Stream{Expiry: Expiry{At: 5_000, AtText: "t"}}
	if forever.ExpiredAt(math.MaxUint64) || forever.NeedsTouch(math.MaxUint64) {
		t.Error("a stream without a lifetime expires")
	}
	if at.ExpiredAt(4_999) || !at.ExpiredAt(5_000) || at.NeedsTouch(4_999) {
		t.Error("a deadline is not exact, or reads renew it")
	}
	if behind := (Stream{Touched: 9, Expiry: Expiry{HasTTL: true}}); !behind.ExpiredAt(3) {
		t.Error("a clock behind the group's time revives an expired stream")
	}
}

func TestTrapP2_ExpiryIsPublicOnlyByAnAppliedCommand(t *testing.T) {
	tests := map[string]struct {
		do    func(m *machine) Command
		want  Outcome
		after bool // a stream of that name exists
	}{
		"an append finds nothing":            {func(*machine) Command { return write("s", "a") }, NotFound, false},
		"a repeat finds nothing":             {func(*machine) Command { return by(write("s", "a"), "p", 0, 0) }, NotFound, false},
		"a delete finds nothing":             {func(*machine) Command { return remove("s") }, NotFound, false},
		"a touch does not revive it":         {func(*machine) Command { return Command{Kind: KindTouch, IDs: []ID{1}} }, Touched, false},
		"an expire removes it":               {func(*machine) Command { return Command{Kind: KindExpire, IDs: []ID{1}} }, Touched, false},
		"a create of any configuration wins": {func(*machine) Command { return contentType(create("s"), "image/png") }, Created, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.want(m.do(withTTL(create("s"), 2)), Created)
			m.want(m.do(by(write("s", "a"), "p", 0, 0)), Appended)
			m.now += 2_000
			r := m.want(m.do(tt.do(m)), tt.want)
			if s := m.stream("s"); (s != nil) != tt.after || s != nil && s.ID != 2 {
				t.Fatalf("stream %+v", s)
			}
			if r.Stream != nil && r.Stream.ID == 1 {
				t.Fatal("the answer shows the expired stream")
			}
			// A leader with a slower clock, applying the next command, agrees.
			m.now -= 1_500
			next := m.do(write("s", "b"))
			if next.Outcome == Appended {
				t.Fatal("the expired stream came back")
			}
		})
	}
}

func TestTrapP2_WritesAndTouchesRenewAndRefusalsDoNot(t *testing.T) {
	tests := map[string]struct {
		do     Command
		renews bool
	}{
		"an append":                {write("s", "b"), true},
		"a close (row 77)":         {closeOnly("s"), true},
		"a producer's close":       {by(closeOnly("s"), "q", 0, 0), true},
		"a repeat":                 {by(write("s", "a"), "p", 0, 0), true},
		"the same create":          {withTTL(create("s"), 2), true},
		"a touch":                  {Command{Kind: KindTouch, IDs: []ID{1, 1, 9}}, true},
		"an expire that came late": {Command{Kind: KindExpire, IDs: []ID{1}}, false},
		"another create":           {create("s"), false},
		"a refused append":         {typed(write("s", "b"), "image/png"), false},
		"a gap":                    {by(write("s", "b"), "p", 0, 9), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.want(m.do(withTTL(create("s"), 2)), Created)
			m.want(m.do(by(write("s", "a"), "p", 0, 0)), Appended)
			m.now += 1_500
			r := m.do(tt.do)
			want := uint64(1_000_000)
			if tt.renews {
				want = m.now
			}
			if got := m.stream("s").Touched; got != want {
				t.Fatalf("touched %d, want %d", got, want)
			}
			if r.Stream != nil && r.Stream.Touched != want {
				t.Fatalf("the result shows touched %d, want %d", r.Stream.Touched, want)
			}
			if tt.do.Kind == KindTouch && r.Count != 1 {
				t.Fatalf("count %d", r.Count)
			}
		})
	}
}

func TestTrapP2_TouchesConcernOnlySlidingLifetimesAndNeverGoBack(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(create("forever")), Created)
	m.want(m.do(until(create("dated"), 9_000_000, "1970-01-01T02:30:00Z")), Created)
	m.want(m.do(withTTL(create("sliding"), 100)), Created)
	m.now += 50_000
	if r := m.do(Command{Kind: KindTouch, IDs: []ID{1, 2, 3}}); r.Count != 1 {
		t.Fatalf("%d streams touched, want 1", r.Count)
	}
	m.now -= 10_000
	if r := m.do(Command{Kind: KindTouch, IDs: []ID{3}}); r.Count != 0 || m.stream("sliding").Touched != 1_050_000 {
		t.Fatalf("touched %d times, to %d", r.Count, m.stream("sliding").Touched)
	}
	if m.stream("forever").Touched != 1_000_000 || m.stream("dated").Touched != 1_000_000 {
		t.Fatal("a stream without a sliding lifetime was touched")
	}
}

func TestTrapP4_RecordsNameTheHistoryTheyWereLastWrittenIn(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(body(create("s"), "abc")), Created)
	m.want(m.do(by(write("s", "d"), "p", 0, 0)), Appended)
	if s := m.stream("s"); s.Written != 0 || s.Predecessor != nil {
		t.Fatalf("stream %+v", s)
	}
	m.rewriteHistory(1)
	m.rewriteHistory(2)
	m.want(m.do(create("made")), Created)
	if s := m.stream("made"); s.Written != 2 || s.Predecessor != nil {
		t.Fatalf("a stream made after the rewrites: %+v", s)
	}
	r := m.want(m.do(by(write("s", "e"), "p", 1, 0)), Appended)
	if s := r.Stream; s.Written != 2 || s.Predecessor == nil || *s.Predecessor != (Predecessor{History: 0, Tail: 4}) {
		t.Fatalf("stream %+v, predecessor %+v", s, s.Predecessor)
	}
	if r.Producer.ClaimHistory != 2 {
		t.Fatalf("claim of history %d, want 2", r.Producer.ClaimHistory)
	}
	r = m.want(m.do(by(write("s", "f"), "p", 1, 1)), Appended)
	if *r.Stream.Predecessor != (Predecessor{History: 0, Tail: 4}) {
		t.Fatalf("a second write in the same history moved the predecessor: %+v", r.Stream.Predecessor)
	}
	m.rewriteHistory(3)
	m.want(m.do(closeOnly("made")), Appended)
	if s := m.stream("made"); s.Written != 2 || s.Predecessor != nil {
		t.Fatalf("a close counts as a change of bytes: %+v", s)
	}
	r = m.want(m.do(write("s", "g")), Appended)
	if *r.Stream.Predecessor != (Predecessor{History: 2, Tail: 6}) {
		t.Fatalf("predecessor %+v, want the history between the rewrites", r.Stream.Predecessor)
	}
}

func TestReplicatedStateDoesNotGrowWithAppends(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(withTTL(create("s"), 1000)), Created)
	size := func() int {
		n := len(m.base.group)
		for _, b := range m.base.streams {
			n += len(b)
		}
		for _, b := range m.base.producers {
			n += len(b)
		}
		return n
	}
	epoch, first := uint64(0), 0
	for i := range 5_000 {
		if i%100 == 0 {
			epoch++
		}
		c := seqd(withDigest(by(write("s", "0123456789"), "p", epoch, uint64(i%100)), byte(i)), fmt.Sprintf("%06d", i))
		m.want(m.do(c), Appended)
		m.now += 7
		if i == 200 {
			first = size()
		}
	}
	// What may grow are the digits of offsets and counters: a byte each.
	if last := size(); last > first+12 {
		t.Fatalf("state grew from %d to %d bytes over 4,800 appends", first, last)
	}
}

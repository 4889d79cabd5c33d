package basestore

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"runnel.dev/runnel/node/stream"
)

func TestAClockKeepsItsBoundAndWhatIsUsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.Int64Range(0, 3000).Draw(t, "bound")
		c := newClock[int, int](bound)
		model := map[int]int{}
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			k := rapid.IntRange(0, 20).Draw(t, "key")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				c.set(k, i, rapid.Int64Range(0, 500).Draw(t, "cost"))
				model[k] = i
			case 2:
				c.drop(k)
				delete(model, k)
			default:
				if v, ok, _ := c.get(k); ok && v != model[k] {
					t.Fatalf("key %d is %d, want %d", k, v, model[k])
				}
			}
			checkClock(t, c, bound)
		}
		c.dropIf(func(int) bool { return true })
		if c.bytes() != 0 {
			t.Fatalf("%d bytes in an empty clock", c.bytes())
		}
	})
}

func checkClock(t *rapid.T, c *clock[int, int], bound int64) {
	var sum int64
	for i := range c.stripes {
		s := &c.stripes[i]
		n := 0
		for e := s.hand; e != nil; e = e.next {
			if s.slots[e.key] != e || e.next.prev != e {
				t.Fatal("the ring and the map disagree")
			}
			sum += e.cost
			if n++; e.next == s.hand {
				break
			}
		}
		if n != len(s.slots) {
			t.Fatal("the ring and the map differ in size")
		}
	}
	if sum != c.bytes() || sum > bound {
		t.Fatalf("%d bytes counted as %d, bound %d", sum, c.bytes(), bound)
	}
}

func TestAClockEvictsWhatWasNotUsed(t *testing.T) {
	c := newClock[int, int](0)
	c.stripes[0].bound = 10 * (c.slotBytes() + 1)
	for k := range 10 {
		c.set(k, k, 1)
	}
	for k := range 5 {
		c.get(k)
	}
	for k := 10; k < 15; k++ {
		c.set(k, k, 1)
	}
	for k := range 5 {
		if !c.has(k) {
			t.Errorf("used key %d was evicted", k)
		}
		if c.has(k + 5) {
			t.Errorf("unused key %d was kept", k+5)
		}
	}
}

func TestALoadThatOverlapsAWriteIsNotKept(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(c *clock[int, string], all *stripeSet)
		kept bool
	}{
		{"no write", func(*clock[int, string], *stripeSet) {}, true},
		{"a write under way", func(c *clock[int, string], all *stripeSet) { c.begin(all) }, false},
		{"a write that ended and was evicted", func(c *clock[int, string], all *stripeSet) {
			c.begin(all)
			c.set(1, "new", 0)
			c.end(all)
			c.drop(1)
		}, false},
		{"two writers, one ended", func(c *clock[int, string], all *stripeSet) {
			c.begin(all)
			c.begin(all)
			c.end(all)
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClock[int, string](1 << 10)
			var all stripeSet
			all.add(0)
			_, _, token := c.get(1)
			tc.do(c, &all)
			if got := c.fill(1, token, "old", 0); got != "old" {
				t.Fatalf("the reader gets %q", got)
			}
			if c.has(1) != tc.kept {
				t.Fatalf("kept: %v", c.has(1))
			}
		})
	}
	c := newClock[int, string](1 << 10)
	_, _, token := c.get(1)
	c.set(1, "new", 0)
	if got := c.fill(1, token, "old", 0); got != "new" {
		t.Fatalf("a reader that lost the race gets %q", got)
	}
}

// TestTrapS1_ResultsDoNotDependOnWhatIsCached runs a store with caches of any
// size, with evictions at any time, beside one without.
func TestTrapS1_ResultsDoNotDependOnWhatIsCached(t *testing.T) {
	for seed := range uint64(15) {
		rng := seeded(t, seed)
		cached, plain := testOptions(vfs.NewMem()), testOptions(vfs.NewMem())
		cached.RecordCacheBytes = 1 + rng.Int64N(20000)
		cached.TailCacheBytes = 1 + rng.Int64N(100000)
		plain.RecordCacheBytes, plain.TailCacheBytes = -1, -1
		var stores []*Store
		for _, o := range []Options{cached, plain} {
			stores = append(stores, openTest(t, o))
		}
		s := stores[0]
		w, w2 := newWorld(1, 2), newWorld(1, 2)
		w.create(t, s)
		w2.create(t, stores[1])
		for range 1 + rng.IntN(12) {
			seed := rng.Uint64()
			check(t, w.turn(t, s, rand.New(rand.NewPCG(seed, 0))))
			check(t, w2.turn(t, stores[1], rand.New(rand.NewPCG(seed, 0))))
			if rng.IntN(2) == 0 {
				s.records.dropIf(func(recordKey) bool { return rng.IntN(2) == 0 })
				s.tails.dropIf(func(tailKey) bool { return rng.IntN(2) == 0 })
			}
			checkWorld(t, s, w)
			checkWorld(t, stores[1], w2)
		}
		if d := cmp.Diff(groupKeys(t, stores[1], 1), groupKeys(t, s, 1)); d != "" {
			t.Fatal(d)
		}
		if n := stores[1].records.bytes() + stores[1].tails.bytes(); n != 0 {
			t.Fatalf("caches that are off hold %d bytes", n)
		}
	}
}

// TestReadersNeverSeeARecordGoBack reads streams from several goroutines while
// one commits, with caches so small that most reads miss.
func TestReadersNeverSeeARecordGoBack(t *testing.T) {
	const names, turns, readers = 24, 1500, 3
	o := testOptions(vfs.NewMem())
	o.RecordCacheBytes, o.TailCacheBytes = 3000, 3000
	s := openTest(t, o)
	newWorld(1).create(t, s)
	var versions [names]atomic.Uint64 // id<<32 | tail, set after the commit
	var wg sync.WaitGroup
	done := make(chan struct{})
	for r := range readers {
		wg.Go(func() { tortureReader(t, s, &versions, done, uint64(r)) })
	}
	tortureWriter(t, s, &versions, turns)
	close(done)
	wg.Wait()
	for n := range names {
		got, err := s.Lookup(1, modelKey(n))
		check(t, err)
		s.records.dropIf(func(recordKey) bool { return true })
		want, err := s.Lookup(1, modelKey(n))
		check(t, err)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("the cache holds another record than the tables: %s", d)
		}
	}
}

func TestABatchPublishesOnlyTheLastStateOfARecord(t *testing.T) {
	a, b := &stream.Stream{ID: 1}, &stream.Stream{ID: 2}
	x, y := nameKey(1, modelKey(0)), nameKey(1, modelKey(1))
	got := lastOfEach([]batchRecord{{key: x}, {y, record{stream: a}}, {x, record{stream: b}}, {key: y}})
	if len(got) != 2 || got[0].key != x || got[0].val.stream != b || got[1].key != y || got[1].val.stream != nil {
		t.Fatalf("published %+v", got)
	}
}

func tortureWriter(t *testing.T, s *Store, versions *[24]atomic.Uint64, turns int) {
	rng := seeded(t, 99)
	records := map[int]stream.Stream{}
	group := stream.Group{}
	for range turns {
		m := &stream.Mutations{}
		published := map[int]uint64{}
		for range 1 + rng.IntN(3) {
			n := rng.IntN(len(versions))
			if _, ok := published[n]; ok {
				continue
			}
			rec, ok := records[n]
			if ok && rng.IntN(10) == 0 {
				old := rec
				m.Removed = append(m.Removed, &old)
				ok = false
			}
			if !ok {
				group.LastID++
				rec = stream.Stream{ID: group.LastID, Key: modelKey(n)}
			}
			m.Appends = append(m.Appends, stream.Append{Stream: rec.ID, Offset: rec.Tail, Data: []byte{byte(rec.Tail), byte(rec.Tail + 1)}})
			rec.Tail += 2
			records[n] = rec
			put := rec
			m.Put = append(m.Put, &put)
			published[n] = uint64(rec.ID)<<32 | rec.Tail
		}
		g := group
		m.Group = &g
		b := s.NewBatch()
		check(t, b.Apply(1, m))
		check(t, b.Commit())
		for n, v := range published {
			versions[n].Store(v)
		}
	}
}

func tortureReader(t *testing.T, s *Store, versions *[24]atomic.Uint64, done chan struct{}, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var last [24]uint64
	for {
		select {
		case <-done:
			return
		default:
		}
		n := rng.IntN(len(versions))
		floor := max(versions[n].Load(), last[n])
		rec, err := s.Lookup(1, modelKey(n))
		if err != nil {
			t.Error(err)
			return
		}
		if rec == nil {
			if floor > 0 {
				t.Errorf("stream %d is absent, version %x was seen before", n, floor)
				return
			}
			continue
		}
		version := uint64(rec.ID)<<32 | rec.Tail
		if version < floor {
			t.Errorf("stream %d reads version %x after %x", n, version, floor)
			return
		}
		last[n] = version
		data, err := s.ReadBytes(nil, 1, rec.ID, rec.Tail-2, rec.Tail)
		switch {
		case isGone(err): // deleted since the lookup
		case err != nil:
			t.Error(err)
			return
		case len(data) != 2 || data[0] != byte(rec.Tail-2) || data[1] != byte(rec.Tail-1):
			t.Errorf("stream %d at %d reads %v", n, rec.Tail, data)
			return
		}
	}
}

func TestCachedSaysWhatIsAnsweredFromMemory(t *testing.T) {
	o := testOptions(vfs.NewMem())
	s := openTest(t, o)
	newWorld(1).create(t, s)
	key := stream.Key{Bucket: "b", Stream: "s"}
	b := s.NewBatch()
	check(t, b.Apply(1, &stream.Mutations{
		Group: &stream.Group{LastID: 1}, Put: []*stream.Stream{{ID: 1, Key: key, Producers: 1}},
		Producers: []stream.ProducerPut{{Stream: 1, ID: "p", Producer: &stream.Producer{}}},
	}))
	check(t, b.Commit())
	if !s.Cached(1, key) || !s.CachedProducer(1, key, "p") || s.CachedProducer(1, key, "q") {
		t.Fatal("what was just written is in memory, an unknown producer is not")
	}
	if _, err := s.Loader(1).Producer(1, "q"); err != nil || !s.CachedProducer(1, key, "q") {
		t.Fatalf("absence is remembered: %v", err)
	}
	s.records.dropIf(func(recordKey) bool { return true })
	if s.Cached(1, key) || s.CachedProducer(1, key, "p") {
		t.Fatal("an evicted stream is not in memory")
	}
	if _, err := s.Lookup(1, key); err != nil || !s.Cached(1, key) {
		t.Fatalf("a lookup brings it back: %v", err)
	}
}

// TestIdleStreamsCostNoMemory creates far more streams than the cache holds and
// compares the heap after the first of them with the heap after all.
func TestIdleStreamsCostNoMemory(t *testing.T) {
	const first, bound = 10_000, 2 << 20
	all := 100_000
	if raceEnabled {
		all = 40_000
	}
	o := Options{
		FS: vfs.Default, Dir: t.TempDir(), CacheBytes: 2 << 20, MemTableBytes: 1 << 20,
		RecordCacheBytes: bound, TailCacheBytes: bound, Logger: slog.New(slog.DiscardHandler),
	}
	s := openTest(t, o)
	newWorld(1).create(t, s)
	createIdle(t, s, 0, first)
	before := settledHeap(t, s)
	createIdle(t, s, first, all)
	grown := settledHeap(t, s) - before
	st := s.Stats()
	if st.RecordCacheBytes > bound || st.TailCacheBytes > bound {
		t.Fatalf("caches of %d and %d bytes, bound %d", st.RecordCacheBytes, st.TailCacheBytes, bound)
	}
	if st.RecordCacheBytes < bound/2 {
		t.Fatalf("a cache of %d bytes holds only %d", bound, st.RecordCacheBytes)
	}
	// A record takes 400 bytes in memory, and a tail as much.
	if grown > int64(all-first)*800/4 {
		t.Fatalf("%d idle streams cost %d bytes", all-first, grown)
	}
	for _, n := range []int{0, all / 2, all - 1} {
		rec, err := s.Lookup(1, idleKey(n))
		check(t, err)
		if rec == nil || rec.ID != stream.ID(n+1) {
			t.Fatalf("stream %d is %+v", n, rec)
		}
	}
}

func idleKey(n int) stream.Key {
	return stream.Key{Bucket: "bucket", Stream: fmt.Sprintf("stream-%d", n)}
}

func createIdle(t *testing.T, s *Store, from, to int) {
	t.Helper()
	for at := from; at < to; at += 500 {
		m := &stream.Mutations{Group: &stream.Group{LastID: stream.ID(at + 500)}}
		for n := at; n < at+500; n++ {
			m.Put = append(m.Put, &stream.Stream{ID: stream.ID(n + 1), Key: idleKey(n), ContentType: "text/plain", Tail: 4})
			m.Appends = append(m.Appends, stream.Append{Stream: stream.ID(n + 1), Data: []byte("idle")})
		}
		b := s.NewBatch()
		check(t, b.Apply(1, m))
		check(t, b.Commit())
	}
}

// settledHeap returns the heap's size once no flush or compaction holds any of it.
func settledHeap(t *testing.T, s *Store) int64 {
	t.Helper()
	check(t, s.db.Flush())
	for deadline := time.Now().Add(time.Minute); s.db.Metrics().Compact.NumInProgress > 0; {
		if time.Now().After(deadline) {
			t.Fatal("compactions do not end")
		}
		time.Sleep(10 * time.Millisecond)
	}
	return heapBytes()
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestTheCachesCountWhatTheyHold compares the counted bytes with the heap's.
func TestTheCachesCountWhatTheyHold(t *testing.T) {
	before := heapBytes()
	c := newRecords(64 << 20)
	for n := range 50_000 {
		rec := &stream.Stream{ID: stream.ID(n), Key: stream.Key{Bucket: "some-bucket", Stream: fmt.Sprintf("some-stream-%08d", n)}, ContentType: "application/json"}
		c.put(nameKey(1, rec.Key), record{stream: rec})
		c.put(producerKey(1, rec.ID, fmt.Sprintf("producer-%08d", n)), record{producer: &stream.Producer{}})
	}
	real, counted := heapBytes()-before, c.bytes()
	runtime.KeepAlive(c)
	if ratio := float64(real) / float64(counted); ratio > 1.3 || ratio < 0.6 {
		t.Fatalf("counted %d bytes, the heap holds %d", counted, real)
	}
}

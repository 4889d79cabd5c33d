package basestore

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"
)

// clock is a map bounded in bytes that evicts by CLOCK: a used entry survives
// one pass of the hand. It is split into stripes, each with its lock and its
// share of the bound.
//
// Filling from a slower store while a writer changes that store is kept
// coherent by epochs, see fill.
type clock[K comparable, V any] struct {
	seed    maphash.Seed
	stripes []stripe[K, V]
	used    atomic.Int64
}

type stripe[K comparable, V any] struct {
	mu    sync.Mutex
	slots map[K]*slot[K, V]
	hand  *slot[K, V] // of the ring; the newest entry is just behind it
	bytes int64
	bound int64
	total *atomic.Int64 // of all stripes
	// epoch counts the writes that ended, writers those under way.
	epoch   uint64
	writers int
}

type slot[K comparable, V any] struct {
	key        K
	val        V
	prev, next *slot[K, V]
	cost       int64
	used       bool
}

const (
	maxStripes   = 256
	stripeTarget = 128 << 10 // a stripe much smaller evicts what it just took
	mapBytes     = 32        // a map's pointer, control bytes and free slots, per entry
)

// newClock returns a clock of at most bound bytes; 0 keeps nothing.
func newClock[K comparable, V any](bound int64) *clock[K, V] {
	n := 1
	for n < maxStripes && int64(n)*stripeTarget < bound {
		n *= 2
	}
	c := &clock[K, V]{seed: maphash.MakeSeed(), stripes: make([]stripe[K, V], n)}
	for i := range c.stripes {
		c.stripes[i].slots = make(map[K]*slot[K, V])
		c.stripes[i].bound = bound / int64(n)
		c.stripes[i].total = &c.used
	}
	return c
}

// slotBytes is what an entry costs beside what its key and value point to.
func (c *clock[K, V]) slotBytes() int64 {
	var s slot[K, V]
	return int64(unsafe.Sizeof(s)) + int64(unsafe.Sizeof(s.key)) + mapBytes
}

func (c *clock[K, V]) index(k K) int {
	return int(maphash.Comparable(c.seed, k) & uint64(len(c.stripes)-1))
}

// get returns the entry of k. When there is none, the token is for fill.
func (c *clock[K, V]) get(k K) (v V, ok bool, token uint64) {
	s := &c.stripes[c.index(k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.slots[k]; e != nil {
		e.used = true
		return e.val, true, 0
	}
	return v, false, s.epoch
}

// has reports whether k is resident, without marking it used.
func (c *clock[K, V]) has(k K) bool {
	s := &c.stripes[c.index(k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots[k] != nil
}

// fill offers what a reader loaded after a miss and returns what it should
// use. The value is kept only when no write of the stripe was under way or
// ended since the miss: a load that overlaps a write may be older than it.
func (c *clock[K, V]) fill(k K, token uint64, v V, cost int64) V {
	s := &c.stripes[c.index(k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.slots[k]; e != nil {
		e.used = true
		return e.val
	}
	if s.writers == 0 && s.epoch == token {
		s.set(k, v, cost+c.slotBytes())
	}
	return v
}

// view calls fn with the entry of k under its lock.
func (c *clock[K, V]) view(k K, fn func(V)) bool {
	s := &c.stripes[c.index(k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.slots[k]
	if e == nil {
		return false
	}
	e.used = true
	fn(e.val)
	return true
}

// update replaces the entry of k by what fn makes of it.
func (c *clock[K, V]) update(k K, fn func(v V, ok bool) (V, int64)) {
	s := &c.stripes[c.index(k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	var v V
	e := s.slots[k]
	if e != nil {
		v = e.val
	}
	v, cost := fn(v, e != nil)
	s.set(k, v, cost+c.slotBytes())
}

func (c *clock[K, V]) set(k K, v V, cost int64) {
	s := &c.stripes[c.index(k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(k, v, cost+c.slotBytes())
}

func (c *clock[K, V]) drop(k K) {
	s := &c.stripes[c.index(k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.slots[k]; e != nil {
		s.remove(e)
	}
}

// dropIf removes every entry whose key matches.
func (c *clock[K, V]) dropIf(match func(K) bool) {
	for i := range c.stripes {
		s := &c.stripes[i]
		s.mu.Lock()
		for k, e := range s.slots {
			if match(k) {
				s.remove(e)
			}
		}
		s.mu.Unlock()
	}
}

func (c *clock[K, V]) bytes() int64 { return c.used.Load() }

func (s *stripe[K, V]) add(n int64) {
	s.bytes += n
	s.total.Add(n)
}

func (s *stripe[K, V]) set(k K, v V, cost int64) {
	e := s.slots[k]
	if cost > s.bound {
		if e != nil {
			s.remove(e)
		}
		return
	}
	if e == nil {
		s.evict(cost, nil)
		e = &slot[K, V]{key: k}
		s.slots[k] = e
		s.link(e)
	} else {
		// A write is a use: what is written is about to be read.
		e.used = true
		s.evict(cost-e.cost, e)
	}
	s.add(cost - e.cost)
	e.val, e.cost = v, cost
}

// evict makes room for n bytes without removing keep. It ends because one pass
// of the hand clears every used mark, and keep alone fits.
func (s *stripe[K, V]) evict(n int64, keep *slot[K, V]) {
	for s.bytes+n > s.bound && s.hand != nil {
		e := s.hand
		switch {
		case e == keep:
			s.hand = e.next
		case e.used:
			e.used = false
			s.hand = e.next
		default:
			s.remove(e)
		}
	}
}

// link puts e where the hand comes last.
func (s *stripe[K, V]) link(e *slot[K, V]) {
	if s.hand == nil {
		e.prev, e.next, s.hand = e, e, e
		return
	}
	e.prev, e.next = s.hand.prev, s.hand
	e.prev.next, e.next.prev = e, e
}

func (s *stripe[K, V]) remove(e *slot[K, V]) {
	if s.hand == e {
		s.hand = e.next
	}
	if s.hand == e { // it was the only one
		s.hand = nil
	}
	e.prev.next, e.next.prev = e.next, e.prev
	delete(s.slots, e.key)
	s.add(-e.cost)
}

// stripeSet names stripes of one clock.
type stripeSet [maxStripes / 64]uint64

func (b *stripeSet) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *stripeSet) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

// begin announces a write of the stripes: loads that finish before end are not
// kept. Changes of the entries come between the write and end.
func (c *clock[K, V]) begin(set *stripeSet) {
	for i := range c.stripes {
		if s := &c.stripes[i]; set.has(i) {
			s.mu.Lock()
			s.writers++
			s.mu.Unlock()
		}
	}
}

func (c *clock[K, V]) end(set *stripeSet) {
	for i := range c.stripes {
		if s := &c.stripes[i]; set.has(i) {
			s.mu.Lock()
			s.writers--
			s.epoch++
			s.mu.Unlock()
		}
	}
}

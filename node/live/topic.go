package live

import (
	"sort"
	"sync"
	"time"
)

// inlineWakes is how many waiting readers Publish wakes itself. More are woken
// by a goroutine of their own, so that the time Publish takes does not grow
// with the number of readers.
const inlineWakes = 32

// topic is one watched stream: its newest events and who waits for the next.
type topic struct {
	registry *Registry
	key      topicKey
	refs     int // watches; guarded by the shard's lock

	mu      sync.Mutex
	recent  []*Chunk // ascending offsets, not necessarily contiguous
	bytes   int64    // charged by recent
	tail    uint64   // end of the newest published event, 0 before the first
	closed  bool
	ended   Reason
	wake    chan struct{} // closed at the next change; nil while nobody waits
	waiting int           // readers that took wake
}

func (t *topic) publish(ev Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != 0 {
		return
	}
	t.tail, t.closed = ev.To, t.closed || ev.Closed
	if len(ev.Data) > 0 {
		t.keep(ev)
	}
	t.wakeAll()
}

// keep adds the event's bytes to the window, or leaves them to the store when
// they don't fit the bounds.
func (t *topic) keep(ev Event) {
	limits, n := &t.registry.limits, int64(len(ev.Data))
	if n > limits.TopicBytes {
		return
	}
	for len(t.recent) > 0 && (t.bytes+n > limits.TopicBytes || len(t.recent) >= limits.TopicEvents) {
		t.evict()
	}
	if !t.registry.charge(n) {
		return
	}
	c := &Chunk{From: ev.From, To: ev.To, Closed: ev.Closed, topic: t, data: append([]byte(nil), ev.Data...), charged: n}
	c.refs.Store(1)
	t.bytes += n
	t.recent = append(t.recent, c)
}

// evict lets the oldest event go.
func (t *topic) evict() {
	c := t.recent[0]
	t.recent[0] = nil
	t.recent = t.recent[1:]
	t.bytes -= c.charged
	c.evicted = true
	c.Release()
}

func (t *topic) end(reason Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != 0 {
		return
	}
	t.ended = reason
	t.clear()
	t.wakeAll()
}

func (t *topic) clear() {
	for len(t.recent) > 0 {
		t.evict()
	}
	t.recent = nil
}

func (t *topic) wakeAll() {
	if t.wake == nil {
		return
	}
	wake, n := t.wake, t.waiting
	t.wake, t.waiting = nil, 0
	if n <= inlineWakes {
		close(wake)
	} else {
		go close(wake)
	}
}

// at says what a reader at pos can do now; State 0 is to wait.
func (t *topic) at(pos uint64) Update {
	if t.ended != 0 {
		return Update{State: Ended, Reason: t.ended}
	}
	if t.tail > pos {
		i := sort.Search(len(t.recent), func(i int) bool { return t.recent[i].From >= pos })
		if i < len(t.recent) && t.recent[i].From == pos {
			c := t.recent[i]
			c.refs.Add(1)
			return Update{State: Ready, Chunk: c, UpToDate: c.To == t.tail, Closed: c.To == t.tail && t.closed}
		}
		return Update{State: Behind}
	}
	if t.tail == pos && t.closed {
		return Update{State: AtEnd}
	}
	return Update{}
}

// State is what a reader at a position can do.
type State uint8

const (
	// Ready: Update.Chunk holds the event that starts at the position.
	Ready State = iota + 1
	// Behind: bytes after the position are in the store only.
	Behind
	// AtEnd: the stream is closed and the position is its end.
	AtEnd
	// Ended: the watch is over, Update.Reason says why.
	Ended
	// TimedOut and Done: the wait ended by its timer or its done channel.
	TimedOut
	Done
)

// Update is what a watch tells its reader.
type Update struct {
	State  State
	Reason Reason
	// Chunk is set when Ready. The reader releases it.
	Chunk *Chunk
	// UpToDate says that Chunk ends at the tail as of now, Closed that the
	// stream is closed there.
	UpToDate, Closed bool
}

// Watch is one reader's registration. It serves one goroutine.
type Watch struct {
	topic  *topic
	closed bool
}

// Poll says what a reader at pos can do now. ok is false when it has to wait.
func (w *Watch) Poll(pos uint64) (u Update, ok bool) {
	t := w.topic
	t.mu.Lock()
	u = t.at(pos)
	t.mu.Unlock()
	return u, u.State != 0
}

// Next waits until a reader at pos has something to do, or done or timer (both
// may be nil) fires.
func (w *Watch) Next(pos uint64, done <-chan struct{}, timer <-chan time.Time) Update {
	t := w.topic
	for {
		t.mu.Lock()
		if u := t.at(pos); u.State != 0 {
			t.mu.Unlock()
			return u
		}
		if t.wake == nil {
			t.wake = make(chan struct{})
		}
		wake := t.wake
		t.waiting++
		t.mu.Unlock()
		select {
		case <-wake:
		case <-done:
			return Update{State: Done}
		case <-timer:
			return Update{State: TimedOut}
		}
	}
}

// Close ends the registration. The stream's topic goes with its last watch.
func (w *Watch) Close() {
	if w.closed {
		return
	}
	w.closed = true
	t := w.topic
	s := t.registry.shard(t.key)
	s.mu.Lock()
	t.refs--
	last := t.refs == 0
	if last {
		s.drop(t.key, t)
	}
	s.mu.Unlock()
	t.registry.watches.Add(-1)
	if last {
		t.end(Stopped)
	}
}

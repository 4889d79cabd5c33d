package live

import (
	"sync"
	"sync/atomic"
)

// Format is how SSE carries a stream's bytes.
type Format uint8

const (
	// Text: the bytes as data lines; text/* and JSON streams.
	Text Format = iota
	// Base64: standard base64; all other streams.
	Base64
	formats
)

// Chunk is one event's bytes, shared by the readers it wakes.
type Chunk struct {
	From, To uint64
	// Closed says that the same write closed the stream at To.
	Closed bool

	topic *topic
	data  []byte
	refs  atomic.Int32 // the window's and its readers'
	// charged is what the chunk takes of the budgets; evicted says that the
	// window let it go. Both are guarded by the topic's lock, until the last
	// reference is gone.
	charged int64
	evicted bool

	frames [formats]frame
}

type frame struct {
	once  sync.Once
	bytes []byte
	ok    bool
}

// Data returns the event's bytes, valid until Release. They must not be changed.
func (c *Chunk) Data() []byte { return c.data }

// Frame returns the SSE data event of the whole chunk, encoded once for all
// readers, valid until Release. ok is false when the chunk can't be sent as one
// event: its text ends inside a UTF-8 character, or the node's budget is used
// up. The reader then takes the bytes from the store.
func (c *Chunk) Frame(f Format) (data []byte, ok bool) {
	fr := &c.frames[f]
	fr.once.Do(func() { fr.bytes, fr.ok = c.encode(f) })
	return fr.bytes, fr.ok
}

func (c *Chunk) encode(f Format) ([]byte, bool) {
	if f == Text && !c.Closed && TextBoundary(c.data) != len(c.data) {
		return nil, false
	}
	out := AppendData(make([]byte, 0, DataSize(f, c.data)), f, c.data)
	n := int64(cap(out))
	if !c.topic.registry.charge(n) {
		return nil, false
	}
	c.topic.registry.encodes.Add(1)
	t := c.topic
	t.mu.Lock()
	c.charged += n
	if !c.evicted {
		t.bytes += n
	}
	t.mu.Unlock()
	return out, true
}

// Release gives the chunk back.
func (c *Chunk) Release() {
	if c.refs.Add(-1) == 0 {
		c.topic.registry.bytes.Add(-c.charged)
	}
}

package live

import (
	"sync"
	"sync/atomic"

	"runnel.dev/runnel/node/stream"
)

// Event is one applied change to a stream, published after its commit.
type Event struct {
	// From and To are the range its bytes took. They are equal for a close.
	From, To uint64
	// Data holds the bytes [From, To); nil when the publisher kept none, which
	// sends readers to the store. Publish copies it.
	Data []byte
	// Closed says that the stream ended at To.
	Closed bool
}

// Reason says why a watch ended.
type Reason uint8

const (
	// Deleted: the stream the watch was registered for is gone, by a delete, an
	// expiry or a create over an expired one.
	Deleted Reason = iota + 1
	// Moved: the term, the role or the replica changed; another node, or this
	// one in a later term, serves the stream.
	Moved
	// Stopped: the node is going away.
	Stopped
)

// Limits bound what a registry keeps. Zero values take the defaults.
type Limits struct {
	// TopicBytes bounds one stream's window of recent events (default 256 KiB),
	// TopicEvents their number (default 256).
	TopicBytes  int64
	TopicEvents int
	// TotalBytes bounds the windows and encodings of all streams together,
	// including what readers still hold (default 64 MiB).
	TotalBytes int64
}

func (l Limits) withDefaults() Limits {
	if l.TopicBytes <= 0 {
		l.TopicBytes = 256 << 10
	}
	if l.TopicEvents <= 0 {
		l.TopicEvents = 256
	}
	if l.TotalBytes <= 0 {
		l.TotalBytes = 64 << 20
	}
	return l
}

// Stats counts what a registry holds.
type Stats struct {
	Topics, Watches int64
	// Bytes are the event and encoding bytes charged, Encodes the number of
	// shared encodings made since the start.
	Bytes   int64
	Encodes uint64
}

const shardCount = 64

// Registry holds the watched streams of one node.
type Registry struct {
	limits  Limits
	bytes   atomic.Int64
	watches atomic.Int64
	encodes atomic.Uint64
	shards  [shardCount]shard
}

type topicKey struct {
	group uint32
	id    stream.ID
}

type shard struct {
	count  atomic.Int64 // len(topics): lets Publish skip the lock
	mu     sync.RWMutex
	topics map[topicKey]*topic
	_      [64]byte // keeps neighbours' counters off one cache line
}

// NewRegistry returns an empty registry.
func NewRegistry(l Limits) *Registry {
	r := &Registry{limits: l.withDefaults()}
	for i := range r.shards {
		r.shards[i].topics = make(map[topicKey]*topic)
	}
	return r
}

func (r *Registry) shard(k topicKey) *shard {
	h := uint64(k.id)*0x9e3779b97f4a7c15 ^ uint64(k.group)*0xc2b2ae3d27d4eb4f
	return &r.shards[h>>58]
}

// lookup returns the topic of k, nil when nobody watches it.
func (r *Registry) lookup(k topicKey) *topic {
	s := r.shard(k)
	if s.count.Load() == 0 {
		return nil
	}
	s.mu.RLock()
	t := s.topics[k]
	s.mu.RUnlock()
	return t
}

// Publish tells the watchers of a stream what was applied, in the order of
// its offsets. It never blocks on a reader, and for a stream that nobody
// watches it costs one lookup.
func (r *Registry) Publish(group uint32, id stream.ID, ev Event) {
	if t := r.lookup(topicKey{group, id}); t != nil {
		t.publish(ev)
	}
}

// Watched says whether a stream has watchers: whether Publish would do
// anything. Publishers ask it before they gather an event's bytes.
func (r *Registry) Watched(group uint32, id stream.ID) bool {
	return r.lookup(topicKey{group, id}) != nil
}

// End ends every watch of one stream. Watches registered later start anew.
func (r *Registry) End(group uint32, id stream.ID, reason Reason) {
	k := topicKey{group, id}
	s := r.shard(k)
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	t := s.topics[k]
	s.drop(k, t)
	s.mu.Unlock()
	if t != nil {
		t.end(reason)
	}
}

// EndGroup ends every watch of a group: its term or role changed, a snapshot
// was ingested, or the replica is being removed.
func (r *Registry) EndGroup(group uint32, reason Reason) {
	r.endWhere(reason, func(k topicKey) bool { return k.group == group })
}

// EndAll ends every watch of the node.
func (r *Registry) EndAll(reason Reason) {
	r.endWhere(reason, func(topicKey) bool { return true })
}

func (r *Registry) endWhere(reason Reason, match func(topicKey) bool) {
	for i := range r.shards {
		s := &r.shards[i]
		if s.count.Load() == 0 {
			continue
		}
		var ended []*topic
		s.mu.Lock()
		for k, t := range s.topics {
			if match(k) {
				s.drop(k, t)
				ended = append(ended, t)
			}
		}
		s.mu.Unlock()
		for _, t := range ended {
			t.end(reason)
		}
	}
}

// drop forgets t, if it is still the topic of k. The shard is locked.
func (s *shard) drop(k topicKey, t *topic) {
	if t != nil && s.topics[k] == t {
		delete(s.topics, k)
		s.count.Store(int64(len(s.topics)))
	}
}

// Watch registers a reader for one stream. Events published after it returns
// are seen by the watch.
func (r *Registry) Watch(group uint32, id stream.ID) *Watch {
	k := topicKey{group, id}
	s := r.shard(k)
	s.mu.Lock()
	t := s.topics[k]
	if t == nil {
		t = &topic{registry: r, key: k}
		s.topics[k] = t
		s.count.Store(int64(len(s.topics)))
	}
	t.refs++
	s.mu.Unlock()
	r.watches.Add(1)
	return &Watch{topic: t}
}

// Stats returns the current counts.
func (r *Registry) Stats() Stats {
	st := Stats{Watches: r.watches.Load(), Bytes: r.bytes.Load(), Encodes: r.encodes.Load()}
	for i := range r.shards {
		st.Topics += r.shards[i].count.Load()
	}
	return st
}

// charge takes n bytes of the node's budget, or says no.
func (r *Registry) charge(n int64) bool {
	if r.bytes.Add(n) > r.limits.TotalBytes {
		r.bytes.Add(-n)
		return false
	}
	return true
}

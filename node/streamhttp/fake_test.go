package streamhttp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/stream"
)

const testGroup = 7

// fake is a one-group node in memory: the real state machine and codec over
// maps, with the replication left out.
type fake struct {
	registry *live.Registry
	// loc is what Locate answers.
	loc atomic.Pointer[Location]
	// skew moves the node's clock.
	skew atomic.Int64

	// Hooks, set before the first request. A non-nil error is answered in place
	// of the operation.
	onPropose func(*stream.Command) error
	onConfirm func() error

	proposes, confirms, touches, expires, reads atomic.Int64

	mu        sync.Mutex
	group     *stream.Group
	byKey     map[stream.Key]*stream.Stream
	byID      map[stream.ID]*stream.Stream
	producers map[stream.ID]map[string]*stream.Producer
	data      map[stream.ID][]byte
	last      stream.Command // the newest proposed, payload copied
}

func newFake() *fake {
	f := &fake{
		registry:  live.NewRegistry(live.Limits{}),
		group:     &stream.Group{Histories: []uint64{1}},
		byKey:     map[stream.Key]*stream.Stream{},
		byID:      map[stream.ID]*stream.Stream{},
		producers: map[stream.ID]map[string]*stream.Producer{},
		data:      map[stream.ID][]byte{},
	}
	f.lead()
	return f
}

func (f *fake) lead() {
	f.loc.Store(&Location{Group: testGroup, Hosted: true, Leads: true, LeaderID: 1, Term: 3, LeaderURL: "http://self.invalid"})
}

// follow makes the node a follower of a leader elsewhere.
func (f *fake) follow() {
	f.loc.Store(&Location{Group: testGroup, Hosted: true, LeaderID: 2, Term: 4, LeaderURL: "http://leader.invalid:4437"})
	f.registry.EndGroup(testGroup, live.Moved)
}

func (f *fake) ClusterID() string          { return "cluster-1" }
func (f *fake) Now() time.Time             { return time.Now().Add(time.Duration(f.skew.Load())) }
func (f *fake) advance(d time.Duration)    { f.skew.Add(int64(d)) }
func (f *fake) Locate(stream.Key) Location { return *f.loc.Load() }

func (f *fake) serving() error {
	switch loc := f.loc.Load(); {
	case !loc.Hosted:
		return raftgroup.ErrNoReplica
	case !loc.Leads:
		return raftgroup.ErrNotLeader
	}
	return nil
}

func (f *fake) Propose(_ context.Context, _ uint32, c *stream.Command) (stream.Result, error) {
	f.proposes.Add(1)
	if f.onPropose != nil {
		if err := f.onPropose(c); err != nil {
			return stream.Result{}, err
		}
	}
	if err := f.serving(); err != nil {
		return stream.Result{}, err
	}
	return f.apply(c)
}

// apply runs a command as its log entry would.
func (f *fake) apply(c *stream.Command) (stream.Result, error) {
	var cmd stream.Command
	entry := append(stream.AppendHeader(nil, c), c.Payload...)
	if err := stream.Decode(entry, &cmd); err != nil {
		return stream.Result{}, err
	}
	f.mu.Lock()
	f.last = cmd
	tx := stream.NewTx((*loader)(f))
	r, err := tx.Apply(&cmd, uint64(f.Now().UnixMilli()))
	if err != nil {
		f.mu.Unlock()
		return r, err
	}
	m := tx.Mutations()
	if m.Group != nil {
		f.group = m.Group
	}
	for _, s := range m.Removed {
		delete(f.byKey, s.Key)
		delete(f.byID, s.ID)
		delete(f.producers, s.ID)
		delete(f.data, s.ID)
	}
	for _, s := range m.Put {
		f.byKey[s.Key], f.byID[s.ID] = s, s
	}
	for _, p := range m.Producers {
		if f.producers[p.Stream] == nil {
			f.producers[p.Stream] = map[string]*stream.Producer{}
		}
		f.producers[p.Stream][p.ID] = p.Producer
	}
	for _, a := range m.Appends {
		f.data[a.Stream] = append(f.data[a.Stream], a.Data...)
	}
	f.mu.Unlock()
	f.publish(m, &r)
	return r, nil
}

func (f *fake) publish(m *stream.Mutations, r *stream.Result) {
	closes := r.ClosedByWrite && r.Outcome == stream.Appended
	for _, a := range m.Appends {
		to := a.Offset + uint64(len(a.Data))
		f.registry.Publish(testGroup, a.Stream, live.Event{From: a.Offset, To: to, Data: a.Data, Closed: closes})
	}
	if closes && len(m.Appends) == 0 {
		f.registry.Publish(testGroup, r.Stream.ID, live.Event{From: r.Stream.Tail, To: r.Stream.Tail, Closed: true})
	}
	for _, s := range m.Removed {
		f.registry.End(testGroup, s.ID, live.Deleted)
	}
}

func (f *fake) Confirm(context.Context, uint32) error {
	f.confirms.Add(1)
	if f.onConfirm != nil {
		if err := f.onConfirm(); err != nil {
			return err
		}
	}
	return f.serving()
}

func (f *fake) Lookup(_ uint32, key stream.Key) (*stream.Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKey[key], nil
}

func (f *fake) Read(dst []byte, _ uint32, id stream.ID, from, to uint64) ([]byte, error) {
	f.reads.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	data, ok := f.data[id]
	if !ok && f.byID[id] == nil || uint64(len(data)) < to {
		return dst, ErrGone
	}
	return append(dst, data[from:to]...), nil
}

func (f *fake) Watch(group uint32, id stream.ID) *live.Watch { return f.registry.Watch(group, id) }

func (f *fake) Touch(_ context.Context, _ uint32, id stream.ID) error {
	f.touches.Add(1)
	if err := f.serving(); err != nil {
		return err
	}
	_, err := f.apply(&stream.Command{Kind: stream.KindTouch, IDs: []stream.ID{id}})
	return err
}

func (f *fake) Expire(_ context.Context, _ uint32, id stream.ID) error {
	f.expires.Add(1)
	if err := f.serving(); err != nil {
		return err
	}
	_, err := f.apply(&stream.Command{Kind: stream.KindExpire, IDs: []stream.ID{id}})
	return err
}

// loader is the fake as the state machine sees it.
type loader fake

func (l *loader) Group() (*stream.Group, error) { return l.group, nil }

func (l *loader) Lookup(key stream.Key) (*stream.Stream, error) { return l.byKey[key], nil }

func (l *loader) Stream(id stream.ID) (*stream.Stream, error) { return l.byID[id], nil }

func (l *loader) Producer(id stream.ID, producer string) (*stream.Producer, error) {
	return l.producers[id][producer], nil
}

package apply

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/basestore"
	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/meta"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/stream"
)

const group = 1

var key = stream.Key{Bucket: "bucket", Stream: "stream"}

type world struct {
	t        *testing.T
	store    *basestore.Store
	registry *live.Registry
	machine  *Machine
	told     []*meta.State
	index    map[uint32]uint64
}

func open(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, registry: live.NewRegistry(live.Limits{}), index: map[uint32]uint64{}}
	var err error
	w.store, err = basestore.Open(basestore.Options{FS: vfs.NewMem(), Dir: "base"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	for g, id := range map[uint32]uint64{MetaGroup: 1, group: 2} {
		if err := w.store.CreateReplica(basestore.Replica{Group: g, ID: id}, stream.Group{Histories: []uint64{5}}); err != nil {
			t.Fatal(err)
		}
	}
	if w.machine, err = New(w.store, w.registry, func(s *meta.State) { w.told = append(w.told, s) }); err != nil {
		t.Fatal(err)
	}
	return w
}

func encode(c *stream.Command) []byte { return append(stream.AppendHeader(nil, c), c.Payload...) }

// apply runs commands of the data group in a batch and marks them.
func (w *world) apply(b raftgroup.Batch, cmds ...*stream.Command) []*stream.Result {
	w.t.Helper()
	var encoded [][]byte
	for _, c := range cmds {
		encoded = append(encoded, encode(c))
	}
	w.index[group]++
	results, err := b.Apply(group, w.index[group], 2, 1000, encoded)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := b.Mark(group, 2, w.index[group], 2, nil); err != nil {
		w.t.Fatal(err)
	}
	var out []*stream.Result
	for _, r := range results {
		out = append(out, r.(*stream.Result))
	}
	return out
}

func (w *world) run(cmds ...*stream.Command) []*stream.Result {
	w.t.Helper()
	b := w.machine.Begin()
	out := w.apply(b, cmds...)
	if err := b.Commit(); err != nil {
		w.t.Fatal(err)
	}
	b.Publish()
	return out
}

func create() *stream.Command {
	return &stream.Command{Kind: stream.KindCreate, Key: key, ContentType: "text/plain"}
}

func appendOf(body string, closes bool) *stream.Command {
	return &stream.Command{Kind: stream.KindAppend, Key: key, MediaType: "text/plain", Payload: []byte(body), Close: closes}
}

func TestWatchersAreWokenAtPublishAndSeeBytesBeforeTheEnd(t *testing.T) {
	w := open(t)
	id := w.run(create())[0].Stream.ID
	watch := w.registry.Watch(group, id)
	defer watch.Close()
	b := w.machine.Begin()
	w.apply(b, appendOf("one", false), appendOf("two", true))
	if _, ok := watch.Poll(0); ok {
		t.Error("woken before the commit")
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, ok := watch.Poll(0); ok {
		t.Error("woken before the writers were answered")
	}
	if st, err := w.store.Lookup(group, key); err != nil || st == nil || st.Tail != 6 || !st.Closed {
		t.Errorf("committed record %+v, %v", st, err)
	}
	b.Publish()
	pos := uint64(0)
	for _, want := range []struct {
		data   string
		closed bool
	}{{"one", false}, {"two", true}} {
		u, ok := watch.Poll(pos)
		if !ok || u.State != live.Ready || string(u.Chunk.Data()) != want.data || u.Closed != want.closed {
			t.Fatalf("at %d: %+v, want %q closed %v", pos, u, want.data, want.closed)
		}
		pos = u.Chunk.To
		u.Chunk.Release()
	}
}

func TestADeleteEndsItsWatchersAfterItsLastBytes(t *testing.T) {
	w := open(t)
	id := w.run(create())[0].Stream.ID
	watch := w.registry.Watch(group, id)
	defer watch.Close()
	w.run(appendOf("last", false))
	w.run(&stream.Command{Kind: stream.KindDelete, Key: key})
	u, ok := watch.Poll(4)
	if !ok || u.State != live.Ended || u.Reason != live.Deleted {
		t.Errorf("%+v, want the end by delete", u)
	}
}

// A batch that is dropped because another group's apply failed is run again.
func TestADiscardedBatchHasHappenedNowhere(t *testing.T) {
	w := open(t)
	id := w.run(create())[0].Stream.ID
	watch := w.registry.Watch(group, id)
	defer watch.Close()
	for range 3 {
		b := w.machine.Begin()
		if r := w.apply(b, appendOf("body", false))[0]; r.Start != 0 || r.End != 4 {
			t.Fatalf("range %d to %d, want 0 to 4", r.Start, r.End)
		}
		b.Discard()
		w.index[group]--
	}
	if _, ok := watch.Poll(0); ok {
		t.Error("a dropped batch woke a watcher")
	}
	if r := w.run(appendOf("body", false))[0]; r.End != 4 {
		t.Errorf("the run after the dropped ones ends at %d, want 4", r.End)
	}
	got, err := w.store.ReadBytes(nil, group, id, 0, 4)
	if err != nil || string(got) != "body" {
		t.Errorf("stored %q, %v", got, err)
	}
}

func metaCommand(t *testing.T, c *meta.Command) []byte {
	t.Helper()
	b, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheClustersStateIsVisibleAfterTheCommitAndToldAtPublish(t *testing.T) {
	w := open(t)
	init := &meta.Command{Init: &meta.Init{
		ClusterID: "c", Token: "t", Groups: 4, ReplicationFactor: 1, InitialNodes: 1, Node: meta.AddNode{Token: "first"},
	}}
	join := &meta.Command{AddNode: &meta.AddNode{Token: "second"}}
	b := w.machine.Begin()
	results, err := b.Apply(MetaGroup, 1, 1, 1000, [][]byte{metaCommand(t, init), metaCommand(t, join), metaCommand(t, join)})
	if err != nil {
		t.Fatal(err)
	}
	var ids []uint64
	for _, r := range results {
		ids = append(ids, r.(meta.Node).ID)
	}
	if !slices.Equal(ids, []uint64{1, 2, 2}) {
		t.Errorf("node ids %v, want 1, 2 and 2 again", ids)
	}
	if err := b.Mark(MetaGroup, 1, 1, 1, nil); err != nil {
		t.Fatal(err)
	}
	if w.machine.Meta().Initialized() {
		t.Error("visible before the commit")
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if s := w.machine.Meta(); !s.Initialized() || len(s.Nodes) != 2 || len(s.Groups) != 4 {
		t.Errorf("committed state %+v", s)
	}
	if len(w.told) != 0 {
		t.Error("told before publish")
	}
	b.Publish()
	if len(w.told) != 1 || w.told[0] != w.machine.Meta() {
		t.Errorf("told %v", w.told)
	}
	again, err := New(w.store, w.registry, nil)
	if err != nil || len(again.Meta().Nodes) != 2 || again.Meta().ClusterID != "c" {
		t.Errorf("state after a restart: %+v, %v", again.Meta(), err)
	}
}

func TestTrapR14_ACommandOfAnotherVersionIsAnErrorAndChangesNothing(t *testing.T) {
	w := open(t)
	w.run(create())
	for name, try := range map[string]func(b raftgroup.Batch) error{
		"meta": func(b raftgroup.Batch) error {
			_, err := b.Apply(MetaGroup, 1, 1, 1000, [][]byte{{0xff, '{', '}'}})
			if !errors.Is(err, meta.ErrUnsupported) {
				t.Errorf("meta: %v, want %v", err, meta.ErrUnsupported)
			}
			return err
		},
		"data": func(b raftgroup.Batch) error {
			_, err := b.Apply(group, 2, 2, 1000, [][]byte{encode(appendOf("x", false)), {0xff}})
			return err
		},
	} {
		b := w.machine.Begin()
		if try(b) == nil {
			t.Errorf("%s: no error", name)
		}
		b.Discard()
	}
	if st, err := w.store.Lookup(group, key); err != nil || st.Tail != 0 {
		t.Errorf("record %+v, %v: a failed entry left something", st, err)
	}
}

func TestRecoverTellsWhatWasMarked(t *testing.T) {
	w := open(t)
	w.run(create())
	w.run(appendOf("x", false))
	a, err := w.machine.Recover(group, 2)
	if err != nil || a.Index != 2 || a.Term != 2 {
		t.Errorf("applied %+v, %v, want index 2 of term 2", a, err)
	}
	if a, err := w.machine.Recover(group, 3); err != nil || a.Index != 0 {
		t.Errorf("another replica's %+v, %v, want nothing", a, err)
	}
	if a, err := w.machine.Recover(9, 3); err != nil || a.Index != 0 {
		t.Errorf("an unknown group's %+v, %v, want nothing", a, err)
	}
}

package apply

import (
	"fmt"

	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/basestore"
	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/meta"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/stream"
)

// batch is the open write of one shard turn: the changes of every group that
// had committed entries in it.
type batch struct {
	machine *Machine
	store   *basestore.Batch
	groups  []*groupRun
	// meta is the meta group's state after this batch; nil when unchanged.
	meta *meta.State
}

// groupRun is one data group's share of the batch.
type groupRun struct {
	group   uint32
	tx      *stream.Tx
	changes *stream.Mutations
	// closed are the streams that a command of this run closed, with their tails.
	closed []closedStream
}

type closedStream struct {
	id   stream.ID
	tail uint64
}

func (b *batch) Apply(group raftgroup.GroupID, _, _, stamp uint64, cmds [][]byte) ([]any, error) {
	if group == MetaGroup {
		return b.applyMeta(cmds)
	}
	run := b.run(group)
	answers := make([]stream.Result, len(cmds))
	results := make([]any, len(cmds))
	var cmd stream.Command
	for i, c := range cmds {
		if err := stream.Decode(c, &cmd); err != nil {
			return nil, fmt.Errorf("group %d: command %d: %w", group, i, err)
		}
		var err error
		if answers[i], err = run.tx.Apply(&cmd, stamp); err != nil {
			return nil, fmt.Errorf("group %d: command %d: %w", group, i, err)
		}
		if r := &answers[i]; r.ClosedByWrite && r.Outcome == stream.Appended {
			run.closed = append(run.closed, closedStream{r.Stream.ID, r.Stream.Tail})
		}
		results[i] = &answers[i]
	}
	return results, nil
}

func (b *batch) run(group uint32) *groupRun {
	for _, r := range b.groups {
		if r.group == group {
			return r
		}
	}
	loader := b.machine.store.Loader(group)
	r, ok := b.machine.runs.Get().(*groupRun)
	if ok {
		r.tx.Reset(loader)
	} else {
		r = &groupRun{tx: stream.NewTx(loader)}
	}
	r.group = group
	b.groups = append(b.groups, r)
	return r
}

// recycle gives the runs' memory back; nothing of them is used after it.
func (b *batch) recycle() {
	for _, r := range b.groups {
		r.changes, r.closed = nil, r.closed[:0]
		b.machine.runs.Put(r)
	}
	b.groups = nil
}

func (b *batch) applyMeta(cmds [][]byte) ([]any, error) {
	results := make([]any, len(cmds))
	for i, c := range cmds {
		cmd, err := meta.DecodeCommand(c)
		if err != nil {
			return nil, err
		}
		state := b.meta
		if state == nil {
			state = b.machine.Meta()
		}
		next, result, err := state.Apply(cmd)
		if err != nil {
			return nil, err
		}
		if next != nil {
			b.meta = next
		}
		results[i] = result
	}
	return results, nil
}

func (b *batch) Mark(group raftgroup.GroupID, replica, index, term uint64, conf *raftpb.ConfState) error {
	return b.store.Mark(group, replica, index, term, conf)
}

// Commit writes all changes at once, without a sync.
func (b *batch) Commit() error {
	for _, r := range b.groups {
		r.changes = r.tx.Mutations()
		if err := b.store.Apply(r.group, r.changes); err != nil {
			return err
		}
	}
	if b.meta != nil {
		blob, err := b.meta.Encode()
		if err != nil {
			return err
		}
		if err := b.store.PutBlob(MetaGroup, stateKey, blob); err != nil {
			return err
		}
	}
	if err := b.store.Commit(); err != nil {
		return err
	}
	if b.meta != nil {
		b.machine.meta.Store(b.meta)
	}
	return nil
}

// Publish wakes watchers: bytes first, then closes, then the ends of removed
// streams, so that a reader sees a final append before the end it came with.
func (b *batch) Publish() {
	for _, r := range b.groups {
		for i := range r.changes.Appends {
			a := &r.changes.Appends[i]
			ev := live.Event{From: a.Offset, To: a.Offset + uint64(len(a.Data)), Data: a.Data}
			ev.Closed = r.closes(a.Stream, ev.To)
			b.machine.live.Publish(r.group, a.Stream, ev)
		}
		for _, c := range r.closed {
			b.machine.live.Publish(r.group, c.id, live.Event{From: c.tail, To: c.tail, Closed: true})
		}
		for _, s := range r.changes.Removed {
			b.machine.live.End(r.group, s.ID, live.Deleted)
		}
	}
	b.recycle()
	if b.meta != nil && b.machine.onMeta != nil {
		b.machine.onMeta(b.meta)
	}
}

// closes reports whether the append that ends at tail came with the close, and
// takes that close off the list: both are one event.
func (r *groupRun) closes(id stream.ID, tail uint64) bool {
	for i, c := range r.closed {
		if c.id == id && c.tail == tail {
			r.closed = append(r.closed[:i], r.closed[i+1:]...)
			return true
		}
	}
	return false
}

func (b *batch) Discard() {
	b.store.Discard()
	b.recycle()
}

package raftgroup

import (
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

// GroupID names a group: 0 is the meta group, data group i (key hash modulo the
// count) is i+1.
type GroupID = uint32

// Machine is the applied state under all groups of the node.
type Machine interface {
	// Recover returns what the base store holds for a replica; zero Index when
	// it has applied nothing.
	Recover(group GroupID, replica uint64) (Applied, error)
	// Begin opens a write batch shared by the groups of one shard turn. A shard
	// has at most one open batch; shards call concurrently.
	Begin() Batch
}

// Applied is the position that a base store's state stands for: C, the term of
// the entry at C, and the configuration at C.
type Applied struct {
	Index, Term uint64
	Conf        raftpb.ConfState
}

// Batch collects what one turn applies. An error of Apply stops one replica; an
// error of Mark or Commit stops the node.
//
// When an Apply fails the shard discards the whole batch and applies the turn
// again into a new one, without the failing entry and what follows it in that
// group. So Apply must not have effects outside of its batch.
type Batch interface {
	// Apply applies the commands of one committed entry and sees what earlier
	// calls on this batch did. results[i] answers cmds[i]. cmds alias the
	// entry's memory, which never changes; the cmds slice itself is reused.
	Apply(group GroupID, index, term, stampMillis uint64, cmds [][]byte) (results []any, err error)
	// Mark records that the replica has applied up to index; conf is set when
	// the configuration changed since the last Mark.
	Mark(group GroupID, replica uint64, index, term uint64, conf *raftpb.ConfState) error
	// Commit makes the batch visible, without a sync. Waiters are answered after
	// it, then Publish is called.
	Commit() error
	// Publish wakes watchers of what was committed.
	Publish()
	// Discard drops an uncommitted batch.
	Discard()
}

// WAL is what a shard needs of the node's log; *wal.Log is it.
type WAL interface {
	// Enqueue takes a write without waiting; its Done is called once, after the
	// sync or the failure.
	Enqueue(*wal.Write)
	// ReadRange reads entries back, at least one and at most about maxBytes.
	ReadRange(refs []wal.Ref, maxBytes uint64) ([]raftpb.Entry, error)
}

// Message is a Raft message of a group.
type Message struct {
	Group GroupID
	raftpb.Message
}

// Sender takes messages to other replicas. Send must not block, may drop, and
// must not keep the slice after it returns (the messages it may keep).
type Sender interface{ Send(msgs []Message) }

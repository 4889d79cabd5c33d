package raftgroup

import (
	"fmt"
	"sync/atomic"

	"go.etcd.io/etcd/raft/v3"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

const (
	// entryOverhead is what a cached entry costs beyond its data.
	entryOverhead = 64
	// sendRead bounds one read from the log for a message to a lagging
	// follower, applyRead one for entries to apply.
	sendRead  = 1 << 20
	applyRead = 4 << 20
	// turnReads bounds what one turn reads from the log for followers, so that
	// one that lags holds up no other group of the shard.
	turnReads = 4 << 20
)

// replicaLog is the synced part of a replica's log as Raft sees it
// (raft.Storage): the newest entries in memory, all others by their place in
// the node's log. Owned by the shard.
type replicaLog struct {
	wal  WAL
	hard raftpb.HardState // for NewRawNode only
	conf raftpb.ConfState // for NewRawNode only

	mark wal.Mark // the log starts after it
	refs refList

	// tail are the entries from tailFirst to the last, in memory. Its array is
	// shared with messages on their way out, so it is never written again.
	tail      []raftpb.Entry
	tailFirst uint64
	tailBytes int64
	evicted   int // entries in front of tail that its array still holds
	limit     int64
	cache     *cacheBudget
	fresh     bool // appended to since the last idle trim

	// applying is true inside RawNode.Ready: entries are wanted for apply, where
	// an error is fatal. Elsewhere they are wanted for a follower, where "not
	// now" is an answer.
	applying bool
	turn     *turnState
	refBuf   []wal.Ref
}

// turnState is what the logs of a shard share within one turn.
type turnState struct {
	reads int64 // what is left of turnReads
	err   error // the first read error; it stops the node at the turn's end
}

// cacheBudget bounds the entries that all replicas of the node keep in memory.
type cacheBudget struct {
	bytes atomic.Int64
	limit int64
}

var _ raft.Storage = (*replicaLog)(nil)

func newReplicaLog(w WAL, r recovered, limit int64, cache *cacheBudget, turn *turnState) *replicaLog {
	l := &replicaLog{wal: w, hard: r.hard, conf: r.conf, mark: r.mark, limit: limit, cache: cache, turn: turn}
	l.refs.first = r.mark.Index + 1
	for _, ref := range r.refs {
		l.refs.push(ref)
	}
	l.tailFirst = l.last() + 1
	return l
}

func (l *replicaLog) last() uint64 { return l.refs.first + l.refs.n - 1 }

// InitialState is Raft's starting point: the hard state, and the configuration
// at the applied index.
func (l *replicaLog) InitialState() (raftpb.HardState, raftpb.ConfState, error) {
	return l.hard, l.conf, nil
}

func (l *replicaLog) FirstIndex() (uint64, error) { return l.mark.Index + 1, nil }

func (l *replicaLog) LastIndex() (uint64, error) { return l.last(), nil }

// Snapshot is never available: nothing cuts the log, so nobody needs one. The
// answer also makes Raft come back later for entries that were not read now.
func (l *replicaLog) Snapshot() (raftpb.Snapshot, error) {
	return raftpb.Snapshot{}, raft.ErrSnapshotTemporarilyUnavailable
}

func (l *replicaLog) Term(i uint64) (uint64, error) {
	switch {
	case i < l.mark.Index:
		return 0, raft.ErrCompacted
	case i == l.mark.Index:
		return l.mark.Term, nil
	case i > l.last():
		return 0, raft.ErrUnavailable
	case i >= l.tailFirst:
		return l.tail[i-l.tailFirst].Term, nil
	}
	return l.refs.at(i).Term, nil
}

// Entries returns entries of [lo, hi), at least one and at most what one of
// memory and log holds. For a follower it answers ErrCompacted when the turn
// has read enough; Raft then asks for a snapshot, gets none, and tries again at
// the follower's next sign of life.
func (l *replicaLog) Entries(lo, hi, maxSize uint64) ([]raftpb.Entry, error) {
	if lo <= l.mark.Index {
		return nil, raft.ErrCompacted
	}
	if hi > l.last()+1 || lo >= hi {
		return nil, raft.ErrUnavailable
	}
	if lo >= l.tailFirst {
		return limitEntries(l.tail[lo-l.tailFirst:hi-l.tailFirst], maxSize), nil
	}
	bound := uint64(applyRead)
	if !l.applying {
		if l.turn.reads <= 0 {
			return nil, raft.ErrCompacted
		}
		bound = sendRead
	}
	bound = min(bound, maxSize)
	l.refBuf = l.refBuf[:0]
	size := uint64(0)
	for i := lo; i < min(hi, l.tailFirst); i++ {
		ref := l.refs.at(i)
		size += uint64(ref.Size) + entryOverhead
		if len(l.refBuf) > 0 && size > bound {
			break
		}
		l.refBuf = append(l.refBuf, ref)
	}
	ents, err := l.wal.ReadRange(l.refBuf, bound)
	if err == nil && (len(ents) == 0 || ents[0].Index != lo) {
		err = fmt.Errorf("log returned %d entries for index %d", len(ents), lo)
	}
	if err != nil {
		if l.turn.err == nil {
			l.turn.err = fmt.Errorf("read the log at index %d: %w", lo, err)
		}
		return nil, raft.ErrCompacted
	}
	if !l.applying {
		for i := range ents {
			l.turn.reads -= int64(len(ents[i].Data)) + entryOverhead
		}
	}
	return limitEntries(ents, maxSize), nil
}

// limitEntries cuts ents to maxSize bytes, keeping at least one. The capacity
// is cut too: nobody may append into the shared array.
func limitEntries(ents []raftpb.Entry, maxSize uint64) []raftpb.Entry {
	size := uint64(0)
	for i := range ents {
		size += uint64(ents[i].Size())
		if i > 0 && size > maxSize {
			return ents[:i:i]
		}
	}
	return ents[:len(ents):len(ents)]
}

// append takes entries that the log has synced. They replace what was at or
// above the first one's index.
func (l *replicaLog) append(ents []raftpb.Entry, refs []wal.Ref) error {
	if len(ents) != len(refs) {
		return fmt.Errorf("log gave %d places for %d entries", len(refs), len(ents))
	}
	if len(ents) == 0 {
		return nil
	}
	first := ents[0].Index
	if first <= l.mark.Index || first > l.last()+1 {
		return fmt.Errorf("entries start at %d, the log holds (%d, %d]", first, l.mark.Index, l.last())
	}
	if first <= l.last() {
		l.truncate(first)
	}
	added := int64(0)
	for i := range ents {
		l.refs.push(refs[i])
		added += int64(len(ents[i].Data)) + entryOverhead
	}
	l.tail = append(l.tail, ents...)
	l.tailBytes += added
	l.cache.bytes.Add(added)
	l.fresh = true
	over := l.tailBytes - l.limit
	if node := l.cache.bytes.Load() - l.cache.limit; node > over {
		over = min(node, l.tailBytes-l.limit/16)
	}
	l.evict(over)
	return nil
}

// truncate drops everything from index on. The array stays as it is for those
// who still read it: what follows is written to a new one.
func (l *replicaLog) truncate(index uint64) {
	l.refs.truncate(index)
	keep := 0
	if index > l.tailFirst {
		keep = int(index - l.tailFirst)
	} else {
		l.tailFirst = index
	}
	for _, e := range l.tail[keep:] {
		l.drop(&e)
	}
	l.tail = append([]raftpb.Entry(nil), l.tail[:keep]...)
	l.evicted = 0
}

func (l *replicaLog) drop(e *raftpb.Entry) {
	n := int64(len(e.Data)) + entryOverhead
	l.tailBytes -= n
	l.cache.bytes.Add(-n)
}

// evict forgets at least over bytes of the oldest entries in memory, if it has
// so many. The array is replaced once most of it is unused.
func (l *replicaLog) evict(over int64) {
	n := 0
	for over > 0 && n < len(l.tail) {
		e := &l.tail[n]
		over -= int64(len(e.Data)) + entryOverhead
		l.drop(e)
		n++
	}
	if n == 0 {
		return
	}
	l.tail = l.tail[n:]
	l.tailFirst += uint64(n)
	l.evicted += n
	if l.evicted > len(l.tail) {
		l.tail = append([]raftpb.Entry(nil), l.tail...)
		l.evicted = 0
	}
}

// trimIdle lets go of the entries of a group that was quiet since the last
// call, but for a few.
func (l *replicaLog) trimIdle() {
	if !l.fresh {
		l.evict(l.tailBytes - l.limit/64)
	}
	l.fresh = false
}

// release gives the memory back at the end.
func (l *replicaLog) release() { l.evict(l.tailBytes) }

// refList is a list of places in blocks: growing it copies nothing.
type refList struct {
	first  uint64
	n      uint64
	blocks []*[refBlock]wal.Ref
}

const refBlock = 512

func (r *refList) push(ref wal.Ref) {
	b, i := r.n/refBlock, r.n%refBlock
	if b == uint64(len(r.blocks)) {
		r.blocks = append(r.blocks, new([refBlock]wal.Ref))
	}
	r.blocks[b][i] = ref
	r.n++
}

func (r *refList) at(index uint64) wal.Ref {
	i := index - r.first
	return r.blocks[i/refBlock][i%refBlock]
}

// truncate drops the places from index on.
func (r *refList) truncate(index uint64) {
	r.n = index - r.first
	used := (r.n + refBlock - 1) / refBlock
	clear(r.blocks[used:])
	r.blocks = r.blocks[:used]
}

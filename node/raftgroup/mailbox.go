package raftgroup

import (
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

// mailbox is how everything outside of a shard reaches it. Messages and calls
// are bounded in bytes; completed syncs and control are bounded by the groups.
type mailbox struct {
	mu       sync.Mutex
	in       inbox
	bytes    int64 // of queued messages, and of calls until they are proposed or ended
	limit    int64
	closed   bool
	awake    bool          // the shard has been told
	wake     chan struct{} // capacity 1
	overflow atomic.Uint64 // messages dropped at the bound
}

// inbox is what came in since the last turn, each kind in order of arrival.
type inbox struct {
	msgs  []inMessage
	calls []*Pending
	syncs []*wal.Write
	ctl   []func(*shard)
}

type inMessage struct {
	group GroupID
	to    uint64
	m     raftpb.Message
}

// inboxKeep bounds the capacity that an emptied inbox keeps.
const inboxKeep = 4096

func (in *inbox) reset() {
	clear(in.msgs)
	clear(in.calls)
	clear(in.syncs)
	clear(in.ctl)
	if cap(in.msgs) > inboxKeep {
		in.msgs = nil
	}
	if cap(in.calls) > inboxKeep {
		in.calls = nil
	}
	in.msgs, in.calls, in.syncs, in.ctl = in.msgs[:0], in.calls[:0], in.syncs[:0], in.ctl[:0]
}

// signal wakes the shard once per turn. The mutex is held.
func (b *mailbox) signal() {
	if b.awake {
		return
	}
	b.awake = true
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take swaps the full inbox for an empty one and gives back the bytes of what
// the shard has finished with.
func (b *mailbox) take(empty inbox, released int64) inbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.in
	b.in = empty
	b.bytes -= released
	b.awake = false
	return in
}

// room admits size bytes; something always fits into an empty mailbox, so that
// one large item can't be refused for ever. The mutex is held.
func (b *mailbox) room(size int64) bool {
	if b.closed || (b.bytes > 0 && b.bytes+size > b.limit) {
		return false
	}
	b.bytes += size
	return true
}

func (b *mailbox) message(group GroupID, to uint64, m raftpb.Message) {
	size := messageSize(&m)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.room(size) {
		b.overflow.Add(1)
		return
	}
	b.in.msgs = append(b.in.msgs, inMessage{group, to, m})
	b.signal()
}

func messageSize(m *raftpb.Message) int64 {
	size := int64(256)
	for i := range m.Entries {
		size += int64(len(m.Entries[i].Data)) + 64
	}
	return size
}

// call hands over a proposal, a read or another request; false at the bound. A
// proposal to a group whose Ready is on its way to disk wakes nobody: it is
// proposed when the sync ends, and that wakes the shard. This makes a turn per
// sync out of a turn per proposal.
func (b *mailbox) call(p *Pending) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.room(p.bytes) {
		return false
	}
	b.in.calls = append(b.in.calls, p)
	if p.kind != callPropose || !p.group.busy.Load() {
		b.signal()
	}
	return true
}

// synced is the log's callback.
func (b *mailbox) synced(w *wal.Write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.in.syncs = append(b.in.syncs, w)
	b.signal()
}

// control runs f on the shard; false after the end.
func (b *mailbox) control(f func(*shard)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.in.ctl = append(b.in.ctl, f)
	b.signal()
	return true
}

// close refuses everything but completed syncs from now on.
func (b *mailbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.signal()
}

// waiting reports whether something came in that nobody was woken for. A turn
// asks at its end: a group may have become idle in it, after a proposal came in
// that saw it busy.
func (b *mailbox) waiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.in.calls) > 0
}

func (b *mailbox) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

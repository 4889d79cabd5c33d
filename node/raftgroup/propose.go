package raftgroup

import (
	"fmt"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// inflightBatch is one proposed entry and who waits for it.
type inflightBatch struct {
	index, term, seq uint64
	bytes            int64
	calls            []*Pending // nil where one has ended
}

// inflightQueue holds the proposed entries in the order of the log.
type inflightQueue struct {
	items []inflightBatch
	head  int
}

func (q *inflightQueue) push(b inflightBatch) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, b)
}

func (q *inflightQueue) live() []inflightBatch { return q.items[q.head:] }

func (q *inflightQueue) pop() inflightBatch {
	b := q.items[q.head]
	q.items[q.head] = inflightBatch{}
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return b
}

// refusal is why nothing can be proposed now; nil when it can. It covers every
// reason that Raft has for dropping a proposal, but for the bytes.
func (g *group) refusal() error {
	switch {
	case g.stopped:
		return ErrApplyStopped
	case g.role != Leader, g.mustGiveUp(), g.rn.BasicStatus().LeadTransferee != 0:
		return g.notLeader()
	}
	return nil
}

// propose makes entries of everything that waits and returns how many.
func (g *group) propose() int {
	if len(g.queue) == 0 {
		return 0
	}
	s := g.shard
	wall := s.now.UnixMilli()
	if stamp := s.host.cfg.Stamp; stamp != nil {
		wall = stamp()
	}
	if err := g.refusal(); err != nil {
		g.refuseQueued(err)
		return 0
	}
	stamp := max(uint64(max(wall, 0)), g.lastStamp)
	whole, entries, next := g.queue, 0, 0
	for next < len(g.queue) {
		calls, size, n := g.cut(g.queue[next:])
		next += n
		if len(calls) == 0 {
			s.freeCalls(calls)
			continue
		}
		if g.uncommitted > 0 && g.uncommitted+int64(size) > s.host.cfg.UncommittedBytes {
			s.endAll(calls, nil, ErrBusy)
			break
		}
		if !g.proposeEntry(calls, size, stamp) {
			break
		}
		entries++
	}
	clear(g.queue[:next]) // taken
	g.queue = g.queue[next:]
	g.refuseQueued(ErrBusy) // what did not fit
	g.queue = whole[:0]
	return entries
}

// cut takes the calls of one entry from the queue's front: it returns them, the
// size of their entry and how many of the queue it went through.
func (g *group) cut(queue []*Pending) (calls []*Pending, size, n int) {
	s := g.shard
	calls, size = s.callSlice(), envelopeHeader
	for _, p := range queue {
		add := commandHeader + len(p.header) + len(p.payload)
		if len(calls) > 0 && (size+add > batchBytes || len(calls) == batchCommands) {
			break
		}
		n++
		switch {
		case !p.take():
			s.release(p)
		case s.now.After(p.deadline):
			s.end(p, nil, fmt.Errorf("%w: deadline passed before it was proposed", ErrBusy))
		default:
			calls = append(calls, p)
			size += add
		}
	}
	return calls, size, n
}

func (g *group) proposeEntry(calls []*Pending, size int, stamp uint64) bool {
	s := g.shard
	g.seq++
	data := appendEnvelope(make([]byte, 0, size), envelope{g.replica, s.host.cfg.Nonce, g.seq, stamp}, len(calls))
	for _, p := range calls {
		data = appendCommand(data, p.header, p.payload)
	}
	if err := g.rn.Propose(data); err != nil {
		// Not reached: refusal and the bytes were checked. Raft took nothing.
		s.endAll(calls, nil, fmt.Errorf("%w: %w", ErrBusy, err))
		return false
	}
	for _, p := range calls {
		s.release(p)
		p.header, p.payload = nil, nil
	}
	g.lastStamp = stamp
	g.uncommitted += int64(len(data))
	g.inflight.push(inflightBatch{term: g.term, seq: g.seq, bytes: int64(len(data)), calls: calls})
	s.counts.entries.Add(1)
	s.counts.proposals.Add(uint64(len(calls)))
	return true
}

// noteProposed learns the places of the entries that were proposed just now.
func (g *group) noteProposed(ents []raftpb.Entry) {
	live := g.inflight.live()
	fresh := live[len(live):]
	for i := len(live); i > 0 && live[i-1].index == 0; i-- {
		fresh = live[i-1:]
	}
	for i := range fresh {
		fresh[i].index = ents[i].Index
	}
	g.noteConfProposed(ents[len(fresh):])
}

// answer gives the waiters of an applied entry their results, if it is ours.
func (g *group) answer(e *raftpb.Entry, done *appliedEntry) {
	for len(g.inflight.live()) > 0 {
		front := &g.inflight.live()[0]
		if front.index > e.Index {
			return
		}
		ours := front.index == e.Index && front.term == e.Term && front.seq == done.env.seq &&
			done.env.replica == g.replica && done.env.nonce == g.shard.host.cfg.Nonce &&
			len(front.calls) == len(done.results)
		b := g.inflight.pop()
		g.uncommitted -= b.bytes
		for i, p := range b.calls {
			switch {
			case p == nil:
			case ours:
				p.end(done.results[i], nil)
			default:
				p.end(nil, ErrOutcomeUnknown)
			}
		}
		g.shard.freeCalls(b.calls)
	}
}

// loseLeadership: entries that are known to be committed will still be seen
// applied; of the others nobody knows.
func (g *group) loseLeadership() {
	g.failInflight(g.commit)
	g.uncommitted = 0
	for i := range g.inflight.live() {
		g.inflight.live()[i].bytes = 0
	}
	if g.confWait != nil {
		g.shard.end(g.confWait, nil, ErrOutcomeUnknown)
		g.confWait = nil
	}
}

// failInflight ends what was proposed above index keep.
func (g *group) failInflight(keep uint64) {
	live := g.inflight.live()
	n := len(live)
	for n > 0 && (live[n-1].index == 0 || live[n-1].index > keep) {
		n--
		for _, p := range live[n].calls {
			if p != nil {
				p.end(nil, ErrOutcomeUnknown)
			}
		}
		g.uncommitted -= live[n].bytes
		g.shard.freeCalls(live[n].calls)
		live[n] = inflightBatch{}
	}
	g.inflight.items = g.inflight.items[:g.inflight.head+n]
}

// refuseQueued ends what was not proposed yet.
func (g *group) refuseQueued(err error) {
	for _, p := range g.queue {
		if p.take() {
			g.shard.end(p, nil, err)
		} else {
			g.shard.release(p)
		}
	}
	clear(g.queue)
	g.queue = g.queue[:0]
}

// expire ends what is past its deadline.
func (g *group) expire() {
	s := g.shard
	keep := g.queue[:0]
	for _, p := range g.queue {
		switch {
		case !s.now.After(p.deadline):
			keep = append(keep, p)
		case p.take():
			s.end(p, nil, fmt.Errorf("%w: deadline passed before it was proposed", ErrBusy))
		default:
			s.release(p)
		}
	}
	clear(g.queue[len(keep):])
	g.queue = keep
	for _, b := range g.inflight.live() {
		for i, p := range b.calls {
			if p != nil && s.now.After(p.deadline) {
				b.calls[i] = nil
				p.end(nil, ErrOutcomeUnknown)
			}
		}
	}
	g.expireReads()
	if p := g.confCall; p != nil && s.now.After(p.deadline) {
		g.confCall = nil
		s.end(p, nil, fmt.Errorf("%w: deadline passed before it was proposed", ErrBusy))
	}
	if p := g.confWait; p != nil && s.now.After(p.deadline) {
		g.confWait = nil
		s.end(p, nil, ErrOutcomeUnknown)
	}
	if p := g.transfer; p != nil && s.now.After(p.deadline) {
		g.transfer = nil
		s.end(p, nil, ErrTransferFailed)
	}
}

package raftgroup

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"runnel.dev/runnel/node/wal"
)

// shard owns a share of the node's groups. Only its own turn touches them.
type shard struct {
	host *Host
	box  mailbox
	done func(*wal.Write) // box.synced, bound once

	groups map[GroupID]*group // for lookups only
	order  []*group           // in order of start, for everything that visits all
	dirty  []*group
	dirt   []*group // the spare of dirty
	work   []*group // Readies to apply
	spare  []*group // the spare of work
	toDo   int      // bytes that work has to apply
	out    []Message
	empty  inbox
	cmds   [][]byte
	free   [][]*Pending

	now      time.Time
	nextTick time.Time
	released int64
	logs     turnState
	failed   bool
	stopped  bool

	counts counters
}

// counters are read by anyone.
type counters struct {
	turns, entries, proposals, messages, dropped atomic.Uint64
}

// maxRounds bounds how often one turn applies, so that a long replay does not
// keep messages and ticks of other groups waiting.
const maxRounds = 8

// batchApply bounds the bytes that one batch applies, one Ready more or less:
// at a start, every group may have a Ready of applyRead. It bounds as well what
// is read for apply and waits.
const batchApply = 8 << 20

func newShard(h *Host) *shard {
	s := &shard{host: h, groups: map[GroupID]*group{}}
	s.box.limit = h.cfg.MailboxBytes
	s.box.wake = make(chan struct{}, 1)
	s.done = s.box.synced
	return s
}

// fatalError stops the node. It travels as a panic because Raft's own fatal
// errors do; turn is where both end.
type fatalError struct{ err error }

// turn does all that can be done now and reports whether more waits already.
//
// The order matters: what the log has synced comes first, because it frees
// messages and answers; messages come before ticks, so that a leader's sign of
// life that waits in the mailbox counts before a timeout; everything applied is
// answered before new Readies are taken.
func (s *shard) turn(now time.Time) (more bool) {
	if s.failed || s.stopped {
		s.refuseAll()
		return false
	}
	defer func() {
		if r := recover(); r != nil {
			s.fail(r)
			more = false
		}
	}()
	s.now = now
	s.logs.reads = turnReads
	s.counts.turns.Add(1)
	in := s.box.take(s.empty, s.released)
	s.released = 0
	for _, f := range in.ctl {
		f(s)
	}
	for _, w := range in.syncs {
		s.written(w)
	}
	s.flush()
	for i := range in.msgs {
		m := &in.msgs[i]
		s.released += messageSize(&m.m)
		s.message(m)
	}
	for _, p := range in.calls {
		s.call(p)
	}
	s.tick()
	in.reset()
	s.empty = in
	for round := 0; len(s.work) > 0 || len(s.dirty) > 0; round++ {
		if round == maxRounds {
			more = true
			break
		}
		if len(s.work) > 0 {
			s.applyAll()
		}
		s.processAll()
	}
	s.flush()
	if s.logs.err != nil {
		panic(fatalError{s.logs.err})
	}
	return more || s.box.waiting()
}

func (s *shard) processAll() {
	dirty := s.dirty
	s.dirty = s.dirt[:0]
	for i, g := range dirty {
		if s.toDo >= batchApply {
			s.dirty = append(s.dirty, dirty[i:]...) // after the next batch
			break
		}
		g.dirty = false
		if g.rn != nil {
			s.process(g)
		}
	}
	clear(dirty)
	s.dirt = dirty[:0]
}

// mark remembers that a group may have something to do.
func (s *shard) mark(g *group) {
	if !g.dirty {
		g.dirty = true
		s.dirty = append(s.dirty, g)
	}
}

func (s *shard) message(in *inMessage) {
	s.counts.messages.Add(1)
	g := s.groups[in.group]
	if g == nil || in.to != g.replica || !g.step(in.m) {
		s.counts.dropped.Add(1)
	}
}

func (s *shard) call(p *Pending) {
	g := p.group
	if p.kind == callPropose {
		if g.stage == gone {
			s.refuse(p, ErrNoReplica)
			return
		}
		g.queue = append(g.queue, p)
		if g.rn == nil {
			g.refuseQueued(g.notLeader())
			return
		}
		s.mark(g)
		return
	}
	if !p.take() {
		s.release(p)
		return
	}
	if g.stage == gone {
		s.end(p, nil, ErrNoReplica)
		return
	}
	switch p.kind {
	case callRead:
		g.addRead(p)
	case callConf:
		g.addConf(p)
	case callTransfer:
		g.startTransfer(p)
	case callProgress:
		g.progress(p)
	}
}

// tick counts one tick of every group when one is due. Ticks that were missed
// are not made up for: time that this process did not see says nothing about
// its peers.
func (s *shard) tick() {
	if s.nextTick.IsZero() {
		s.nextTick = s.now.Add(s.host.cfg.Tick)
		return
	}
	if s.now.Before(s.nextTick) {
		return
	}
	s.nextTick = s.nextTick.Add(s.host.cfg.Tick)
	if s.nextTick.Before(s.now) {
		s.nextTick = s.now.Add(s.host.cfg.Tick)
	}
	for _, g := range s.order {
		g.expire()
		g.tick()
	}
}

// post queues a message for the end of the turn.
func (s *shard) post(g *group, m raftMessage) {
	s.out = append(s.out, Message{Group: g.id, Message: m})
}

// flush sends what was posted.
func (s *shard) flush() {
	if len(s.out) == 0 {
		return
	}
	s.host.cfg.Send.Send(coalesce(s.out))
	clear(s.out)
	s.out = s.out[:0]
}

// release gives the bytes of a call back to the mailbox.
func (s *shard) release(p *Pending) {
	s.released += p.bytes
	p.bytes = 0
}

// end gives a call that the shard took its outcome.
func (s *shard) end(p *Pending, value any, err error) {
	s.release(p)
	p.end(value, err)
}

func (s *shard) endAll(calls []*Pending, value any, err error) {
	for _, p := range calls {
		s.end(p, value, err)
	}
	s.freeCalls(calls)
}

// refuse ends a call that nobody took yet, unless its caller gave it up.
func (s *shard) refuse(p *Pending, err error) {
	if p.take() {
		s.end(p, nil, err)
	} else {
		s.release(p)
	}
}

func (s *shard) callSlice() []*Pending {
	if n := len(s.free); n > 0 {
		c := s.free[n-1]
		s.free = s.free[:n-1]
		return c
	}
	return make([]*Pending, 0, 64)
}

func (s *shard) freeCalls(c []*Pending) {
	clear(c)
	if len(s.free) < 64 {
		s.free = append(s.free, c[:0])
	}
}

// adopt takes over a replica that Host.Start prepared.
func (s *shard) adopt(g *group) {
	if s.failed || s.stopped {
		g.finish(ErrNoReplica)
		s.forget(g)
		return
	}
	s.groups[g.id] = g
	s.order = append(s.order, g)
	if w := g.start.write; w != nil {
		w.Replica = wal.Replica{Group: g.id, ID: g.replica}
		w.Done = s.done
		s.host.cfg.WAL.Enqueue(w)
		return
	}
	s.open(g)
}

func (s *shard) open(g *group) {
	if err := g.open(); err != nil {
		panic(fatalError{fmt.Errorf("group %d: %w", g.id, err)})
	}
	s.mark(g)
}

// remove ends a replica. While the log still has a write of it, it is kept
// until that ends, so that the caller may delete the replica's data after.
func (s *shard) remove(g *group) {
	writing := g.stage == syncing || (g.stage == opening && g.start.write != nil)
	if g.stage == gone {
		s.forget(g)
		return
	}
	for i, o := range s.order {
		if o == g {
			s.order = append(s.order[:i:i], s.order[i+1:]...)
			break
		}
	}
	g.finish(ErrNoReplica)
	if !writing || s.failed || s.stopped {
		s.forget(g)
	}
}

// forget lets a removed replica go.
func (s *shard) forget(g *group) {
	if s.groups[g.id] == g {
		delete(s.groups, g.id)
	}
	s.host.forget(g)
}

// fail ends the shard and stops the node.
func (s *shard) fail(cause any) {
	s.failed = true
	var err error
	switch c := cause.(type) {
	case fatalError:
		err = c.err
	default:
		err = fmt.Errorf("panic: %v\n%s", c, debug.Stack())
	}
	if s.logs.err != nil {
		err = s.logs.err // the cause of what Raft then panicked about
	}
	s.finishAll()
	s.host.fatal(err)
}

// stop ends the shard in order.
func (s *shard) stop() {
	if !s.stopped {
		s.stopped = true
		s.finishAll()
	}
	s.refuseAll()
}

func (s *shard) finishAll() {
	for _, g := range s.order {
		g.finish(ErrNoReplica)
	}
}

// refuseAll empties the mailbox of a shard that has ended.
func (s *shard) refuseAll() {
	in := s.box.take(inbox{}, s.released)
	s.released = 0
	for _, f := range in.ctl {
		f(s)
	}
	for _, w := range in.syncs {
		if g := s.groups[w.Replica.Group]; g != nil && g.leaving.Load() {
			s.forget(g)
		}
	}
	for _, p := range in.calls {
		s.refuse(p, ErrNoReplica)
	}
	for i := range in.msgs {
		s.released += messageSize(&in.msgs[i].m)
	}
}

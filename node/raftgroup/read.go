package raftgroup

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/etcd/raft/v3"
)

// readQueue shares rounds: one is outstanding, and who arrives meanwhile joins
// the next, because a round covers only what was asked before it began.
type readQueue struct {
	next   []*Pending
	cur    []*Pending
	active bool
	seq    uint64
	ctx    []byte
	waits  []readWait
}

// readWait is a confirmed round that waits for its index to be applied.
type readWait struct {
	index uint64
	calls []*Pending
}

// readContext names a round among all rounds of all replicas and all their
// starts. Raft compares contexts by their bytes, over all replicas, and a
// follower takes late answers, so a plain counter would accept the answer to a
// question from before a restart.
func readContext(replica, nonce, seq uint64) []byte {
	b := make([]byte, 0, 24)
	b = binary.LittleEndian.AppendUint64(b, replica)
	b = binary.LittleEndian.AppendUint64(b, nonce)
	return binary.LittleEndian.AppendUint64(b, seq)
}

// addRead queues a read, or refuses it.
func (g *group) addRead(p *Pending) {
	switch {
	case g.stopped:
		g.shard.end(p, nil, ErrApplyStopped)
	case g.rn == nil || g.role != Leader:
		g.shard.end(p, nil, g.notLeader())
	default:
		g.reads.next = append(g.reads.next, p)
		g.shard.mark(g)
	}
}

// startRead begins a round for everyone who waits.
func (g *group) startRead() {
	r := &g.reads
	if r.active || len(r.next) == 0 {
		return
	}
	r.active = true
	r.cur, r.next = r.next, r.cur[:0]
	r.seq++
	r.ctx = readContext(g.replica, g.shard.host.cfg.Nonce, r.seq)
	g.rn.ReadIndex(r.ctx)
}

// confirmRead takes Raft's word that this replica led when it had committed up
// to Index. Answers to anything but the outstanding round are ignored.
func (g *group) confirmRead(rs *raft.ReadState) {
	r := &g.reads
	if !r.active || !bytes.Equal(rs.RequestCtx, r.ctx) {
		return
	}
	r.active = false
	r.waits = append(r.waits, readWait{rs.Index, r.cur})
	r.cur = nil
	g.releaseReads()
}

// releaseReads answers the confirmed rounds that the applied state covers.
func (g *group) releaseReads() {
	r := &g.reads
	n := 0
	for n < len(r.waits) && r.waits[n].index <= g.applied {
		for _, p := range r.waits[n].calls {
			g.shard.end(p, nil, nil)
		}
		n++
	}
	if n > 0 {
		rest := copy(r.waits, r.waits[n:])
		clear(r.waits[rest:])
		r.waits = r.waits[:rest]
	}
}

// endReads ends all reads: none of them may outlive the leadership it asked about.
func (g *group) endReads(err error) {
	r := &g.reads
	end := func(calls []*Pending) {
		for _, p := range calls {
			g.shard.end(p, nil, err)
		}
		clear(calls)
	}
	end(r.next)
	end(r.cur)
	for _, w := range r.waits {
		end(w.calls)
	}
	clear(r.waits)
	r.next, r.cur, r.waits, r.active = r.next[:0], r.cur[:0], r.waits[:0], false
}

func (g *group) expireReads() {
	r := &g.reads
	late := func(calls []*Pending) []*Pending {
		keep := calls[:0]
		for _, p := range calls {
			if g.shard.now.After(p.deadline) {
				g.shard.end(p, nil, ErrUnconfirmed)
			} else {
				keep = append(keep, p)
			}
		}
		clear(calls[len(keep):])
		return keep
	}
	r.next, r.cur = late(r.next), late(r.cur)
	for i := range r.waits {
		r.waits[i].calls = late(r.waits[i].calls)
	}
}

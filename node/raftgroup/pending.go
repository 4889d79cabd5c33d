package raftgroup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

type callKind uint8

const (
	callPropose callKind = iota
	callRead
	callConf
	callTransfer
	callProgress
)

// A Pending's way: waiting until the shard takes it, or its caller gives it up
// first. Only one of the two wins, so a caller that gave up in time knows that
// nothing was proposed and that its bytes are not read any more.
const (
	waiting uint32 = iota
	taken
	abandoned
)

// Pending is one request to a group. The shard ends every Pending by its
// deadline, checked on ticks.
type Pending struct {
	kind            callKind
	group           *group
	header, payload []byte
	bytes           int64 // counted by the mailbox; 0 once given back
	deadline        time.Time

	state atomic.Uint32
	done  chan struct{} // capacity 1: ending never blocks the shard

	// For kinds other than propose and read.
	change raftpb.ConfChangeV2
	target uint64
	want   raftpb.ConfState

	value any
	err   error
}

var pendingPool = sync.Pool{New: func() any { return &Pending{done: make(chan struct{}, 1)} }}

func newPending(kind callKind, g *group, deadline time.Time) *Pending {
	p := pendingPool.Get().(*Pending)
	p.kind, p.group, p.deadline = kind, g, deadline
	return p
}

// recycle gives p back; only its waiter may do so, and only after it ended.
func (p *Pending) recycle() {
	done := p.done
	*p = Pending{done: done}
	pendingPool.Put(p)
}

// take claims p for the shard; false when its caller gave up.
func (p *Pending) take() bool { return p.state.CompareAndSwap(waiting, taken) }

// end gives p its outcome. Called once, by the shard, after take, or by the
// host when the shard never saw p.
func (p *Pending) end(value any, err error) {
	p.header, p.payload = nil, nil
	p.value, p.err = value, err
	p.done <- struct{}{}
}

// Poll returns the outcome once there is one. For drivers that can't block.
func (p *Pending) Poll() (value any, err error, ended bool) {
	select {
	case <-p.done:
		p.done <- struct{}{}
		return p.value, p.err, true
	default:
		return nil, nil, false
	}
}

// wait blocks until p ends or ctx does.
func (p *Pending) wait(ctx context.Context) (any, error) {
	select {
	case <-p.done:
		value, err := p.value, p.err
		p.recycle()
		return value, err
	case <-ctx.Done():
	}
	// p is not reused: the shard may still hold it.
	won := p.state.CompareAndSwap(waiting, abandoned)
	if p.kind == callRead {
		return nil, fmt.Errorf("%w: %w", ErrUnconfirmed, ctx.Err())
	}
	if won {
		return nil, fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
	select {
	case <-p.done:
		return p.value, p.err
	default:
	}
	return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
}

package raftgroup

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// Propose replicates one command (header and payload, joined) and returns the
// Machine's result once it is applied here. Errors: ErrNoReplica, ErrNotLeader,
// ErrBusy and ErrApplyStopped prove that nothing was proposed, and the bytes
// are not read any more; after ErrOutcomeUnknown the command may apply or have
// applied, and the bytes may still be read. Without a deadline in ctx
// Config.Timeout counts.
func (h *Host) Propose(ctx context.Context, id GroupID, header, payload []byte) (any, error) {
	p, err := h.proposal(id, header, payload, h.deadline(ctx))
	if err != nil {
		return nil, err
	}
	return h.await(ctx, p)
}

// ProposeAsync is Propose for drivers that can't block.
func (h *Host) ProposeAsync(id GroupID, header, payload []byte, deadline time.Time) *Pending {
	p, err := h.proposal(id, header, payload, deadline)
	return h.posted(p, err)
}

func (h *Host) proposal(id GroupID, header, payload []byte, deadline time.Time) (*Pending, error) {
	g := h.lookup(id)
	if g == nil {
		return nil, ErrNoReplica
	}
	// What everyone can see need not trouble the shard.
	if s := g.published.Load(); s.ApplyStopped {
		return nil, ErrApplyStopped
	} else if s.Role != Leader {
		return nil, &NotLeaderError{Status: g.status()}
	}
	if len(header)+len(payload) > MaxCommandBytes {
		return nil, fmt.Errorf("%w: command of %d bytes, at most %d", ErrBusy, len(header)+len(payload), MaxCommandBytes)
	}
	p := newPending(callPropose, g, deadline)
	p.header, p.payload = header, payload
	p.bytes = int64(len(header)+len(payload)) + pendingBytes
	return p, nil
}

// ReadIndex returns nil when this replica led at a moment during the call and
// its applied state covers everything committed before the call. Errors:
// ErrNoReplica, ErrNotLeader, ErrBusy, ErrApplyStopped, and ErrUnconfirmed when
// no majority answered by the deadline.
func (h *Host) ReadIndex(ctx context.Context, id GroupID) error {
	p, err := h.request(callRead, id, h.deadline(ctx))
	if err != nil {
		return err
	}
	_, err = h.await(ctx, p)
	return err
}

// ReadIndexAsync is ReadIndex for drivers that can't block.
func (h *Host) ReadIndexAsync(id GroupID, deadline time.Time) *Pending {
	return h.posted(h.request(callRead, id, deadline))
}

// ChangeConf proposes a membership change and returns nil once the applied
// configuration is the one it leads to. Errors: as Propose, ErrConfChange when
// it is no legal step, ErrLeaderRemoval.
func (h *Host) ChangeConf(ctx context.Context, id GroupID, change raftpb.ConfChangeV2) error {
	p, err := h.request(callConf, id, h.deadline(ctx))
	if err != nil {
		return err
	}
	p.change = change
	_, err = h.await(ctx, p)
	return err
}

// ChangeConfAsync is ChangeConf for drivers that can't block.
func (h *Host) ChangeConfAsync(id GroupID, change raftpb.ConfChangeV2, deadline time.Time) *Pending {
	p, err := h.request(callConf, id, deadline)
	if p != nil {
		p.change = change
	}
	return h.posted(p, err)
}

// TransferLeader hands leadership to a caught-up voter and returns nil once it
// leads. Errors: ErrNoReplica, ErrNotLeader, ErrNotCaughtUp, ErrTransferFailed.
func (h *Host) TransferLeader(ctx context.Context, id GroupID, to uint64) error {
	p, err := h.request(callTransfer, id, h.deadline(ctx))
	if err != nil {
		return err
	}
	p.target = to
	_, err = h.await(ctx, p)
	return err
}

// TransferLeaderAsync is TransferLeader for drivers that can't block.
func (h *Host) TransferLeaderAsync(id GroupID, to uint64, deadline time.Time) *Pending {
	p, err := h.request(callTransfer, id, deadline)
	if p != nil {
		p.target = to
	}
	return h.posted(p, err)
}

// Progress returns what this leader knows of another replica; false when this
// node does not lead the group or the group does not have the replica.
func (h *Host) Progress(ctx context.Context, id GroupID, replica uint64) (Progress, bool) {
	p, err := h.request(callProgress, id, h.deadline(ctx))
	if err != nil {
		return Progress{}, false
	}
	p.target = replica
	v, err := h.await(ctx, p)
	if err != nil {
		return Progress{}, false
	}
	return v.(Progress), true
}

// pendingBytes is what a call counts in the mailbox beyond its command.
const pendingBytes = 128

func (h *Host) request(kind callKind, id GroupID, deadline time.Time) (*Pending, error) {
	g := h.lookup(id)
	if g == nil {
		return nil, ErrNoReplica
	}
	p := newPending(kind, g, deadline)
	p.bytes = pendingBytes
	return p, nil
}

func (h *Host) deadline(ctx context.Context) time.Time {
	if d, ok := ctx.Deadline(); ok {
		return d
	}
	return h.cfg.Clock().Add(h.cfg.Timeout)
}

// await posts p and waits.
func (h *Host) await(ctx context.Context, p *Pending) (any, error) {
	if !p.group.shard.box.call(p) {
		err := h.full(p)
		p.recycle()
		return nil, err
	}
	return p.wait(ctx)
}

func (h *Host) full(p *Pending) error {
	if h.stopped.Load() {
		return ErrNoReplica
	}
	return fmt.Errorf("%w: the mailbox holds its bound of %d bytes", ErrBusy, p.group.shard.box.limit)
}

// posted posts p without waiting; refusals come through Poll too.
func (h *Host) posted(p *Pending, err error) *Pending {
	if p == nil {
		p = &Pending{done: make(chan struct{}, 1)}
	} else if !p.group.shard.box.call(p) {
		err = h.full(p)
	}
	if err != nil {
		p.end(nil, err)
	}
	return p
}

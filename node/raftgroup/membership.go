package raftgroup

import (
	"fmt"
	"slices"

	"go.etcd.io/etcd/raft/v3"
	"go.etcd.io/etcd/raft/v3/confchange"
	"go.etcd.io/etcd/raft/v3/raftpb"
	"go.etcd.io/etcd/raft/v3/tracker"
)

// confAfter returns the configuration that a change makes of conf, and the one
// that it ends in when a joint configuration is left by itself. Raft panics on a
// change that is no legal step; this finds out first.
func confAfter(conf raftpb.ConfState, cc raftpb.ConfChangeV2) (next, final raftpb.ConfState, err error) {
	changer := confchange.Changer{Tracker: tracker.MakeProgressTracker(1)}
	restore := func(cfg tracker.Config, prs tracker.ProgressMap) raftpb.ConfState {
		changer.Tracker.Config, changer.Tracker.Progress = cfg, prs
		return changer.Tracker.ConfState()
	}
	cfg, prs, err := confchange.Restore(changer, conf)
	if err != nil {
		return next, final, err
	}
	restore(cfg, prs)
	autoLeave, joint := cc.EnterJoint()
	switch {
	case cc.LeaveJoint():
		cfg, prs, err = changer.LeaveJoint()
	case joint:
		cfg, prs, err = changer.EnterJoint(autoLeave, cc.Changes...)
	default:
		cfg, prs, err = changer.Simple(cc.Changes...)
	}
	if err != nil {
		return next, final, err
	}
	next = restore(cfg, prs)
	if !next.AutoLeave {
		return next, next, nil
	}
	if cfg, prs, err = changer.LeaveJoint(); err != nil {
		return next, final, err
	}
	return next, restore(cfg, prs), nil
}

func decodeConfChange(e *raftpb.Entry) (raftpb.ConfChangeV2, error) {
	if e.Type == raftpb.EntryConfChange {
		var v1 raftpb.ConfChange
		err := v1.Unmarshal(e.Data)
		return v1.AsV2(), err
	}
	var v2 raftpb.ConfChangeV2
	err := v2.Unmarshal(e.Data)
	return v2, err
}

// nextConf is the configuration after a change applied to conf. A change that
// is no legal step changes nothing, on every replica alike, because the
// configuration is a function of the log.
func (g *group) nextConf(conf raftpb.ConfState, e *raftpb.Entry) (next raftpb.ConfState, took bool, err error) {
	cc, err := decodeConfChange(e)
	if err != nil {
		return conf, false, fmt.Errorf("decode a configuration change: %w", err)
	}
	next, _, err = confAfter(conf, cc)
	return next, err == nil, nil
}

// applyConf gives Raft an applied configuration change.
func (g *group) applyConf(e *raftpb.Entry) {
	cc, err := decodeConfChange(e)
	if err != nil {
		return // apply stopped before this entry
	}
	if _, _, err := confAfter(g.conf, cc); err != nil {
		g.shard.host.cfg.Logger.Error("configuration change ignored", "group", g.id, "index", e.Index, "err", err)
		return
	}
	g.conf = *g.rn.ApplyConfChange(cc)
	g.observe()
	g.publish()
	g.settleConf()
	g.giveUpLeadership()
}

// addConf queues a membership change; one at a time.
func (g *group) addConf(p *Pending) {
	switch {
	case g.rn == nil:
		g.shard.end(p, nil, g.notLeader())
	case g.confCall != nil || g.confWait != nil:
		g.shard.end(p, nil, fmt.Errorf("%w: another configuration change is in progress", ErrBusy))
	default:
		g.confCall = p
		g.shard.mark(g)
	}
}

// proposeConf proposes the waiting change and returns how many entries that
// made. It waits for the configuration, never for the entry: Raft may replace a
// change by an empty entry, and the same configuration may come by another way.
func (g *group) proposeConf() int {
	p := g.confCall
	if p == nil {
		return 0
	}
	g.confCall = nil
	if err := g.refusal(); err != nil {
		g.shard.end(p, nil, err)
		return 0
	}
	_, final, err := confAfter(g.conf, p.change)
	switch {
	case err != nil:
		g.shard.end(p, nil, fmt.Errorf("%w: %w", ErrConfChange, err))
		return 0
	case !slices.Contains(final.Voters, g.replica):
		g.shard.end(p, nil, ErrLeaderRemoval)
		return 0
	case final.Equivalent(g.conf) == nil:
		g.shard.end(p, nil, nil)
		return 0
	}
	if err := g.rn.ProposeConfChange(p.change); err != nil {
		g.shard.end(p, nil, fmt.Errorf("%w: %w", ErrBusy, err))
		return 0
	}
	p.want = final
	g.confWait = p
	return 1
}

// noteConfProposed sees the entry that Raft made of the change. An empty normal
// entry means that Raft refused it: an earlier change is not applied yet.
func (g *group) noteConfProposed(ents []raftpb.Entry) {
	if len(ents) == 0 || ents[0].Type != raftpb.EntryNormal || g.confWait == nil {
		return
	}
	g.shard.end(g.confWait, nil, fmt.Errorf("%w: an earlier change is not applied yet", ErrBusy))
	g.confWait = nil
}

func (g *group) settleConf() {
	if p := g.confWait; p != nil && p.want.Equivalent(g.conf) == nil {
		g.confWait = nil
		g.shard.end(p, nil, nil)
	}
}

// startTransfer hands leadership to a caught-up voter.
func (g *group) startTransfer(p *Pending) {
	switch {
	case g.rn == nil || g.role != Leader:
		g.shard.end(p, nil, g.notLeader())
		return
	case p.target == g.replica:
		g.shard.end(p, nil, nil)
		return
	case g.transfer != nil:
		g.shard.end(p, nil, fmt.Errorf("%w: another transfer is in progress", ErrBusy))
		return
	}
	ok := false
	g.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		ok = ok || (id == p.target && g.caughtUp(id, &pr))
	})
	if !ok {
		g.shard.end(p, nil, ErrNotCaughtUp)
		return
	}
	g.transfer = p
	g.rn.TransferLeader(p.target)
	g.observe()
	g.shard.mark(g)
}

// settleTransfer ends the transfer's waiter once the leader is known, or the
// transfer was given up, which Raft does after an election timeout.
func (g *group) settleTransfer() {
	p := g.transfer
	if p == nil {
		return
	}
	switch {
	case g.lead == p.target:
		g.transfer = nil
		g.shard.end(p, nil, nil)
	case g.role == Leader && g.rn.BasicStatus().LeadTransferee != p.target,
		g.role != Leader && g.lead != 0:
		g.transfer = nil
		g.shard.end(p, nil, ErrTransferFailed)
	}
}

// progress answers what a leader knows of another replica.
func (g *group) progress(p *Pending) {
	if g.rn == nil || g.role != Leader {
		g.shard.end(p, nil, g.notLeader())
		return
	}
	var out *Progress
	g.rn.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		if id == p.target {
			out = &Progress{Match: pr.Match, RecentActive: pr.RecentActive || id == g.replica, Learner: typ == raft.ProgressTypeLearner}
		}
	})
	if out == nil {
		g.shard.end(p, nil, fmt.Errorf("%w: replica %d is not in the group", ErrNotCaughtUp, p.target))
		return
	}
	g.shard.end(p, *out, nil)
}

package raftgroup

import (
	"slices"

	"go.etcd.io/etcd/raft/v3"
	"go.etcd.io/etcd/raft/v3/raftpb"
	"go.etcd.io/etcd/raft/v3/tracker"
)

// Elections are ours, so that a seed decides them: Raft's own timeouts are
// drawn from a source that is seeded by the clock. Only a leader gets
// RawNode.Tick. Others get TickQuiesced, which lets the lease of check-quorum
// run out, and campaign when our own timer says so.

func (g *group) drawTimeout() int {
	n := g.shard.host.cfg.ElectionTicks
	return n + g.rng.IntN(n)
}

// idleTrimTicks is how often a quiet group lets go of cached entries.
const idleTrimTicks = 50

func (g *group) tick() {
	if g.rn == nil || g.stage == gone || !g.replayed {
		return
	}
	if g.idleTicks++; g.idleTicks >= idleTrimTicks {
		g.idleTicks = 0
		g.log.trimIdle()
	}
	if g.role == Leader {
		g.rn.Tick()
		g.observe()
		g.giveUpLeadership()
	} else {
		g.rn.TickQuiesced()
		g.elapsed++
		if g.elapsed >= g.timeout {
			g.campaign()
		}
	}
	g.settleTransfer()
	g.shard.mark(g)
}

// mayCampaign: this replica is a voter, can apply and has applied all it knows
// to be committed (Raft reads the rest in one unbounded piece to look for
// configuration changes), and its clock may stamp. A sole voter campaigns with
// a suspect clock too: nobody else could lead.
func (g *group) mayCampaign() bool {
	if g.stopped || !g.replayed || g.role == Leader {
		return false
	}
	if g.shard.host.clockSuspect.Load() && !g.sole() {
		return false
	}
	if !slices.Contains(g.conf.Voters, g.replica) && !slices.Contains(g.conf.VotersOutgoing, g.replica) {
		return false
	}
	st := g.rn.BasicStatus()
	return st.Applied == st.Commit
}

func (g *group) campaign() {
	if !g.mayCampaign() {
		return
	}
	g.elapsed = 0
	g.timeout = g.drawTimeout()
	if err := g.rn.Campaign(); err != nil {
		g.shard.host.cfg.Logger.Warn("campaign", "group", g.id, "err", err)
	}
	g.observe()
	g.shard.mark(g)
}

// noteReplay is told how far Raft has applied. What was committed before the
// start is applied before the first tick. Then a sole voter need not wait for
// anyone.
func (g *group) noteReplay(applied uint64) {
	if !g.replayed && applied >= g.replayTo {
		g.replayed = true
		g.pubReplayed.Store(true)
		g.wantCampaign = g.wantCampaign || g.sole()
	}
	g.takeOver()
}

// takeOver campaigns out of turn: because this is the sole voter, because the
// node asked for it, or because the leader handed over, once apply allows it.
func (g *group) takeOver() {
	if g.haveTimeoutNow && (g.role == Leader || g.timeoutNow.Term != g.term) {
		g.haveTimeoutNow = false
	}
	if g.haveTimeoutNow && g.mayCampaign() {
		g.haveTimeoutNow, g.wantCampaign = false, false
		g.stepRaft(g.timeoutNow)
		return
	}
	if g.wantCampaign && (g.role == Leader || g.lead != 0) {
		g.wantCampaign = false
	}
	if g.wantCampaign && g.mayCampaign() {
		g.wantCampaign = false
		g.campaign()
	}
}

// mustGiveUp: this leader should not be one.
func (g *group) mustGiveUp() bool {
	if g.role != Leader {
		return false
	}
	suspect := g.shard.host.clockSuspect.Load() && !g.sole()
	return g.stopped || suspect || !slices.Contains(g.conf.Voters, g.replica)
}

// giveUpLeadership hands over to the best voter, if there is one to hand over
// to; tried again every tick.
func (g *group) giveUpLeadership() {
	if !g.mustGiveUp() || g.rn.BasicStatus().LeadTransferee != 0 {
		return
	}
	if to := g.bestVoter(); to != 0 {
		g.rn.TransferLeader(to)
		g.observe()
	}
}

// bestVoter is the caught-up voter with the longest log, the lowest id first.
func (g *group) bestVoter() uint64 {
	var best, match uint64
	g.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if g.caughtUp(id, &pr) && pr.Match > match {
			best, match = id, pr.Match
		}
	})
	return best
}

// transferLag is how many entries a voter may be behind and still take over
// within an election timeout, during which nothing is proposed.
const transferLag = 64

func (g *group) caughtUp(id uint64, pr *tracker.Progress) bool {
	return id != g.replica && slices.Contains(g.conf.Voters, id) &&
		pr.State == tracker.StateReplicate && pr.RecentActive && pr.Match+transferLag >= g.lastIndex
}

// stepRaft gives Raft one message.
func (g *group) stepRaft(m raftpb.Message) {
	// The only errors are about senders that the configuration doesn't know.
	_ = g.rn.Step(m)
	g.observe()
	if m.From == g.lead && m.Term == g.term && (m.Type == raftpb.MsgApp || m.Type == raftpb.MsgHeartbeat) {
		g.elapsed = 0
	}
	g.shard.mark(g)
}

// step takes a message of another replica. Types that only a local caller may
// use (a proposal, a transfer, a read forwarded by a follower) are ignored, and
// so are snapshots, which nobody sends.
func (g *group) step(m raftpb.Message) bool {
	if g.rn == nil || g.stage == gone || m.To != g.replica || m.From == 0 || m.From == g.replica {
		return false
	}
	switch m.Type {
	case raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp,
		raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp:
		g.stepRaft(m)
	case raftpb.MsgTimeoutNow:
		if m.Term != g.term || m.From != g.lead || g.stopped {
			return false
		}
		g.timeoutNow, g.haveTimeoutNow = m, true
		g.takeOver()
	default:
		return false
	}
	return true
}

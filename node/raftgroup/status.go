package raftgroup

import (
	"go.etcd.io/etcd/raft/v3"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

// Role is what a replica does in its group.
type Role uint8

const (
	Follower Role = iota // or learner: Status.Conf tells
	PreCandidate
	Candidate
	Leader
)

func (r Role) String() string {
	switch r {
	case Leader:
		return "leader"
	case Candidate:
		return "candidate"
	case PreCandidate:
		return "pre-candidate"
	}
	return "follower"
}

func roleOf(s raft.StateType) Role {
	switch s {
	case raft.StateLeader:
		return Leader
	case raft.StateCandidate:
		return Candidate
	case raft.StatePreCandidate:
		return PreCandidate
	}
	return Follower
}

// Status is what a replica knows of its group. Replica is 0 when this node has
// none. Leader is 0 when unknown. Applied, Commit and LastIndex may be a moment
// ahead of the rest. Conf is shared and must not be changed.
type Status struct {
	Group        GroupID
	Replica      uint64
	Leader       uint64
	Term         uint64
	Role         Role
	Applied      uint64
	Commit       uint64
	LastIndex    uint64
	ApplyStopped bool
	// Replaying: what was committed before the start is not applied yet.
	Replaying bool
	Conf      raftpb.ConfState
}

// Progress is what a leader knows of another replica.
type Progress struct {
	// Match is the highest index the replica is known to have synced.
	Match uint64
	// RecentActive: heard of within the last election timeout.
	RecentActive bool
	Learner      bool
}

// Status returns what the node's replica of group knows. It takes no lock.
func (h *Host) Status(id GroupID) Status {
	g := h.lookup(id)
	if g == nil {
		return Status{Group: id}
	}
	return g.status()
}

func (g *group) status() Status {
	s := *g.published.Load()
	s.Applied = g.pubApplied.Load()
	s.Commit = g.pubCommit.Load()
	s.LastIndex = g.pubLast.Load()
	s.Replaying = !g.pubReplayed.Load()
	return s
}

// publishIndexes lets readers see how far the replica is.
func (g *group) publishIndexes() {
	g.pubApplied.Store(g.applied)
	g.pubCommit.Store(g.commit)
	g.pubLast.Store(g.lastIndex)
}

// publish lets readers see everything, and tells the node when leadership, term,
// role or the ability to apply changed.
func (g *group) publish() {
	g.publishIndexes()
	next := &Status{
		Group: g.id, Replica: g.replica,
		Leader: g.lead, Term: g.term, Role: g.role,
		ApplyStopped: g.stopped, Conf: g.conf,
	}
	prev := g.published.Swap(next)
	if g.shard.host.cfg.OnStatus == nil {
		return
	}
	if prev.Leader != next.Leader || prev.Term != next.Term || prev.Role != next.Role || prev.ApplyStopped != next.ApplyStopped {
		g.shard.host.cfg.OnStatus(g.status())
	}
}

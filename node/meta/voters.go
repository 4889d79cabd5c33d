package meta

import (
	"slices"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// MaxVoters bounds the meta group's voters; the other nodes are learners.
const MaxVoters = 5

// PlanMembership returns the next change of the meta group's configuration,
// nil when it is as it should be. caughtUp tells whether a learner holds
// (nearly) the whole log.
//
// Members without a replica in the configuration become learners, one change
// at a time. Voters rise 1, 3, 5 by one joint change for each pair: two voters
// would be worse than one.
func PlanMembership(s *State, conf raftpb.ConfState, caughtUp func(replica uint64) bool) *raftpb.ConfChangeV2 {
	if len(conf.VotersOutgoing) > 0 || len(conf.LearnersNext) > 0 {
		return nil // a joint change is under way
	}
	for _, id := range s.NodeIDs() {
		r := s.Nodes[id].MetaReplica
		if !slices.Contains(conf.Voters, r) && !slices.Contains(conf.Learners, r) {
			return change(raftpb.ConfChangeAddLearnerNode, r)
		}
	}
	if len(conf.Voters)+2 > min(MaxVoters, len(s.Nodes)) {
		return nil
	}
	var ready []uint64
	for _, r := range slices.Sorted(slices.Values(conf.Learners)) {
		if caughtUp(r) {
			ready = append(ready, r)
		}
	}
	if len(ready) < 2 {
		return nil
	}
	return change(raftpb.ConfChangeAddNode, ready[:2]...)
}

func change(kind raftpb.ConfChangeType, replicas ...uint64) *raftpb.ConfChangeV2 {
	cc := &raftpb.ConfChangeV2{}
	for _, r := range replicas {
		cc.Changes = append(cc.Changes, raftpb.ConfChangeSingle{Type: kind, NodeID: r})
	}
	return cc
}

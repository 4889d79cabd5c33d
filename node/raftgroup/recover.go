package raftgroup

import (
	"fmt"
	"slices"

	"go.etcd.io/etcd/raft/v3"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

// genesisTerm is the term of the genesis entries. Elections begin above it.
const genesisTerm = 1

// recovered is what a replica starts Raft from.
type recovered struct {
	hard    raftpb.HardState
	stored  raftpb.HardState // what the log holds of it
	conf    raftpb.ConfState // at applied
	mark    wal.Mark
	refs    []wal.Ref
	applied wal.Mark
	// write must be synced before the replica takes part; nil for none.
	write *wal.Write
}

// recoverReplica joins what the base store and the log hold of a replica.
//
// Both survive a crash on their own, so either may be ahead: the base store has
// applied what it has applied, and the log's commit index and even its term may
// be older (a commit index alone is written without haste). The entry at C
// decides: when the log has it with the same term, the log's suffix continues
// the applied state; otherwise the log is of another history and none of it
// counts.
func recoverReplica(log *wal.Recovered, base Applied, id Replica) (recovered, error) {
	r := recovered{conf: base.Conf, applied: wal.Mark{Index: base.Index, Term: base.Term}}
	if log != nil {
		r.hard, r.mark, r.refs = log.State, log.Snapshot, log.Refs
	}
	r.stored = r.hard
	last := r.mark
	if n := len(r.refs); n > 0 {
		last = wal.Mark{Index: r.refs[n-1].Index, Term: r.refs[n-1].Term}
	}
	switch c := r.applied; {
	case c.Index > last.Index:
		return r, fmt.Errorf("replica %d of group %d: the log ends at %d, the base store is at %d: log data is missing; restore this replica from its peers",
			id.ID, id.Group, last.Index, c.Index)
	case c.Index < r.mark.Index:
		return r, fmt.Errorf("replica %d of group %d: the log starts after %d, the base store is at %d: base store data is missing; restore this replica from its peers",
			id.ID, id.Group, r.mark.Index, c.Index)
	case r.hard.Commit > last.Index:
		return r, fmt.Errorf("replica %d of group %d: %d is committed, the log ends at %d: log data is missing; restore this replica from its peers",
			id.ID, id.Group, r.hard.Commit, last.Index)
	case c.Index == r.mark.Index && c.Term != r.mark.Term,
		c.Index > r.mark.Index && r.refs[c.Index-r.mark.Index-1].Term != c.Term:
		r.mark, r.refs = c, nil
		r.hard.Commit = c.Index
		r.write = &wal.Write{Reset: &wal.Mark{Index: c.Index, Term: c.Term}}
	}
	if r.hard.Term < r.applied.Term {
		r.hard.Term, r.hard.Vote = r.applied.Term, 0
	}
	r.hard.Commit = max(r.hard.Commit, r.applied.Index)
	if r.write != nil {
		state := r.hard
		r.write.State = &state
		return r, nil
	}
	empty := last.Index == 0 && raft.IsEmptyHardState(r.hard)
	if !empty || id.Genesis == nil || !named(id.Genesis, id.ID) {
		return r, nil
	}
	ents, err := genesisEntries(id.Genesis)
	if err != nil {
		return r, fmt.Errorf("replica %d of group %d: %w", id.ID, id.Group, err)
	}
	r.hard = raftpb.HardState{Term: genesisTerm, Commit: uint64(len(ents))}
	state := r.hard
	r.write = &wal.Write{State: &state, Entries: ents}
	return r, nil
}

func named(conf *raftpb.ConfState, id uint64) bool {
	return slices.Contains(conf.Voters, id) || slices.Contains(conf.Learners, id)
}

// genesisEntries spells a configuration as log entries: voters one by one, then
// learners, in the order of their ids, the same on every replica.
func genesisEntries(conf *raftpb.ConfState) ([]raftpb.Entry, error) {
	if len(conf.Voters) == 0 || len(conf.VotersOutgoing) > 0 || len(conf.LearnersNext) > 0 {
		return nil, fmt.Errorf("genesis configuration %v: voters are needed, and it can't be joint", conf)
	}
	var ents []raftpb.Entry
	add := func(ids []uint64, typ raftpb.ConfChangeType) error {
		for _, id := range slices.Sorted(slices.Values(ids)) {
			cc := raftpb.ConfChangeV2{Changes: []raftpb.ConfChangeSingle{{Type: typ, NodeID: id}}}
			data, err := cc.Marshal()
			if err != nil {
				return err
			}
			ents = append(ents, raftpb.Entry{
				Type: raftpb.EntryConfChangeV2, Term: genesisTerm, Index: uint64(len(ents) + 1), Data: data,
			})
		}
		return nil
	}
	if err := add(conf.Voters, raftpb.ConfChangeAddNode); err != nil {
		return nil, err
	}
	return ents, add(conf.Learners, raftpb.ConfChangeAddLearnerNode)
}

package meta

import (
	"slices"
	"testing"

	"go.etcd.io/etcd/raft/v3/confchange"
	"go.etcd.io/etcd/raft/v3/raftpb"
	"go.etcd.io/etcd/raft/v3/tracker"
)

func always(uint64) bool { return true }

// Starting from the first node alone, the planned changes, applied as raft
// applies them, end with every member in the group and an odd number of
// voters, and no step has two or four voters.
func TestTrapR13VotersRiseInPairs(t *testing.T) {
	for nodes, want := range map[int]int{1: 1, 2: 1, 3: 3, 4: 3, 5: 5, 9: 5} {
		s := cluster(t, 1, 1, nodes)
		conf := raftpb.ConfState{Voters: []uint64{1}}
		for step := 0; ; step++ {
			cc := PlanMembership(s, conf, always)
			if cc == nil {
				break
			}
			if step > 20 {
				t.Fatalf("%d nodes: no end of changes, now %+v", nodes, conf)
			}
			conf = follow(t, conf, cc)
			if n := len(conf.Voters); n%2 == 0 {
				t.Fatalf("%d nodes: %d voters on the way", nodes, n)
			}
		}
		if len(conf.Voters) != want || len(conf.Voters)+len(conf.Learners) != nodes {
			t.Errorf("%d nodes end as %+v, want %d voters", nodes, conf, want)
		}
	}
}

func TestLearnersThatLagAreNotPromoted(t *testing.T) {
	s := cluster(t, 1, 1, 3)
	conf := raftpb.ConfState{Voters: []uint64{1}, Learners: []uint64{2, 3}}
	if cc := PlanMembership(s, conf, func(r uint64) bool { return r == 2 }); cc != nil {
		t.Errorf("planned %+v with one learner caught up", cc)
	}
	conf.VotersOutgoing = []uint64{1}
	if cc := PlanMembership(s, conf, always); cc != nil {
		t.Errorf("planned %+v during a joint change", cc)
	}
}

// follow applies a change as raft does, leaving a joint configuration at once.
func follow(t *testing.T, conf raftpb.ConfState, cc *raftpb.ConfChangeV2) raftpb.ConfState {
	t.Helper()
	tr := tracker.MakeProgressTracker(8)
	cfg, prs, err := confchange.Restore(confchange.Changer{Tracker: tr, LastIndex: 1}, conf)
	if err != nil {
		t.Fatal(err)
	}
	tr.Config, tr.Progress = cfg, prs
	changer := confchange.Changer{Tracker: tr, LastIndex: 1}
	if _, joint := cc.EnterJoint(); joint {
		cfg, prs, err = changer.EnterJoint(true, cc.Changes...)
		if err == nil {
			tr.Config, tr.Progress = cfg, prs
			cfg, prs, err = confchange.Changer{Tracker: tr, LastIndex: 1}.LeaveJoint()
		}
	} else {
		cfg, prs, err = changer.Simple(cc.Changes...)
	}
	if err != nil {
		t.Fatal(err)
	}
	tr.Config, tr.Progress = cfg, prs
	out := tr.ConfState()
	slices.Sort(out.Learners)
	return out
}

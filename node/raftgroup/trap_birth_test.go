package raftgroup

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/raft/v3"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

// A replica that the genesis does not name, or of which something is stored,
// is not born: it waits for its leader.
func TestTrapR4_StartsEmptyAndWaits(t *testing.T) {
	w := newWorld(t, 4, 4, 1)
	w.lead(0)
	w.run(5*time.Second, nil)
	if s := w.nodes[3].host.Status(0); s.Term != 0 || s.LastIndex != 0 || s.Role != Follower {
		t.Fatalf("a replica outside of the genesis did something: %+v", s)
	}
	l := w.lead(0)
	if _, err := w.propose(l, 0, 9); err != nil {
		t.Fatal(err)
	}
	if _, err := w.do(w.nodes[l].host.ChangeConfAsync(0, add(raftpb.ConfChangeAddLearnerNode, 4), w.soon())); err != nil {
		t.Fatal(err)
	}
	w.must(10*time.Second, "the learner has everything", func() bool { return slices.Equal(w.nodes[3].machine.list(0), []uint64{9}) })
	if got, want := w.nodes[3].host.Status(0).Conf, w.nodes[l].host.Status(0).Conf; got.Equivalent(want) != nil {
		t.Fatalf("configurations differ: %v and %v", got, want)
	}
	w.run(3*time.Second, nil)
	if s := w.nodes[3].host.Status(0); s.Role != Follower {
		t.Fatalf("a learner campaigned: %+v", s)
	}

	// A genesis given again counts for nothing once anything is stored.
	conf := &raftpb.ConfState{Voters: []uint64{1}}
	r, err := recoverReplica(&wal.Recovered{State: raftpb.HardState{Term: 3, Vote: 2}}, Applied{}, Replica{Group: 0, ID: 1, Genesis: conf})
	if err != nil || r.write != nil {
		t.Fatalf("a replica that has voted was born again: %+v %v", r, err)
	}
}

func TestTrapR7_LeaderNeverRemovesItself(t *testing.T) {
	w := newWorld(t, 7, 3, 1)
	l := w.lead(0)
	self := replicaOf(0, l)
	other := replicaOf(0, (l+1)%3)
	for name, cc := range map[string]raftpb.ConfChangeV2{
		"removal":  add(raftpb.ConfChangeRemoveNode, self),
		"demotion": add(raftpb.ConfChangeAddLearnerNode, self),
		"joint":    {Changes: append(add(raftpb.ConfChangeRemoveNode, self).Changes, add(raftpb.ConfChangeAddNode, 4).Changes...)},
	} {
		if _, err := w.do(w.nodes[l].host.ChangeConfAsync(0, cc, w.soon())); !errors.Is(err, ErrLeaderRemoval) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	w.leadOn(0, (l+1)%3)
	if _, err := w.do(w.nodes[(l+1)%3].host.ChangeConfAsync(0, add(raftpb.ConfChangeRemoveNode, self), w.soon())); err != nil {
		t.Fatal(err)
	}
	if conf := w.nodes[(l+1)%3].host.Status(0).Conf; slices.Contains(conf.Voters, self) || !slices.Contains(conf.Voters, other) {
		t.Fatalf("configuration %v", conf)
	}
	w.run(5*time.Second, nil)
	if _, err := w.propose((l+1)%3, 0, 1); err != nil {
		t.Fatalf("the group of two does not take a write: %v", err)
	}
}

// A leader that is not a voter of the configuration it applied hands over.
func TestTrapR7_LeaderOutsideOfTheConfigurationHandsOver(t *testing.T) {
	w := newWorld(t, 70, 3, 1)
	l := w.lead(0)
	g := w.grp(l, 0)
	// As if another leader's joint change had been left while this one leads.
	g.conf.Voters = slices.DeleteFunc(slices.Clone(g.conf.Voters), func(id uint64) bool { return id == g.replica })
	if _, err := w.propose(l, 0, 1); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("took a proposal: %v", err)
	}
	w.must(5*time.Second, "another leads", func() bool { n := w.leader(0); return n >= 0 && n != l })
}

func refsOf(terms ...uint64) []wal.Ref {
	var refs []wal.Ref
	for i, term := range terms {
		refs = append(refs, wal.Ref{Index: uint64(i + 1), Term: term})
	}
	return refs
}

func TestTrapR8_Recovery(t *testing.T) {
	conf := raftpb.ConfState{Voters: []uint64{1, 2, 3}}
	id := Replica{Group: 1, ID: 1}
	state := func(term, vote, commit uint64) raftpb.HardState {
		return raftpb.HardState{Term: term, Vote: vote, Commit: commit}
	}
	for _, c := range []struct {
		name   string
		log    *wal.Recovered
		base   Applied
		hard   raftpb.HardState
		refs   int
		reset  bool
		refuse bool
	}{
		{name: "nothing stored starts empty"},
		{name: "a log without applied state is replayed from its start",
			log: &wal.Recovered{State: state(2, 1, 2), Refs: refsOf(1, 2, 2)}, hard: state(2, 1, 2), refs: 3},
		{name: "the base store is ahead of the commit index",
			log:  &wal.Recovered{State: state(2, 1, 1), Refs: refsOf(1, 2, 2)},
			base: Applied{Index: 3, Term: 2, Conf: conf}, hard: state(2, 1, 3), refs: 3},
		{name: "the base store is ahead of the term, whose vote is not ours",
			log:  &wal.Recovered{State: state(1, 3, 1), Refs: refsOf(1, 2)},
			base: Applied{Index: 2, Term: 2, Conf: conf}, hard: state(2, 0, 2), refs: 2},
		{name: "another term at C drops the log",
			log:  &wal.Recovered{State: state(2, 1, 1), Refs: refsOf(1, 2, 2)},
			base: Applied{Index: 2, Term: 3, Conf: conf}, hard: state(3, 0, 2), reset: true},
		{name: "another term at the log's start drops the log",
			log:  &wal.Recovered{State: state(4, 1, 2), Snapshot: wal.Mark{Index: 2, Term: 1}},
			base: Applied{Index: 2, Term: 2, Conf: conf}, hard: state(4, 1, 2), reset: true},
		{name: "a log that starts at C is kept",
			log:  &wal.Recovered{State: state(4, 1, 2), Snapshot: wal.Mark{Index: 2, Term: 2}},
			base: Applied{Index: 2, Term: 2, Conf: conf}, hard: state(4, 1, 2)},
		{name: "a log that ends below C refuses",
			log:  &wal.Recovered{State: state(2, 1, 1), Refs: refsOf(1)},
			base: Applied{Index: 2, Term: 2, Conf: conf}, refuse: true},
		{name: "no log below C refuses", base: Applied{Index: 2, Term: 2, Conf: conf}, refuse: true},
		{name: "a log that starts above C refuses",
			log:  &wal.Recovered{State: state(2, 1, 9), Snapshot: wal.Mark{Index: 9, Term: 2}},
			base: Applied{Index: 2, Term: 2, Conf: conf}, refuse: true},
		{name: "a commit index above the log refuses",
			log: &wal.Recovered{State: state(2, 1, 3), Refs: refsOf(1)}, refuse: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := recoverReplica(c.log, c.base, id)
			if c.refuse {
				if err == nil {
					t.Fatalf("started from %+v", r)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.hard != c.hard || len(r.refs) != c.refs || (r.write != nil) != c.reset {
				t.Fatalf("hard %v, %d refs, write %+v", r.hard, len(r.refs), r.write)
			}
			if c.reset && (*r.write.Reset != wal.Mark{Index: c.base.Index, Term: c.base.Term} || *r.write.State != c.hard) {
				t.Fatalf("write %+v", r.write)
			}
			rn, err := raft.NewRawNode(&raft.Config{
				ID: 1, ElectionTick: 10, HeartbeatTick: 1, MaxInflightMsgs: 1, Applied: r.applied.Index,
				Storage: newReplicaLog(nil, r, 1, &cacheBudget{}, &turnState{}),
				Logger:  &raftLogger{log: discard},
			})
			if err != nil || rn.BasicStatus().Commit != c.hard.Commit {
				t.Fatalf("raft does not start from it: %v", err)
			}
		})
	}
}

// A power loss may keep the base store's newest commits and lose the commit
// index that they came with: the replica starts all the same.
func TestTrapR8_BaseStoreAheadAfterPowerLoss(t *testing.T) {
	w := newWorldWith(t, 8, 1, 1, 1)
	w.lead(0)
	for id := range uint64(20) {
		if _, err := w.propose(0, 0, id+1); err != nil {
			t.Fatal(err)
		}
	}
	n := w.nodes[0]
	n.machine.sync()
	n.crash(false)
	c, _ := n.machine.Recover(0, 1)
	n.start()
	if s := n.host.Status(0); s.Commit < c.Index || s.Applied != c.Index {
		t.Fatalf("C is %d, status %+v", c.Index, s)
	}
	w.lead(0)
	if v, err := w.propose(0, 0, 21); err != nil || v != 20 {
		t.Fatal(v, err)
	}
}

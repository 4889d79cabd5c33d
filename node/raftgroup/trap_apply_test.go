package raftgroup

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

func TestTrapR14_ApplyStopsAloneAndKeepsVoting(t *testing.T) {
	w := newWorld(t, 14, 3, 2)
	w.leadOn(0, 0)
	w.leadOn(1, 0)
	w.nodes[0].machine.poisoned = true
	good := w.nodes[0].host.ProposeAsync(0, command(1, 0), nil, w.soon())
	bad := w.nodes[0].host.ProposeAsync(0, command(poison|2, 0), nil, w.soon())
	other := w.nodes[0].host.ProposeAsync(1, command(3, 0), nil, w.soon())
	if _, err := w.do(other); err != nil {
		t.Fatalf("another group of the same turn suffered: %v", err)
	}
	if _, err := w.do(bad); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	_, _ = w.do(good)
	w.must(5*time.Second, "leadership moves away", func() bool { l := w.leader(0); return l > 0 })
	stopped := w.nodes[0].host.Status(0)
	if !stopped.ApplyStopped {
		t.Fatalf("status %+v", stopped)
	}
	if _, err := w.propose(0, 0, 4); !errors.Is(err, ErrApplyStopped) {
		t.Fatal(err)
	}
	if _, err := w.do(w.nodes[0].host.ReadIndexAsync(0, w.soon())); !errors.Is(err, ErrApplyStopped) {
		t.Fatal(err)
	}
	// It acknowledges: the group goes on when the third replica is away. Far more
	// than one Ready's worth, so that nothing can pile up unnoticed.
	l := w.leader(0)
	away := 3 - l
	w.nodes[away].crash(true)
	for id := range uint64(30) {
		if _, err := w.propose(l, 0, 100+id); err != nil {
			t.Fatal(err)
		}
	}
	if s := w.nodes[0].host.Status(0); s.Applied != stopped.Applied || s.LastIndex <= stopped.LastIndex+20 {
		t.Fatalf("applied moved or the log did not: %+v, was %+v", s, stopped)
	}
	// It never leads, not even when asked, nor when it could win.
	w.nodes[away].start()
	w.run(3*time.Second, nil)
	w.nodes[w.lead(0)].host.TransferLeaderAsync(0, 1, w.now.Add(time.Second))
	w.run(3*time.Second, nil)
	if w.lead(0) == 0 {
		t.Fatal("a replica that can't apply leads")
	}
	// It votes: with one of the others gone, the last one needs its vote.
	gone := w.lead(0)
	w.nodes[gone].crash(true)
	w.must(20*time.Second, "the stopped replica votes", func() bool { l := w.leader(0); return l > 0 && l != gone })
	w.nodes[gone].start()
	// A configuration change reaches it although it applies nothing.
	if _, err := w.do(w.nodes[w.lead(0)].host.ChangeConfAsync(0, add(raftpb.ConfChangeAddLearnerNode, 9), w.soon())); err != nil {
		t.Fatal(err)
	}
	w.must(5*time.Second, "the configuration is followed", func() bool {
		return slices.Contains(w.nodes[0].host.Status(0).Conf.Learners, 9)
	})
	// A binary that knows the command continues where apply stopped.
	w.nodes[0].crash(true)
	w.nodes[0].machine.poisoned = false
	w.nodes[0].start()
	w.must(10*time.Second, "it catches up", func() bool {
		return slices.Equal(w.nodes[0].machine.list(0), w.nodes[w.lead(0)].machine.list(0))
	})
}

func TestTrapR14_UnknownEnvelopeVersionStopsApply(t *testing.T) {
	w := newWorldWith(t, 140, 1, 1, 2)
	w.lead(0)
	w.lead(1)
	g := w.grp(0, 0)
	if err := g.rn.Propose([]byte{envelopeVersion + 1, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	g.shard.mark(g)
	w.must(5*time.Second, "apply stops", func() bool { return w.nodes[0].host.Status(0).ApplyStopped })
	if _, err := w.propose(0, 0, 1); !errors.Is(err, ErrApplyStopped) {
		t.Fatal(err)
	}
	if _, err := w.propose(0, 1, 2); err != nil {
		t.Fatalf("the other group suffers: %v", err)
	}
}

func TestTrapD1_SuspectClockGivesUpLeadership(t *testing.T) {
	w := newWorld(t, 21, 3, 1)
	w.leadOn(0, 0)
	w.nodes[0].host.SetClockSuspect(true)
	var not *NotLeaderError
	if _, err := w.propose(0, 0, 1); !errors.As(err, &not) || not.Status.Leader == replicaOf(0, 0) {
		t.Fatalf("stamped with a suspect clock, or sent back here: %v", err)
	}
	w.must(3*time.Second, "leadership moves", func() bool { return w.leader(0) > 0 })
	// It does not campaign, whatever happens, and does not take over when asked.
	w.nodes[w.leader(0)].host.TransferLeaderAsync(0, 1, w.now.Add(time.Second))
	w.run(3*time.Second, nil)
	if w.lead(0) == 0 {
		t.Fatal("a suspect clock leads")
	}
	w.nodes[1].crash(true)
	w.nodes[2].crash(true)
	w.run(5*time.Second, nil)
	if s := w.nodes[0].host.Status(0); s.Role != Follower {
		t.Fatalf("campaigned: %+v", s)
	}
	w.nodes[0].host.SetClockSuspect(false)
	w.nodes[1].start()
	w.lead(0)

	sole := newWorldWith(t, 22, 1, 1, 1)
	sole.lead(0)
	sole.nodes[0].host.SetClockSuspect(true)
	if _, err := sole.propose(0, 0, 1); err != nil {
		t.Fatalf("a sole voter stopped: %v", err)
	}
}

func TestTrapD1_StampsNeverGoBack(t *testing.T) {
	w := newWorldWith(t, 23, 1, 1, 1)
	w.lead(0)
	w.nodes[0].skew = time.Hour
	if _, err := w.do(w.nodes[0].host.ProposeAsync(0, command(1, 0), nil, w.now.Add(2*time.Hour))); err != nil {
		t.Fatal(err)
	}
	high := w.grp(0, 0).lastStamp
	w.nodes[0].skew = -time.Minute
	g := w.grp(0, 0)
	p := w.nodes[0].host.ProposeAsync(0, command(2, 0), nil, w.now.Add(time.Hour))
	if _, err := w.do(p); err != nil {
		t.Fatal(err)
	}
	if g.lastStamp != high {
		t.Fatalf("stamp %d after %d", g.lastStamp, high)
	}
}

// One batch holds what several groups apply in a turn. A failing entry takes
// nothing with it: neither the entries before it nor another group's, whichever
// of them came first in the batch, and nothing is applied twice.
func TestTrapR14_AFailingEntryIsAlone(t *testing.T) {
	w := newWorldWith(t, 141, 1, 1, 3)
	w.uncommitted = 16 << 20
	w.nodes[0].crash(true)
	w.nodes[0].start()
	for g := range GroupID(3) {
		w.lead(g)
	}
	n := w.nodes[0]
	n.machine.poisoned = true
	half := 600 << 10 // so that two of them are two entries
	before := n.machine.begun
	first := n.host.ProposeAsync(1, command(1, 0), nil, w.soon())
	good := n.host.ProposeAsync(0, command(2, half), nil, w.soon())
	bad := n.host.ProposeAsync(0, command(poison|3, half), nil, w.soon())
	after := n.host.ProposeAsync(0, command(4, half), nil, w.soon())
	last := n.host.ProposeAsync(2, command(5, 0), nil, w.soon())
	n.host.Turn(w.now)
	if got := len(w.grp(0, 0).rd.Entries); got != 3 {
		t.Fatalf("%d entries", got)
	}
	for n.log.Pending() {
		if _, err := n.log.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	n.host.Turn(w.now)
	if rounds := n.machine.begun - before; rounds != 2 {
		t.Fatalf("applied in %d batches, not in one and its repetition", rounds)
	}
	for _, p := range []*Pending{first, good, last} {
		if _, err := w.do(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*Pending{bad, after} {
		if _, err := w.do(p); !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
	}
	for g, want := range [][]uint64{{2}, {1}, {5}} {
		if got := n.machine.list(GroupID(g)); !slices.Equal(got, want) || n.host.Status(GroupID(g)).ApplyStopped != (g == 0) {
			t.Fatalf("group %d applied %v", g, got)
		}
	}
}

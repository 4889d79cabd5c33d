package raftgroup

import (
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// A sole voter commits its own entry before it is on disk. Neither the entry as
// committed nor an answer may leave before the sync: a power loss takes it back.
func TestTrapR1_SoleVoterAndLearner(t *testing.T) {
	w := newWorldWith(t, 1, 2, 1, 1)
	w.lead(0)
	if _, err := w.do(w.nodes[0].host.ChangeConfAsync(0, add(raftpb.ConfChangeAddLearnerNode, 2), w.soon())); err != nil {
		t.Fatal(err)
	}
	if _, err := w.propose(0, 0, 1); err != nil {
		t.Fatal(err)
	}
	w.must(5*time.Second, "the learner follows", func() bool { return len(w.nodes[1].machine.list(0)) == 1 })

	w.nodes[0].stalled = true
	before := w.nodes[1].host.Status(0).Commit
	lost := w.nodes[0].host.ProposeAsync(0, command(2, 0), nil, w.now.Add(time.Minute))
	w.run(500*time.Millisecond, nil)
	if _, _, ended := lost.Poll(); ended {
		t.Fatal("answered before the sync")
	}
	if got := w.nodes[1].host.Status(0).Commit; got != before {
		t.Fatalf("the learner heard of commit %d before the sync, it was at %d", got, before)
	}
	w.nodes[0].crash(false)
	w.nodes[0].stalled = false
	w.nodes[0].start()
	w.lead(0)
	if _, err := w.propose(0, 0, 3); err != nil {
		t.Fatal(err)
	}
	w.must(5*time.Second, "the learner follows", func() bool { return len(w.nodes[1].machine.list(0)) == 2 })
	if got := w.nodes[1].machine.list(0); !slices.Equal(got, []uint64{1, 3}) {
		t.Fatalf("the learner has %v", got)
	}
}

func TestTrapR1_WhatMayLeaveBeforeTheSync(t *testing.T) {
	ents := []raftpb.Entry{{Index: 10}, {Index: 11}}
	for _, c := range []struct {
		name      string
		m         raftpb.Message
		ents      []raftpb.Entry
		electoral bool
		want      bool
	}{
		{"an append below the first entry leaves", raftpb.Message{Type: raftpb.MsgApp, Commit: 9}, ents, false, true},
		{"an append that commits the first entry waits", raftpb.Message{Type: raftpb.MsgApp, Commit: 10}, ents, false, false},
		{"a heartbeat below the first entry leaves", raftpb.Message{Type: raftpb.MsgHeartbeat, Commit: 9}, ents, false, true},
		{"a heartbeat that commits the last entry waits", raftpb.Message{Type: raftpb.MsgHeartbeat, Commit: 11}, ents, false, false},
		{"nothing leaves with a new term or vote", raftpb.Message{Type: raftpb.MsgApp, Commit: 1}, ents, true, false},
		{"an append's answer waits", raftpb.Message{Type: raftpb.MsgAppResp}, ents, false, false},
		{"a vote waits", raftpb.Message{Type: raftpb.MsgVoteResp}, ents, false, false},
		{"a heartbeat's answer waits", raftpb.Message{Type: raftpb.MsgHeartbeatResp}, ents, false, false},
		{"a read's answer waits", raftpb.Message{Type: raftpb.MsgReadIndexResp}, ents, false, false},
		{"a hand-over waits", raftpb.Message{Type: raftpb.MsgTimeoutNow}, ents, false, false},
		{"a vote without entries waits", raftpb.Message{Type: raftpb.MsgVote}, nil, true, false},
	} {
		if got := mayLeaveEarly(&c.m, c.ents, c.electoral); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

// A majority without the leader's own disk commits an entry, but the leader
// takes no second Ready, and answers nothing, before its own sync.
func TestTrapR2_NoSecondReadyBeforeTheSync(t *testing.T) {
	w := newWorld(t, 2, 3, 1)
	l := w.lead(0)
	w.nodes[l].stalled = true
	first := w.nodes[l].host.ProposeAsync(0, command(1, 0), nil, w.now.Add(time.Minute))
	w.step()
	var later []*Pending
	for id := range uint64(5) {
		later = append(later, w.nodes[l].host.ProposeAsync(0, command(2+id, 0), nil, w.now.Add(time.Minute)))
		w.run(40*time.Millisecond, nil)
	}
	g := w.grp(l, 0)
	index := g.rd.Entries[0].Index
	if g.stage != syncing || len(g.rd.Entries) != 1 {
		t.Fatalf("stage %d with %d entries in flight", g.stage, len(g.rd.Entries))
	}
	if commit := g.rn.BasicStatus().Commit; commit != index {
		t.Fatalf("the followers' acknowledgements did not commit %d: commit is %d", index, commit)
	}
	if _, _, ended := first.Poll(); ended || g.applied >= index {
		t.Fatal("answered or applied before the leader's own sync")
	}
	// What was proposed meanwhile is one entry, proposed at the sync.
	w.nodes[l].stalled = false
	if v, err := w.do(first); err != nil || v != 0 {
		t.Fatal(v, err)
	}
	for i, p := range later {
		if v, err := w.do(p); err != nil || v != i+1 {
			t.Fatal(v, err)
		}
	}
	if last := w.nodes[l].host.Status(0).LastIndex; last != index+1 {
		t.Fatalf("the five made %d entries", last-index)
	}
}

// A vote and an acknowledgement promise what is on disk, so neither leaves
// before it is.
func TestTrapR1_VotesAndAcknowledgementsFollowTheSync(t *testing.T) {
	w := newWorld(t, 101, 3, 1)
	l := w.lead(0)
	f := (l + 1) % 3
	w.maxDelay = time.Hour // what is sent stays to be seen
	w.net = nil
	node := w.nodes[f]
	node.stalled = true
	g := w.grp(f, 0)
	from := replicaOf(0, (l+2)%3)
	node.host.Step(0, g.replica, raftpb.Message{
		Type: raftpb.MsgVote, From: from, To: g.replica, Term: g.term + 1,
		Index: g.lastIndex, LogTerm: g.term, Context: []byte("CampaignTransfer"),
	})
	w.run(100*time.Millisecond, nil)
	if n := w.inFlight(raftpb.MsgVoteResp, g.replica); n != 0 || g.vote != from {
		t.Fatalf("%d votes left before the sync; voted for %d", n, g.vote)
	}
	node.stalled = false
	w.run(20*time.Millisecond, nil)
	if n := w.inFlight(raftpb.MsgVoteResp, g.replica); n != 1 {
		t.Fatalf("%d votes left after the sync", n)
	}

	node.stalled = true
	before := w.inFlight(raftpb.MsgAppResp, g.replica)
	node.host.Step(0, g.replica, raftpb.Message{
		Type: raftpb.MsgApp, From: from, To: g.replica, Term: g.term, Index: g.lastIndex, LogTerm: g.term - 1,
		Commit: g.lastIndex + 1, Entries: []raftpb.Entry{{Index: g.lastIndex + 1, Term: g.term}},
	})
	applied := g.applied
	w.run(100*time.Millisecond, nil)
	if n := w.inFlight(raftpb.MsgAppResp, g.replica); n != before || g.applied != applied {
		t.Fatalf("%d acknowledgements left before the sync, applied %d was %d", n-before, g.applied, applied)
	}
	node.stalled = false
	w.run(20*time.Millisecond, nil)
	if n := w.inFlight(raftpb.MsgAppResp, g.replica); n != before+1 || g.applied != g.lastIndex {
		t.Fatalf("%d acknowledgements left after the sync, applied %d was %d", n-before, g.applied, applied)
	}
}

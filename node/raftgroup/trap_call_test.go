package raftgroup

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/raft/v3"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

func TestTrapR10_ContextsAreUniqueAndStaleAnswersIgnored(t *testing.T) {
	if bytes.Equal(readContext(1, 5, 1), readContext(2, 5, 1)) || bytes.Equal(readContext(1, 5, 1), readContext(1, 6, 1)) {
		t.Fatal("contexts of two replicas or two starts are the same")
	}
	w := newWorld(t, 10, 3, 1)
	l := w.lead(0)
	if _, err := w.do(w.nodes[l].host.ReadIndexAsync(0, w.soon())); err != nil {
		t.Fatal(err)
	}
	// Cut the leader off. A read that waits must not be confirmed by answers to
	// a round of an earlier start, nor by one that a follower forwarded.
	for i := range w.nodes {
		w.cut[[2]int{l, i}], w.cut[[2]int{i, l}] = true, true
	}
	read := w.nodes[l].host.ReadIndexAsync(0, w.now.Add(10*time.Second))
	w.step()
	g := w.grp(l, 0)
	if !g.reads.active || len(g.reads.ctx) != 24 {
		t.Fatal("no round is outstanding")
	}
	for i := range w.nodes {
		if i == l {
			continue
		}
		from := replicaOf(0, i)
		for _, ctx := range [][]byte{readContext(g.replica, 99, g.reads.seq), readContext(g.replica, w.nodes[l].host.cfg.Nonce, g.reads.seq-1)} {
			w.nodes[l].host.Step(0, g.replica, raftpb.Message{Type: raftpb.MsgHeartbeatResp, From: from, To: g.replica, Term: g.term, Context: ctx})
			w.nodes[l].host.Step(0, g.replica, raftpb.Message{Type: raftpb.MsgReadIndexResp, From: from, To: g.replica, Term: g.term, Entries: []raftpb.Entry{{Data: ctx}}})
		}
	}
	w.step()
	if _, _, ended := read.Poll(); ended {
		t.Fatal("confirmed by a stale answer")
	}
	// Deposed by check-quorum, all its reads end.
	if _, err := w.do(read); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("a deposed leader's read ended with %v", err)
	}
}

func TestTrapR11_NothingIsForwardedAndRefusalsAreSure(t *testing.T) {
	w := newWorld(t, 11, 3, 1)
	l := w.lead(0)
	f := (l + 1) % 3
	_, err := w.propose(f, 0, 1)
	var not *NotLeaderError
	if !errors.As(err, &not) || not.Status.Leader != replicaOf(0, l) {
		t.Fatalf("a follower answered %v", err)
	}
	// A proposal, read or transfer that arrives as a message is ignored.
	last := w.nodes[l].host.Status(0).LastIndex
	for _, typ := range []raftpb.MessageType{raftpb.MsgProp, raftpb.MsgReadIndex, raftpb.MsgTransferLeader, raftpb.MsgSnap, raftpb.MsgHup} {
		w.nodes[l].host.Step(0, replicaOf(0, l), raftpb.Message{Type: typ, From: replicaOf(0, f), To: replicaOf(0, l), Entries: []raftpb.Entry{{Data: []byte("x")}}})
	}
	w.run(time.Second, nil)
	if s := w.nodes[l].host.Status(0); s.LastIndex != last || s.Role != Leader {
		t.Fatalf("a forwarded message was taken: %+v", s)
	}
	// While leadership moves, nothing is proposed.
	w.grp(l, 0).rn.TransferLeader(replicaOf(0, f))
	if _, err := w.propose(l, 0, 2); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("proposed during a transfer: %v", err)
	}
	w.run(2*time.Second, nil)
	for _, n := range w.nodes {
		if got := n.machine.list(0); len(got) != 0 {
			t.Fatalf("something refused was applied: %v", got)
		}
	}
}

func TestTrapR11_MembershipWaitsForTheConfigurationNotForAnEntry(t *testing.T) {
	w := newWorld(t, 111, 4, 1)
	l := w.lead(0)
	host := w.nodes[l].host
	grow := add(raftpb.ConfChangeAddLearnerNode, 4)
	// Raft replaces a change by an empty entry while an earlier one is unapplied.
	w.nodes[l].stalled = true
	first := host.ChangeConfAsync(0, grow, w.soon())
	w.step()
	second := host.ChangeConfAsync(0, grow, w.soon())
	w.step()
	if _, err, ended := second.Poll(); !ended || !errors.Is(err, ErrBusy) {
		t.Fatalf("a second change: %v %v", err, ended)
	}
	w.nodes[l].stalled = false
	if _, err := w.do(first); err != nil {
		t.Fatal(err)
	}
	// Asked for what is there already: done, without an entry.
	last := host.Status(0).LastIndex
	if _, err := w.do(host.ChangeConfAsync(0, grow, w.soon())); err != nil || host.Status(0).LastIndex != last {
		t.Fatalf("%v, last index %d was %d", err, host.Status(0).LastIndex, last)
	}
	// Raft's own refusal is seen at once and is not waited for.
	g := w.grp(l, 0)
	w.nodes[l].stalled = true
	if err := g.rn.ProposeConfChange(add(raftpb.ConfChangeAddNode, 4)); err != nil {
		t.Fatal(err)
	}
	host.Turn(w.now)
	refused := host.ChangeConfAsync(0, add(raftpb.ConfChangeRemoveNode, 4), w.soon())
	w.step()
	w.nodes[l].stalled = false
	w.grp(l, 0).rn.Tick()
	if _, err := w.do(refused); err != nil && !errors.Is(err, ErrBusy) {
		t.Fatalf("%v", err)
	}
	if _, err := w.do(host.ChangeConfAsync(0, add(raftpb.ConfChangeRemoveNode, 1, 2, 3, 4), w.soon())); !errors.Is(err, ErrConfChange) {
		t.Fatalf("removing everyone: %v", err)
	}
}

// A confirmed read is answered only once the applied state covers its index.
func TestTrapR10_ReadsWaitForApply(t *testing.T) {
	w := newWorld(t, 102, 3, 1)
	l := w.lead(0)
	w.maxDelay = time.Hour
	w.net = nil
	read := w.nodes[l].host.ReadIndexAsync(0, w.soon())
	w.step()
	g := w.grp(l, 0)
	g.confirmRead(&raft.ReadState{RequestCtx: readContext(g.replica, w.nodes[l].host.cfg.Nonce, g.reads.seq-1)})
	if _, _, ended := read.Poll(); ended || !g.reads.active {
		t.Fatal("took the answer to another round")
	}
	g.confirmRead(&raft.ReadState{Index: g.applied + 1, RequestCtx: g.reads.ctx})
	if _, _, ended := read.Poll(); ended {
		t.Fatal("answered before its index was applied")
	}
	g.applied++
	g.releaseReads()
	if _, err, ended := read.Poll(); !ended || err != nil {
		t.Fatal(ended, err)
	}
}

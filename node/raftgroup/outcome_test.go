package raftgroup

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// cutOff separates a node from all others.
func (w *world) cutOff(node int) {
	for i := range w.nodes {
		w.cut[[2]int{node, i}], w.cut[[2]int{i, node}] = true, true
	}
}

func TestEveryCallEndsByItsDeadline(t *testing.T) {
	w := newWorld(t, 31, 3, 1)
	l := w.lead(0)
	w.cutOff(l)
	host := w.nodes[l].host
	deadline := w.now.Add(100 * time.Millisecond) // well before check-quorum deposes it
	proposed := host.ProposeAsync(0, command(1, 0), nil, deadline)
	read := host.ReadIndexAsync(0, deadline)
	conf := host.ChangeConfAsync(0, add(raftpb.ConfChangeAddLearnerNode, 9), deadline)
	w.nodes[l].stalled = true // the next ones wait for its sync to be proposed
	w.run(50*time.Millisecond, nil)
	queued := host.ProposeAsync(0, command(2, 0), nil, deadline)
	w.run(50*time.Millisecond+3*simTick, nil)
	for _, c := range []struct {
		name string
		p    *Pending
		want error
	}{
		{"a proposal whose entry is out", proposed, ErrOutcomeUnknown},
		{"a read", read, ErrUnconfirmed},
		{"a membership change whose entry is out", conf, ErrOutcomeUnknown},
		{"a proposal that waits", queued, ErrBusy},
	} {
		if _, err, ended := c.p.Poll(); !ended || !errors.Is(err, c.want) {
			t.Errorf("%s: ended %v with %v, want %v", c.name, ended, err, c.want)
		}
	}
	if host.Status(0).Role != Leader {
		t.Fatal("the leader was deposed before the deadlines: this proves nothing")
	}
}

func TestLostLeadershipMakesOutcomesUnknown(t *testing.T) {
	w := newWorld(t, 32, 3, 1)
	l := w.lead(0)
	w.cutOff(l)
	out := w.nodes[l].host.ProposeAsync(0, command(1, 0), nil, w.now.Add(time.Hour))
	if _, err := w.do(out); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	if w.nodes[l].host.Status(0).Role == Leader {
		t.Fatal("still leads")
	}
	w.heal()
	w.check(w.members)
}

// What is known to be committed when leadership goes is still answered.
func TestCommittedEntriesAreAnsweredAfterLeadershipIsLost(t *testing.T) {
	w := newWorld(t, 33, 3, 1)
	l := w.lead(0)
	w.nodes[l].stalled = true
	p := w.nodes[l].host.ProposeAsync(0, command(1, 0), nil, w.now.Add(time.Hour))
	g := w.grp(l, 0)
	w.must(time.Second, "the followers commit it", func() bool { return g.rn != nil && g.stage == syncing && g.rn.BasicStatus().Commit >= g.lastIndex })
	other := (l + 1) % 3
	w.nodes[l].host.Step(0, g.replica, raftpb.Message{Type: raftpb.MsgHeartbeat, From: replicaOf(0, other), To: g.replica, Term: g.term + 1})
	w.step()
	if g.role == Leader {
		t.Fatal("still leads")
	}
	if _, _, ended := p.Poll(); ended {
		t.Fatal("ended before it was applied")
	}
	w.nodes[l].stalled = false
	if v, err := w.do(p); err != nil || v != 0 {
		t.Fatal(v, err)
	}
}

func TestStopEndsEverything(t *testing.T) {
	w := newWorld(t, 34, 3, 1)
	l := w.lead(0)
	w.cutOff(l)
	host := w.nodes[l].host
	out := host.ProposeAsync(0, command(1, 0), nil, w.now.Add(time.Hour))
	read := host.ReadIndexAsync(0, w.now.Add(time.Hour))
	w.step()
	queued := host.ProposeAsync(0, command(2, 0), nil, w.now.Add(time.Hour))
	if err := host.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    *Pending
		want error
	}{{out, ErrOutcomeUnknown}, {read, ErrNoReplica}, {queued, ErrNoReplica}, {host.ProposeAsync(0, command(3, 0), nil, w.soon()), ErrNoReplica}} {
		if _, err, ended := c.p.Poll(); !ended || !errors.Is(err, c.want) {
			t.Errorf("ended %v with %v, want %v", ended, err, c.want)
		}
	}
	w.nodes[l].up = false
}

func TestLogFailureStopsTheNodeAndAcknowledgesNothing(t *testing.T) {
	w := newWorldWith(t, 35, 1, 1, 1)
	w.lead(0)
	p := w.nodes[0].host.ProposeAsync(0, command(1, 0), nil, w.now.Add(time.Hour))
	w.nodes[0].stalled = true
	w.step()
	if err := w.nodes[0].log.Close(); err != nil { // ends what is queued with an error
		t.Fatal(err)
	}
	w.nodes[0].host.Turn(w.now)
	if w.fatal == nil {
		t.Fatal("the node goes on without a log")
	}
	if _, err, ended := p.Poll(); !ended || !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("ended %v with %v", ended, err)
	}
	if _, err, ended := w.nodes[0].host.ReadIndexAsync(0, w.soon()).Poll(); ended && err == nil {
		t.Fatal("a read succeeded")
	}
	w.nodes[0].host.Turn(w.now)
}

func TestRemoveWaitsForTheLog(t *testing.T) {
	w := newWorldWith(t, 36, 1, 1, 2)
	w.lead(0)
	w.nodes[0].stalled = true
	host := w.nodes[0].host
	p := host.ProposeAsync(0, command(1, 0), nil, w.now.Add(time.Hour))
	w.step()
	gone := host.Remove(0)
	w.step()
	select {
	case <-gone:
		t.Fatal("removed while the log writes for it")
	default:
	}
	if _, err, ended := p.Poll(); !ended || !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("ended %v with %v", ended, err)
	}
	if s := host.Status(0); s.Replica != 0 {
		t.Fatalf("status of a removed replica: %+v", s)
	}
	if err := host.Start(Replica{Group: 0, ID: 77}); err == nil {
		t.Fatal("started while the old replica is still there")
	}
	w.nodes[0].stalled = false
	w.run(50*time.Millisecond, nil)
	select {
	case <-gone:
	default:
		t.Fatal("not removed")
	}
	if _, err := w.propose(0, 1, 5); err != nil {
		t.Fatalf("the other group suffers: %v", err)
	}
}

func TestUncommittedBytesAreBounded(t *testing.T) {
	w := newWorldWith(t, 37, 1, 1, 1) // 256 KiB per group
	w.lead(0)
	w.nodes[0].stalled = true
	host := w.nodes[0].host
	big := host.ProposeAsync(0, command(1, 500<<10), nil, w.soon()) // alone it is admitted
	w.step()
	var rest []*Pending
	for id := range uint64(10) {
		rest = append(rest, host.ProposeAsync(0, command(2+id, 100<<10), nil, w.soon()))
	}
	w.step()
	w.nodes[0].stalled = false
	if _, err := w.do(big); err != nil {
		t.Fatal(err)
	}
	ok, busy := 0, 0
	for _, p := range rest {
		switch _, err := w.do(p); {
		case err == nil:
			ok++
		case errors.Is(err, ErrBusy):
			busy++
		default:
			t.Fatal(err)
		}
	}
	if ok+busy != 10 || ok == 0 {
		t.Fatalf("%d applied, %d refused", ok, busy)
	}
	if n := len(w.nodes[0].machine.list(0)); n != 1+ok {
		t.Fatalf("%d commands applied, %d acknowledged", n, 1+ok)
	}
}

func TestTrapR12_MailboxIsBounded(t *testing.T) {
	w := newWorld(t, 38, 3, 1)
	l := w.lead(0)
	host := w.nodes[l].host
	box := &host.shards[0].box
	box.limit = 1 << 20
	refused := 0
	for id := range uint64(30) {
		if _, err, ended := host.ProposeAsync(0, command(id, 100<<10), nil, w.soon()).Poll(); ended && errors.Is(err, ErrBusy) {
			refused++
		}
	}
	if refused < 19 || box.size() > 1<<20 {
		t.Fatalf("%d refused, %d bytes wait", refused, box.size())
	}
	before := host.Stats().DroppedMessages
	host.Step(0, replicaOf(0, l), raftpb.Message{Type: raftpb.MsgApp, To: replicaOf(0, l), From: replicaOf(0, (l+1)%3), Entries: []raftpb.Entry{{Data: make([]byte, 1<<20)}}})
	if host.Stats().DroppedMessages != before+1 {
		t.Fatal("a message above the bound was taken")
	}
	w.run(3*time.Second, nil)
	w.must(time.Second, "nothing is counted when nothing waits", func() bool { return box.size() == 0 })
	// One that is alone always fits.
	box.limit = 1
	if _, err := w.propose(l, 0, 99); err != nil {
		t.Fatal(err)
	}
}

// Everything that waits for a group becomes one entry, and no write waits for
// the commit of an earlier one: what came during a sync is proposed when the
// sync ends, although a majority has not answered for the entries before.
func TestWritesArePipelined(t *testing.T) {
	w := newWorld(t, 39, 3, 1)
	l := w.lead(0)
	w.cutOff(l) // nothing commits
	host := w.nodes[l].host
	first := host.Status(0).LastIndex
	var calls []*Pending
	for round := range 5 {
		for range 10 {
			calls = append(calls, host.ProposeAsync(0, command(uint64(len(calls)+1), 0), nil, w.now.Add(time.Hour)))
		}
		host.Turn(w.now)
		if got := host.Status(0).LastIndex; got != first+uint64(round)+1 {
			t.Fatalf("round %d: last index %d after %d, commit %d", round, got, first, host.Status(0).Commit)
		}
		if _, err := w.nodes[l].log.Flush(); err != nil {
			t.Fatal(err)
		}
		host.Turn(w.now)
	}
	if host.Status(0).Commit != first {
		t.Fatal("committed while cut off")
	}
	clear(w.cut)
	for i, p := range calls {
		if v, err := w.do(p); err != nil || v != i {
			t.Fatalf("call %d: %v %v", i, v, err)
		}
	}
}

func TestLargeEntriesReplicateAndCatchUpFromDisk(t *testing.T) {
	w := newWorld(t, 40, 3, 1)
	l := w.lead(0)
	away := (l + 1) % 3
	w.nodes[away].crash(true)
	for id := range uint64(12) {
		if _, err := w.do(w.nodes[l].host.ProposeAsync(0, command(id+1, 400<<10), nil, w.now.Add(time.Minute))); err != nil {
			t.Fatal(err)
		}
	}
	// The cache holds a few KiB, so all of it is read back from the log.
	if held := w.nodes[l].host.Stats().CachedBytes; held > 16<<10 {
		t.Fatalf("%d bytes are cached", held)
	}
	w.nodes[away].start()
	w.must(time.Minute, "the follower catches up", func() bool { return len(w.nodes[away].machine.list(0)) == 12 })
	if !slices.Equal(w.nodes[away].machine.list(0), w.nodes[l].machine.list(0)) {
		t.Fatal("replicas differ")
	}
}

func TestTransferGoesOnlyToACaughtUpVoter(t *testing.T) {
	w := newWorld(t, 41, 4, 1)
	l := w.lead(0)
	host := w.nodes[l].host
	if _, err := w.do(host.ChangeConfAsync(0, add(raftpb.ConfChangeAddLearnerNode, 4), w.soon())); err != nil {
		t.Fatal(err)
	}
	down := (l + 1) % 3
	w.nodes[down].crash(true)
	w.run(2*time.Second, nil)
	for _, to := range []uint64{4, 9, replicaOf(0, down)} {
		if _, err := w.do(host.TransferLeaderAsync(0, to, w.soon())); !errors.Is(err, ErrNotCaughtUp) {
			t.Fatalf("transfer to %d: %v", to, err)
		}
	}
	to := replicaOf(0, (l+2)%3)
	if _, err := w.do(host.TransferLeaderAsync(0, to, w.soon())); err != nil {
		t.Fatal(err)
	}
	if _, err := w.do(host.TransferLeaderAsync(0, to, w.soon())); !errors.Is(err, ErrNotLeader) {
		t.Fatal(err)
	}
}

func TestReadsShareRounds(t *testing.T) {
	w := newWorld(t, 42, 3, 1)
	l := w.lead(0)
	g := w.grp(l, 0)
	before := g.reads.seq
	var reads []*Pending
	for range 50 {
		reads = append(reads, w.nodes[l].host.ReadIndexAsync(0, w.soon()))
	}
	w.step()
	for range 50 {
		reads = append(reads, w.nodes[l].host.ReadIndexAsync(0, w.soon()))
	}
	for _, p := range reads {
		if _, err := w.do(p); err != nil {
			t.Fatal(err)
		}
	}
	if rounds := g.reads.seq - before; rounds != 2 {
		t.Fatalf("100 reads took %d rounds", rounds)
	}
}

func TestCoalesceDropsOnlyWhatALaterAppendTells(t *testing.T) {
	app := func(to, index, commit uint64, ents int) Message {
		return Message{Group: 1, Message: raftpb.Message{Type: raftpb.MsgApp, To: to, Term: 2, LogTerm: 2, Index: index, Commit: commit, Entries: make([]raftpb.Entry, ents)}}
	}
	beat := Message{Group: 1, Message: raftpb.Message{Type: raftpb.MsgHeartbeat, To: 2, Term: 2}}
	for _, c := range []struct {
		name string
		in   []Message
		want int
	}{
		{"a commit before the entries that follow", []Message{app(2, 5, 5, 0), app(2, 5, 5, 3)}, 1},
		{"to another replica", []Message{app(2, 5, 5, 0), app(3, 5, 5, 3)}, 2},
		{"after another entry", []Message{app(2, 5, 5, 0), app(2, 6, 6, 1)}, 2},
		{"an older commit follows", []Message{app(2, 5, 5, 0), app(2, 5, 4, 1)}, 2},
		{"entries are never dropped", []Message{app(2, 5, 5, 1), app(2, 5, 5, 1)}, 2},
		{"a heartbeat between", []Message{app(2, 5, 5, 0), beat, app(2, 5, 6, 0)}, 2},
	} {
		if got := coalesce(slices.Clone(c.in)); len(got) != c.want {
			t.Errorf("%s: %d messages left", c.name, len(got))
		}
	}
}

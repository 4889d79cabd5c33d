package transport

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// R9: a snapshot is installed only from its own staged stream, and every
// outcome is reported. Until that stream exists, its message must not cross
// the wire: a receiver would restore without data.
func TestTrapR9_SnapshotMessagesAreNotCarried(t *testing.T) {
	d := newDirectory()
	a, b := startNode(t, d, 1), startNode(t, d, 2)
	a.awaitUp(t, 2)
	snap := raftpb.Message{Type: raftpb.MsgSnap, Snapshot: raftpb.Snapshot{Metadata: raftpb.SnapshotMetadata{Index: 5, Term: 1}}}
	for range 3 {
		a.Send(2, []Message{{Group: 1, Raft: snap}, heartbeat(1, 1)})
	}
	for _, m := range b.awaitMessages(t, 3) {
		if m.Raft.Type != raftpb.MsgHeartbeat {
			t.Errorf("received %v", m.Raft.Type)
		}
	}
	if got := a.Stats().MessagesDropped; got != 3 {
		t.Errorf("%d dropped", got)
	}
	if n := a.log.count("can't be sent"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	conn := dialAs(t, b, 3, kindBulk)
	if _, err := conn.Write(encodeFrame(t, envelope{Cluster: b.fingerprint, Sender: 3}, []Message{{Group: 1, Raft: snap}})); err != nil {
		t.Fatal(err)
	}
	poll(t, "the sender of a snapshot to be cut", func() bool { return b.Stats().Broken == 1 })
}

// R12: a 32 MiB message ahead of heartbeats is an election.
func TestTrapR12_HeartbeatsDoNotWaitForALargeMessage(t *testing.T) {
	checkGoroutines(t)
	d := newDirectory()
	b := startNode(t, d, 2)
	p := startProxy(t, b.Addr().String()) // its hops make the large message slow
	d.set(2, p.listener.Addr().String())
	a := startNode(t, d, 1)
	a.awaitUp(t, 2)
	a.Send(2, []Message{appendOf(1, 1, 32<<20)})
	urgentOnes := []raftpb.MessageType{
		raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp,
		raftpb.MsgPreVote, raftpb.MsgPreVoteResp, raftpb.MsgReadIndex, raftpb.MsgReadIndexResp, raftpb.MsgTimeoutNow,
	}
	for _, mt := range urgentOnes {
		a.Send(2, []Message{{Group: 1, Raft: raftpb.Message{Type: mt}}})
	}
	got := b.awaitMessages(t, len(urgentOnes)+1)
	at := slices.IndexFunc(got, func(m Message) bool { return m.Raft.Type == raftpb.MsgApp })
	if at != len(got)-1 {
		t.Errorf("the large message arrived as number %d of %d", at+1, len(got))
	}
}

// R12: what is in flight to a slow peer is bounded in bytes.
func TestTrapR12_BytesInFlightToASlowPeerAreBounded(t *testing.T) {
	d := newDirectory()
	b := startNode(t, d, 2)
	p := startProxy(t, b.Addr().String())
	d.set(2, p.listener.Addr().String())
	const limit = 8 << 20
	a := startNode(t, d, 1, func(c *Config, _ *timing) {
		c.MaxMessage, c.QueueBytes = 2<<20, limit
	})
	a.awaitUp(t, 2)
	p.freeze(true)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 200 {
		a.Send(2, []Message{appendOf(1, uint64(i+1), 1<<20)})
		if s := a.peerStatus(2); s.QueuedBytes > limit+limit/8 {
			t.Fatalf("%d bytes queued", s.QueuedBytes)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// Beside the queue: what the kernel's and the proxy's buffers took is gone
	// from the heap; one frame is being written.
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2*limit {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if a.Stats().MessagesDropped < 100 {
		t.Errorf("%d messages dropped", a.Stats().MessagesDropped)
	}
	p.freeze(false)
	b.awaitMessages(t, 1)
}

// D1: frames carry clocks, and a node whose own clock jumps knows at once.
func TestTrapD1_AJumpOfOurOwnClockShowsAtOnce(t *testing.T) {
	d := newDirectory()
	jump := make(chan time.Duration, 1)
	jump <- 0
	a := startNode(t, d, 1, func(c *Config, _ *timing) {
		c.Clock = func() time.Time {
			by := <-jump
			jump <- by
			return time.Now().Add(by)
		}
	})
	for id := uint64(2); id <= 3; id++ {
		startNode(t, d, id)
		a.Connect(id)
	}
	poll(t, "both clocks to be known", func() bool { return len(a.ClockOffsets()) == 2 })
	if Skew(a.ClockOffsets()) {
		t.Errorf("suspect with %+v", a.ClockOffsets())
	}
	<-jump
	jump <- 365 * 24 * time.Hour
	if !Skew(a.ClockOffsets()) {
		t.Errorf("trusted with %+v", a.ClockOffsets())
	}
	<-jump
	jump <- -3 * time.Second
	if !Skew(a.ClockOffsets()) {
		t.Errorf("trusted with %+v", a.ClockOffsets())
	}
}

// H3 (c), section 7 (2): the envelope carries cluster, sender and clock, each
// message its group and loss epoch, so that replicas that were given up can be
// told from those that live. Parts of a large message carry them too.
func TestTrapH3c_EveryMessageCarriesItsLossEpoch(t *testing.T) {
	d := newDirectory()
	a, b := startNode(t, d, 1), startNode(t, d, 2)
	small, large := heartbeat(4, 1), appendOf(5, 1, 2<<20)
	small.LossEpoch, large.LossEpoch = 3, 4
	a.Send(2, []Message{small, large})
	for _, m := range b.awaitMessages(t, 2) {
		if want := m.Group - 1; m.LossEpoch != want {
			t.Errorf("group %d came with loss epoch %d, want %d", m.Group, m.LossEpoch, want)
		}
	}
}

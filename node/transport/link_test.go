package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

func TestMessagesOfThreeNodesArriveWithTheirSender(t *testing.T) {
	checkGoroutines(t)
	d := newDirectory()
	nodes := []*testNode{startNode(t, d, 1), startNode(t, d, 2), startNode(t, d, 3)}
	for i, from := range nodes {
		for j := range nodes {
			if i != j {
				m := heartbeat(uint32(10*i+j), 5)
				m.LossEpoch = uint32(i + 7)
				from.Send(uint64(j+1), []Message{m})
			}
		}
	}
	for j, to := range nodes {
		to.awaitMessages(t, 2)
		to.note(func() {
			for k, batch := range to.batches {
				i := int(to.from[k]) - 1
				want := heartbeat(uint32(10*i+j), 5)
				want.LossEpoch = uint32(i + 7)
				if diff := cmp.Diff([]Message{want}, batch); diff != "" {
					t.Errorf("node %d from node %d: %s", j+1, i+1, diff)
				}
			}
		})
	}
}

func TestAppendsOfAGroupArriveInOrder(t *testing.T) {
	checkGoroutines(t)
	d := newDirectory()
	a, b := startNode(t, d, 1), startNode(t, d, 2)
	const groups, perGroup = 8, 500
	var senders sync.WaitGroup
	for g := range uint32(groups) {
		senders.Go(func() {
			for i := range perGroup {
				size := 300
				if i == perGroup/2 && g%2 == 0 {
					size = 3 << 20 // goes in parts
				}
				a.Send(2, []Message{appendOf(g, uint64(i+1), size), heartbeat(g, uint64(i))})
			}
		})
	}
	senders.Wait()
	last := map[uint32]uint64{}
	for _, m := range b.awaitMessages(t, 2*groups*perGroup) {
		if m.Raft.Type != raftpb.MsgApp {
			continue
		}
		if want := last[m.Group] + 1; m.Raft.Entries[0].Index != want {
			t.Fatalf("group %d: index %d, want %d", m.Group, m.Raft.Entries[0].Index, want)
		}
		last[m.Group]++
	}
	if dropped := a.Stats().MessagesDropped; dropped != 0 {
		t.Errorf("%d messages dropped", dropped)
	}
	poll(t, "the queue's bytes to come back", func() bool { return a.peerStatus(2).QueuedBytes == 0 })
}

func TestHeartbeatsOfAllGroupsTravelInOneFrame(t *testing.T) {
	d := newDirectory()
	a, b := startNode(t, d, 1), startNode(t, d, 2)
	a.awaitUp(t, 2)
	var beats []Message
	for g := range uint32(256) {
		beats = append(beats, heartbeat(g, 1))
	}
	a.Send(2, beats)
	b.awaitMessages(t, len(beats))
	if got := b.Stats(); got.FramesReceived != 1 || got.MessagesReceived != 256 {
		t.Errorf("%d messages in %d frames, want 256 in 1", got.MessagesReceived, got.FramesReceived)
	}
	b.note(func() {
		if len(b.batches) != 1 {
			t.Errorf("handed over in %d batches", len(b.batches))
		}
	})
}

func TestALargeMessageArrivesWholeAndOthersPassIt(t *testing.T) {
	checkGoroutines(t)
	d := newDirectory()
	a, b := startNode(t, d, 1), startNode(t, d, 2)
	a.awaitUp(t, 2)
	large := appendOf(1, 1, 32<<20)
	a.Send(2, []Message{large, appendOf(1, 2, 100), appendOf(2, 1, 100)})
	got := b.awaitMessages(t, 3)
	var order []string
	for _, m := range got {
		order = append(order, fmt.Sprintf("%d/%d", m.Group, m.Raft.Entries[0].Index))
	}
	if want := "[2/1 1/1 1/2]"; fmt.Sprint(order) != want {
		t.Errorf("arrived as %v, want %s", order, want)
	}
	if !bytes.Equal(got[1].Raft.Entries[0].Data, large.Raft.Entries[0].Data) {
		t.Error("the large entry changed on its way")
	}
}

func TestAPeerThatIsNotThereCostsBoundedMemoryAndDropsTheRest(t *testing.T) {
	d := newDirectory()
	d.set(2, "127.0.0.1:1")
	a := startNode(t, d, 1, func(c *Config, tm *timing) {
		c.MaxMessage, c.QueueBytes = 2<<20, 4<<20
		tm.stale = patience
	})
	for i := range 10_000 {
		a.Send(2, []Message{appendOf(1, uint64(i+1), 10_000), heartbeat(1, uint64(i))})
	}
	s := a.peerStatus(2)
	if s.QueuedBytes > 4<<20+512<<10 || s.QueuedMessages == 0 {
		t.Errorf("%d messages of %d bytes queued", s.QueuedMessages, s.QueuedBytes)
	}
	if got := a.Stats().MessagesDropped; got != uint64(20_000-s.QueuedMessages) {
		t.Errorf("%d dropped, %d queued of 20000", got, s.QueuedMessages)
	}
	a.await(t, "Unreachable", func() bool { return a.losses(2) > 1 })
	if a.peerStatus(2).Up || a.peerStatus(2).Err == nil {
		t.Errorf("status %+v", a.peerStatus(2))
	}
}

func TestWhatIsStaleIsNotSentWhenThePeerComesBack(t *testing.T) {
	d := newDirectory()
	a := startNode(t, d, 1, func(_ *Config, tm *timing) { tm.stale = 300 * time.Millisecond })
	a.Send(2, []Message{heartbeat(1, 1), appendOf(1, 1, 10)})
	poll(t, "the old messages to be dropped", func() bool { return a.Stats().MessagesDropped == 2 })
	if s := a.peerStatus(2); !errors.Is(s.Err, ErrNoAddress) || s.QueuedBytes != 0 {
		t.Errorf("status %+v", s)
	}
	b := startNode(t, d, 2)
	a.awaitUp(t, 2)
	a.Send(2, []Message{heartbeat(1, 9)})
	if got := b.awaitMessages(t, 1); len(got) != 1 || got[0].Raft.Commit != 9 {
		t.Errorf("got %+v", got)
	}
}

func TestAFullQueueIsReportedAsALoss(t *testing.T) {
	d := newDirectory()
	b := startNode(t, d, 2)
	a := startNode(t, d, 1, func(c *Config, tm *timing) { c.MaxMessage, c.QueueBytes = 2<<20, 3<<20 })
	a.awaitUp(t, 2)
	before := a.losses(2)
	for i := 0; a.Stats().MessagesDropped == 0; i++ {
		a.Send(2, []Message{appendOf(1, uint64(i+1), 1<<20)})
	}
	a.await(t, "Unreachable", func() bool { return a.losses(2) > before })
	if !a.peerStatus(2).Up {
		t.Error("a full queue must not cost the connection")
	}
	b.awaitMessages(t, 1)
}

func TestARestartedPeerIsBackSoon(t *testing.T) {
	checkGoroutines(t)
	d := newDirectory()
	a, b := startNode(t, d, 1, slowBackoff), startNode(t, d, 2)
	a.awaitUp(t, 2)
	a.Send(2, []Message{heartbeat(1, 1)})
	b.awaitMessages(t, 1)
	addr := b.Addr().String()
	before := a.losses(2)
	b.stop(t)
	a.await(t, "Unreachable", func() bool { return a.losses(2) > before })
	poll(t, "the links to be down", func() bool { return !a.peerStatus(2).Up })

	b = startNode(t, d, 2, func(c *Config, _ *timing) { c.Listen = addr })
	b.Connect(1) // a's back-off is an hour: being reached must end it
	a.awaitUp(t, 2)
	a.Send(2, []Message{heartbeat(1, 2)})
	if got := b.awaitMessages(t, 1); got[0].Raft.Commit != 2 {
		t.Errorf("got %+v", got)
	}
}

func slowBackoff(_ *Config, tm *timing) { tm.backoffMax = time.Hour }

func TestAPeerThatFallsSilentIsNoticed(t *testing.T) {
	checkGoroutines(t)
	d := newDirectory()
	b := startNode(t, d, 2)
	p := startProxy(t, b.Addr().String())
	d.set(2, p.listener.Addr().String())
	a := startNode(t, d, 1, func(_ *Config, tm *timing) { tm.silence = 2 * time.Second })
	a.awaitUp(t, 2)
	a.Send(2, []Message{heartbeat(1, 1)})
	b.awaitMessages(t, 1)
	before := a.losses(2)
	p.freeze(true)
	start := time.Now()
	// Both links end, though bulk alone would wait for bulkSilence.
	a.await(t, "Unreachable of both links", func() bool { return a.losses(2) >= before+2 })
	if took := time.Since(start); took > a.timing.bulkSilence/2 {
		t.Errorf("noticed after %v", took)
	}
	if a.peerStatus(2).Up {
		t.Error("links are still up")
	}
	p.freeze(false)
	poll(t, "a message after the silence", func() bool {
		a.Send(2, []Message{heartbeat(1, 77)})
		return slices.ContainsFunc(b.messages(), func(m Message) bool { return m.Raft.Commit == 77 })
	})
}

func TestAnAcceptedConnectionThatFallsSilentEnds(t *testing.T) {
	d := newDirectory()
	b := startNode(t, d, 2, func(_ *Config, tm *timing) { tm.idle = 300 * time.Millisecond })
	conn := dialAs(t, b, 1, kindBeat)
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v, want the end of the connection", err)
	}
	poll(t, "the connection to be forgotten", func() bool { return b.sessions() == 0 })
}

func (n *testNode) sessions() int {
	n.Transport.mu.Lock()
	defer n.Transport.mu.Unlock()
	return len(n.inbound)
}

// dialAs makes a handshake by hand.
func dialAs(t testing.TB, to *testNode, from uint64, k kind) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", to.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	hello := greeting{Version: protocolVersion, Code: uint8(k), From: from, To: to.cfg.Node, Cluster: to.cfg.Cluster}
	if _, err := conn.Write(hello.encode(helloMagic)); err != nil {
		t.Fatal(err)
	}
	w, err := readGreeting(conn, welcomeMagic)
	if err != nil || status(w.Code) != statusOK {
		t.Fatalf("welcome %+v, %v", w, err)
	}
	return conn
}

func TestGarbageAfterTheHandshakeCutsTheConnection(t *testing.T) {
	d := newDirectory()
	b := startNode(t, d, 2)
	for i, garbage := range [][]byte{
		bytes.Repeat([]byte{0xff}, 100),
		make([]byte, 100),
		encodeFrame(t, envelope{Cluster: 1, Sender: 1}, nil),
		encodeFrame(t, envelope{Cluster: b.fingerprint, Sender: 3}, nil),
		encodeFrame(t, envelope{Cluster: b.fingerprint, Sender: 1}, []Message{{Raft: raftpb.Message{Type: raftpb.MsgHup}}}),
	} {
		conn := dialAs(t, b, 1, kindBulk)
		if _, err := conn.Write(garbage); err != nil {
			t.Fatal(err)
		}
		poll(t, "the connection to be cut", func() bool { return b.Stats().Broken == uint64(i+1) })
	}
	if got := b.messages(); len(got) != 0 {
		t.Errorf("handed over %+v", got)
	}
}

func TestANewerConnectionReplacesTheOlder(t *testing.T) {
	d := newDirectory()
	b := startNode(t, d, 2)
	first := dialAs(t, b, 1, kindBulk)
	second := dialAs(t, b, 1, kindBulk)
	if err := first.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("the older connection goes on")
	}
	if _, err := second.Write(encodeFrame(t, envelope{Cluster: b.fingerprint, Sender: 1}, []Message{heartbeat(1, 1)})); err != nil {
		t.Fatal(err)
	}
	b.awaitMessages(t, 1)
	if n := b.sessions(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestPeersClocksAreKnown(t *testing.T) {
	d := newDirectory()
	shift := func(by time.Duration) func(*Config, *timing) {
		return func(c *Config, _ *timing) { c.Clock = func() time.Time { return time.Now().Add(by) } }
	}
	a, b, c := startNode(t, d, 1), startNode(t, d, 2, shift(time.Hour)), startNode(t, d, 3, shift(-time.Second))
	for _, n := range []*testNode{a, b, c} {
		for id := uint64(1); id <= 3; id++ {
			n.Connect(id)
		}
	}
	for _, n := range []struct {
		node    *testNode
		want    map[uint64]time.Duration
		suspect bool
	}{
		{a, map[uint64]time.Duration{2: time.Hour, 3: -time.Second}, false},
		{b, map[uint64]time.Duration{1: -time.Hour, 3: -time.Hour - time.Second}, true},
		{c, map[uint64]time.Duration{1: time.Second, 2: time.Hour + time.Second}, false},
	} {
		poll(t, fmt.Sprintf("node %d to know both clocks", n.node.cfg.Node), func() bool {
			offsets := n.node.ClockOffsets()
			for _, o := range offsets {
				if diff := o.Offset - n.want[o.Node]; diff > 5*time.Millisecond || diff < -500*time.Millisecond {
					return false
				}
			}
			return len(offsets) == 2 && Skew(offsets) == n.suspect
		})
	}
}

func TestCloseEndsWithPeersThatDoNotAnswer(t *testing.T) {
	checkGoroutines(t)
	d := newDirectory()
	b := startNode(t, d, 2)
	p := startProxy(t, b.Addr().String())
	d.set(2, p.listener.Addr().String())
	a := startNode(t, d, 1, func(_ *Config, tm *timing) { tm.silence, tm.write = time.Hour, time.Hour })
	a.awaitUp(t, 2)
	p.freeze(true)
	for range 32 { // more than the sockets take
		a.Send(2, []Message{appendOf(1, 1, 1<<20)})
	}
	a.stop(t)
	a.Send(2, []Message{heartbeat(1, 1)})
	a.Connect(3)
}

func TestABurstOfLargeMessagesLeavesNoMemoryBehind(t *testing.T) {
	d := newDirectory()
	a, b := startNode(t, d, 1), startNode(t, d, 2)
	a.awaitUp(t, 2)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range 4 {
		a.Send(2, []Message{appendOf(1, uint64(i+1), 30<<20)})
		b.awaitMessages(t, 1)
		b.note(func() { b.batches, b.from = nil, nil })
	}
	poll(t, "the queue to be empty", func() bool { return a.peerStatus(2).QueuedBytes == 0 })
	poll(t, "the heap to shrink", func() bool { return heap() < before+4<<20 })
}

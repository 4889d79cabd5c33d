package transport

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// counters grow only.
type counters struct {
	framesSent, framesReceived     atomic.Uint64
	messagesSent, messagesReceived atomic.Uint64
	bytesSent, bytesReceived       atomic.Uint64
	messagesDropped, bytesDropped  atomic.Uint64
	failures, refused, broken      atomic.Uint64
}

func (c *counters) sent(messages, bytes int) {
	c.framesSent.Add(1)
	c.messagesSent.Add(uint64(messages))
	c.bytesSent.Add(uint64(bytes))
}

func (c *counters) received(messages, bytes int) {
	c.framesReceived.Add(1)
	c.messagesReceived.Add(uint64(messages))
	c.bytesReceived.Add(uint64(bytes))
}

func (c *counters) dropped(messages, bytes int) {
	if messages > 0 {
		c.messagesDropped.Add(uint64(messages))
		c.bytesDropped.Add(uint64(bytes))
	}
}

// Stats counts since the start. Pings are in none of it. A message in parts
// counts once for each part when sent, and once when received.
type Stats struct {
	FramesSent, FramesReceived     uint64
	MessagesSent, MessagesReceived uint64
	BytesSent, BytesReceived       uint64
	MessagesDropped, BytesDropped  uint64 // by Send, and while a link was down
	Failures                       uint64 // outgoing connections that ended or did not come about
	Refused                        uint64 // incoming ones refused in the handshake
	Broken                         uint64 // incoming ones cut for what they sent
}

// Stats returns the counters.
func (t *Transport) Stats() Stats {
	c := &t.counters
	return Stats{
		FramesSent: c.framesSent.Load(), FramesReceived: c.framesReceived.Load(),
		MessagesSent: c.messagesSent.Load(), MessagesReceived: c.messagesReceived.Load(),
		BytesSent: c.bytesSent.Load(), BytesReceived: c.bytesReceived.Load(),
		MessagesDropped: c.messagesDropped.Load(), BytesDropped: c.bytesDropped.Load(),
		Failures: c.failures.Load(), Refused: c.refused.Load(), Broken: c.broken.Load(),
	}
}

// PeerStatus is what is known of the links to a peer.
type PeerStatus struct {
	Node           uint64
	Addr           string        // where it was reached last; empty: never
	Up             bool          // both links are connected
	Since          time.Duration // how long Up has been so
	Err            error         // why not, when it is not up
	QueuedMessages int
	QueuedBytes    int // bound: QueueBytes and an eighth
}

// Peers returns the state of all links, by node.
func (t *Transport) Peers() []PeerStatus {
	t.peersMu.RLock()
	peers := make([]*peer, 0, len(t.peers))
	for _, p := range t.peers {
		peers = append(peers, p)
	}
	t.peersMu.RUnlock()
	slices.SortFunc(peers, func(a, b *peer) int { return cmp.Compare(a.node, b.node) })
	out := make([]PeerStatus, len(peers))
	for i, p := range peers {
		out[i] = p.status()
	}
	return out
}

func (p *peer) status() PeerStatus {
	s := PeerStatus{Node: p.node, Up: true}
	var changed time.Time
	for _, l := range []*link{p.bulk, p.beat} {
		messages, bytes := l.queue.queued()
		s.QueuedMessages += messages
		s.QueuedBytes += bytes
		l.mu.Lock()
		if l.conn == nil {
			s.Up = false
			s.Err = cmp.Or(l.err, s.Err)
		}
		s.Addr = cmp.Or(l.addr, s.Addr)
		if l.since.After(changed) {
			changed = l.since
		}
		l.mu.Unlock()
	}
	s.Since = time.Since(changed)
	return s
}

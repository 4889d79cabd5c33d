package transport

import (
	"sync/atomic"
	"testing"
)

// counting is a Handler that only counts.
type counting struct {
	messages atomic.Int64
	enough   int64
	done     chan struct{}
}

func (c *counting) HandleRaft(_ uint64, msgs []Message) {
	if c.messages.Add(int64(len(msgs))) == c.enough {
		close(c.done)
	}
}
func (c *counting) Unreachable(uint64) {}

// BenchmarkAppends sends batches of 16 appends of 300 bytes to a peer on
// loopback, as fast as it takes them. One operation is one append.
func BenchmarkAppends(b *testing.B) {
	d := newDirectory()
	h := &counting{done: make(chan struct{}), enough: int64((b.N + 15) / 16 * 16)}
	startNode(b, d, 2, func(c *Config, _ *timing) { c.Handler = h })
	a := startNode(b, d, 1)
	a.awaitUp(b, 2)
	batch := make([]Message, 16)
	for i := range batch {
		batch[i] = appendOf(uint32(i), 1, 300)
	}
	b.ReportAllocs()
	b.SetBytes(300)
	b.ResetTimer()
	for sent := int64(0); sent < h.enough; sent += int64(len(batch)) {
		for sent-h.messages.Load() > 20_000 { // stay within the queue
			poll(b, "the peer to keep up", func() bool { return sent-h.messages.Load() < 10_000 })
		}
		a.Send(2, batch)
	}
	<-h.done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/float64(a.Stats().FramesSent), "appends/frame")
}

// BenchmarkRoundTrip is one small message there and one back.
func BenchmarkRoundTrip(b *testing.B) {
	d := newDirectory()
	back := make(chan struct{}, 1)
	n2 := new(echo)
	a := startNode(b, d, 1, func(c *Config, _ *timing) { c.Handler = signal(back) })
	n2.Transport = startNode(b, d, 2, func(c *Config, _ *timing) { c.Handler = n2 }).Transport
	a.awaitUp(b, 2)
	n2.Connect(1)
	poll(b, "the way back", func() bool { p := n2.Peers(); return len(p) == 1 && p[0].Up })
	msg := []Message{heartbeat(1, 1)}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		a.Send(2, msg)
		<-back
	}
}

type echo struct{ *Transport }

func (e *echo) HandleRaft(from uint64, msgs []Message) { e.Send(from, msgs) }
func (e *echo) Unreachable(uint64)                     {}

type signal chan struct{}

func (s signal) HandleRaft(uint64, []Message) { s <- struct{}{} }
func (s signal) Unreachable(uint64)           {}

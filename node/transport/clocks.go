package transport

import (
	"cmp"
	"slices"
	"time"
)

// sample records a peer's clock. Only beat connections tell: on bulk a frame's
// clock may be old by the time the frame has arrived. The clock is kept
// relative to our monotonic time, not to our wall clock, so that a jump of our
// own wall clock shows in ClockOffsets at once and not after a window.
func (t *Transport) sample(from inboundKey, clockMillis int64) {
	if from.kind != kindBeat {
		return
	}
	now := time.Now()
	t.offsetsMu.Lock()
	defer t.offsetsMu.Unlock()
	w := t.offsets[from.node]
	if w == nil {
		if len(t.offsets) >= 2*maxPeers {
			return
		}
		w = new(offsetWindow)
		t.offsets[from.node] = w
	}
	w.add(now, sinceEpoch(clockMillis)-now.Sub(t.began))
}

// ClockOffsets returns how far the clocks of the peers are from ours, by node.
func (t *Transport) ClockOffsets() []ClockOffset {
	now := time.Now()
	ours := sinceEpoch(t.cfg.Clock().UnixMilli()) - now.Sub(t.began)
	t.offsetsMu.Lock()
	defer t.offsetsMu.Unlock()
	out := make([]ClockOffset, 0, len(t.offsets))
	for node, w := range t.offsets {
		out = append(out, ClockOffset{Node: node, Offset: w.best() - ours, Age: now.Sub(w.last)})
	}
	slices.SortFunc(out, func(a, b ClockOffset) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// sinceEpoch clamps what a broken clock says to what a Duration holds (about
// 292 years), with room for the differences that are taken of it.
func sinceEpoch(millis int64) time.Duration {
	const limit = int64(140*365*24*time.Hour) / int64(time.Millisecond)
	return time.Duration(min(max(millis, -limit), limit)) * time.Millisecond
}

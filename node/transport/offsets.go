package transport

import (
	"slices"
	"time"
)

const (
	// SkewLimit is how far a clock may be from its peers' before its node gives
	// up leadership.
	SkewLimit = 2 * time.Second
	// offsetHalfWindow: an offset is the best of the last one to two of these.
	offsetHalfWindow = 5 * time.Second
	// OffsetMaxAge is the age beyond which an offset says nothing.
	OffsetMaxAge = 10 * time.Second
)

// ClockOffset is how far a peer's wall clock is ahead of ours (negative:
// behind), and how long ago the peer was last heard.
type ClockOffset struct {
	Node   uint64
	Offset time.Duration
	Age    time.Duration
}

// Skew says that this node's own clock is suspect: the fresh offsets of its
// peers have a median beyond SkewLimit. With an even number of peers both
// middle ones must lie beyond it on the same side, so that of three nodes
// that all disagree the one in the middle is trusted. One peer alone proves
// nothing about who is wrong.
func Skew(offsets []ClockOffset) bool {
	fresh := make([]time.Duration, 0, len(offsets))
	for _, o := range offsets {
		if o.Age <= OffsetMaxAge {
			fresh = append(fresh, o.Offset)
		}
	}
	if len(fresh) < 2 {
		return false
	}
	slices.Sort(fresh)
	low, high := fresh[(len(fresh)-1)/2], fresh[len(fresh)/2]
	return low > SkewLimit || high < -SkewLimit
}

// offsetWindow keeps the largest offset of a sliding window. A frame's travel
// only makes the offset that it shows smaller, so the largest is the nearest
// to the truth; the window lets a peer's clock that was set back be seen.
type offsetWindow struct {
	current, previous time.Duration
	hasPrevious       bool
	began             time.Time // monotonic; zero before the first sample
	last              time.Time
}

func (w *offsetWindow) add(now time.Time, offset time.Duration) {
	switch age := now.Sub(w.began); {
	case w.began.IsZero() || age >= 2*offsetHalfWindow:
		*w = offsetWindow{current: offset, began: now}
	case age >= offsetHalfWindow:
		*w = offsetWindow{current: offset, previous: w.current, hasPrevious: true, began: now}
	default:
		w.current = max(w.current, offset)
	}
	w.last = now
}

func (w *offsetWindow) best() time.Duration {
	if w.hasPrevious {
		return max(w.current, w.previous)
	}
	return w.current
}

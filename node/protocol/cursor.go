package protocol

import "time"

const (
	cursorEpoch    = 1728432000 // 2024-10-09T00:00:00Z, in Unix seconds
	cursorInterval = 20         // seconds
	cursorJitter   = 3600       // seconds
)

// Cursor returns the cursor of a live answer: the number of whole 20 s
// intervals since 2024-10-09T00:00:00Z. When the request's cursor is not behind
// that, the answer is strictly greater than it, by a jitter of 1 to 3600 s
// expressed in intervals and at least 1, so that caches do not serve one live
// answer twice. A missing, malformed or absurd request cursor counts as none.
// jitter returns a number in [0, n).
func Cursor(now time.Time, requested string, jitter func(n int) int) uint64 {
	current := uint64(max(now.Unix()-cursorEpoch, 0)) / cursorInterval
	const farthest = MaxInteger - cursorJitter
	asked, ok := parseInteger(requested, farthest)
	if !ok || asked < current {
		return current
	}
	return asked + uint64(max((1+jitter(cursorJitter))/cursorInterval, 1))
}

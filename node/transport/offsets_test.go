package transport

import (
	"testing"
	"time"
)

func TestSkewTrustsTheMedianOfFreshPeers(t *testing.T) {
	const s = time.Second
	old := ClockOffset{Offset: time.Hour, Age: OffsetMaxAge + 1}
	fresh := func(offsets ...time.Duration) (out []ClockOffset) {
		for i, o := range offsets {
			out = append(out, ClockOffset{Node: uint64(i + 2), Offset: o, Age: s})
		}
		return out
	}
	for _, c := range []struct {
		name    string
		offsets []ClockOffset
		suspect bool
	}{
		{"no peers", nil, false},
		{"one peer far away proves nothing", fresh(time.Hour), false},
		{"two peers near", fresh(0, s), false},
		{"two peers, one of them far", fresh(0, time.Hour), false},
		{"two peers, both ahead", fresh(3*s, time.Hour), true},
		{"two peers, both behind", fresh(-3*s, -2001*time.Millisecond), true},
		{"two peers on both sides: ours is the middle one", fresh(-time.Hour, time.Hour), false},
		{"two peers exactly at the limit", fresh(2*s, 2*s), false},
		{"three peers, two far", fresh(0, 3*s, 3*s), true},
		{"three peers, one far", fresh(0, s, time.Hour), false},
		{"four peers, two far", fresh(0, 0, time.Hour, time.Hour), false},
		{"four peers, three far", fresh(0, 5*s, 5*s, 5*s), true},
		{"peers that were not heard for long do not count", append(fresh(3*s), old, old), false},
		{"and do not outvote fresh ones", append(fresh(0, 0), old, old, old), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Skew(c.offsets); got != c.suspect {
				t.Errorf("Skew = %v, want %v", got, c.suspect)
			}
		})
	}
}

func TestAnOffsetIsTheLeastDelayedOfItsWindow(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	start := time.Now()
	type sample struct{ at, offset time.Duration }
	for _, c := range []struct {
		name    string
		samples []sample
		want    time.Duration
	}{
		{"one sample", []sample{{0, 5 * ms}}, 5 * ms},
		{"a delayed sample does not count", []sample{{0, 5 * ms}, {s, -900 * ms}}, 5 * ms},
		{"nor before the quick one", []sample{{0, -900 * ms}, {s, 5 * ms}}, 5 * ms},
		{"the window before the current still counts", []sample{{0, 5 * ms}, {6 * s, -900 * ms}}, 5 * ms},
		{"a clock that was set back is believed after two windows", []sample{{0, 5 * ms}, {6 * s, -60 * s}, {12 * s, -60 * s}}, -60 * s},
		{"a clock that was set ahead is believed at once", []sample{{0, 0}, {s, 60 * s}}, 60 * s},
		{"after a silence only what is new counts", []sample{{0, 5 * ms}, {30 * s, -60 * s}}, -60 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w offsetWindow
			for _, p := range c.samples {
				w.add(start.Add(p.at), p.offset)
			}
			if got := w.best(); got != c.want {
				t.Errorf("best = %v, want %v", got, c.want)
			}
		})
	}
}

func TestABrokenClockDoesNotOverflow(t *testing.T) {
	for _, millis := range []int64{-1 << 63, 1<<63 - 1} {
		d := sinceEpoch(millis) - sinceEpoch(-millis-1)
		if (d > 0) != (millis > 0) {
			t.Errorf("clock at %d ms shows an offset of %v", millis, d)
		}
	}
}

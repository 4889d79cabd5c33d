package node

import (
	"testing"
	"time"

	"runnel.dev/runnel/node/transport"
)

func TestTrapD1_AClockIsSuspectWhenItsStampsCouldNotBeTakenBack(t *testing.T) {
	const year = 365 * 24 * time.Hour
	offsets := func(of ...time.Duration) (out []transport.ClockOffset) {
		for i, d := range of {
			out = append(out, transport.ClockOffset{Node: uint64(i + 1), Offset: d})
		}
		return out
	}
	old := transport.ClockOffset{Node: 9, Offset: -year, Age: transport.OffsetMaxAge + time.Second}
	for _, test := range []struct {
		name    string
		offsets []transport.ClockOffset
		suspect bool
	}{
		{"nobody is heard", nil, false},
		{"all agree", offsets(0, time.Millisecond), false},
		{"a year ahead of two peers", offsets(-year, -year), true},
		{"a year behind two peers", offsets(year, year), true},
		{"one of two peers is wrong", offsets(year, 0), false},
		{"the one in the middle", offsets(year, -year), false},
		{"ahead of the only peer", offsets(-year), true},
		{"behind the only peer", offsets(year), false},
		{"ahead of a peer that was heard long ago", []transport.ClockOffset{old}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := suspectClock(test.offsets); got != test.suspect {
				t.Errorf("suspect: %v, want %v", got, test.suspect)
			}
		})
	}
}

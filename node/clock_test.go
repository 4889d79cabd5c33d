package node

import (
	"context"
	"log/slog"
	"net"
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

// A clock that jumped must not pass for judged while it is being judged: another
// shard would stamp with it.
func TestTrapD1_AJumpedClockIsUnjudgedUntilTheVerdict(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &member{node: &Node{log: slog.New(slog.DiscardHandler)}, clock: clockWatch{began: time.Now()}}
	var jump time.Duration
	m.node.cfg.Clock = func() time.Time { return time.Now().Add(jump) }
	asked := false
	m.peers, err = transport.New(transport.Config{
		Cluster: "c", Node: 1, Listener: l, Handler: m, Logger: m.node.log,
		Resolve: func(uint64) (string, bool) { return "", false },
		Clock: func() time.Time { // read while the peers' clocks are looked at
			asked = true
			if jump != 0 && !m.clock.jumped(m.node.cfg.Clock().UnixMilli()) {
				t.Error("the clock passes for judged before the verdict")
			}
			return m.node.cfg.Clock()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.peers.Close(context.Background()) })
	m.judgeClock()
	jump, asked = time.Hour, false
	if m.stamp(); !asked {
		t.Fatal("a stamp after a jump did not have the clock judged")
	}
	asked = false
	if m.stamp(); asked {
		t.Error("a stamp had the clock judged again without a jump")
	}
}

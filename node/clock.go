package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"runnel.dev/runnel/node/transport"
)

// clockWatch keeps this node's clock from stamping what can't be taken back:
// group time only moves forward, so one stamp a year ahead ends every stream
// with an expiry. The clock is judged every second, whenever this node begins
// to lead, and, because a second is many stamps, at the stamp itself when the
// wall clock has jumped since it was judged.
type clockWatch struct {
	began time.Time // real time, which goes on evenly
	// offset is the wall clock minus the time since began when the clock was
	// judged last, in milliseconds.
	offset  atomic.Int64
	suspect atomic.Bool
	judging sync.Mutex
}

// jumpLimit is how far the wall clock may move against even time unjudged.
const jumpLimit = transport.SkewLimit / 4

// stamp reads the wall clock for a leader's stamp, in milliseconds since the
// Unix epoch. After a jump it has the clock judged before the reading is used.
func (m *member) stamp() int64 {
	wall := m.node.cfg.Clock().UnixMilli()
	if m.clock.jumped(wall) {
		m.judgeClock()
	}
	return wall
}

// jumped says that the wall clock has moved since it was judged.
func (c *clockWatch) jumped(wallMillis int64) bool {
	moved := wallMillis - time.Since(c.began).Milliseconds() - c.offset.Load()
	return moved > jumpLimit.Milliseconds() || moved < -jumpLimit.Milliseconds()
}

// judgeClock holds the clock against the peers' and lets the groups know.
func (m *member) judgeClock() {
	c := &m.clock
	c.judging.Lock()
	defer c.judging.Unlock()
	offset := m.node.cfg.Clock().UnixMilli() - time.Since(c.began).Milliseconds()
	// Last: who finds this offset takes the clock for judged, and stamps.
	defer c.offset.Store(offset)
	suspect := suspectClock(m.peers.ClockOffsets())
	if c.suspect.Load() == suspect {
		return
	}
	c.suspect.Store(suspect)
	m.host.SetClockSuspect(suspect)
	if suspect {
		m.node.log.Warn("this node's clock is far from its peers': it leads no group until they agree; check time synchronisation")
	} else {
		m.node.log.Info("this node's clock agrees with its peers' again")
	}
}

// suspectClock says that this node's clock may not stamp: it is far from the
// median of its peers', or far ahead of all that are heard. Who of two is wrong
// can't be told, but stamps that are late do no harm.
func suspectClock(offsets []transport.ClockOffset) bool {
	if transport.Skew(offsets) {
		return true
	}
	heard := false
	for _, o := range offsets {
		if o.Age > transport.OffsetMaxAge {
			continue
		}
		if o.Offset >= -transport.SkewLimit {
			return false
		}
		heard = true
	}
	return heard
}

// clockLoop makes a node whose clock is far from its peers' give up leadership:
// only leaders stamp, and a wrong stamp can't be taken back.
func (m *member) clockLoop(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.judgeClock()
		}
	}
}

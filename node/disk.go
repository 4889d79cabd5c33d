package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/wal"
)

const (
	// ballastBytes is kept on the disk to be given up when nothing else is left:
	// a node that finds its disk full at the start needs room to open.
	ballastBytes = 16 << 20
	// spareSegments of the log are kept for reuse.
	spareSegments = 4
	// diskReserve is how much of the disk clients' writes leave free; on a small
	// disk it is a tenth of it.
	diskReserve = 256 << 20
	// openBytes is what opening takes: new logs, a manifest, a log segment.
	openBytes    = 8 << 20
	diskInterval = 200 * time.Millisecond
)

// diskWatch refuses clients' writes while the disk still has room for what the
// node itself must write: running into the end of the disk stops the process.
type diskWatch struct{ low atomic.Bool }

// judge looks at the space that is left. It refuses below the reserve and takes
// writes again above one and a half times as much, so that it does not flutter.
func (d *diskWatch) judge(u vfs.DiskUsage) (changed bool) {
	reserve := min(diskReserve, u.TotalBytes/10)
	low := d.low.Load()
	switch {
	case !low && u.AvailBytes < reserve:
		low = true
	case low && u.AvailBytes >= reserve+reserve/2:
		low = false
	}
	return d.low.Swap(low) != low
}

func (m *member) diskLoop(ctx context.Context) {
	tick := time.NewTicker(diskInterval)
	defer tick.Stop()
	for {
		if u, err := m.node.cfg.FS.GetDiskUsage(m.node.cfg.DataDir); err == nil && m.disk.judge(u) {
			if m.disk.low.Load() {
				m.node.log.Warn("the disk is nearly full: appends and creates are refused until there is room", "available", u.AvailBytes)
			} else {
				m.node.log.Info("the disk has room again", "available", u.AvailBytes)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// makeRoom gives the ballast up when the disk is too full to open on.
func (n *Node) makeRoom() {
	u, err := n.cfg.FS.GetDiskUsage(n.cfg.DataDir)
	if err != nil || u.AvailBytes >= openBytes {
		return // also when there is no such directory yet
	}
	freed, err := wal.ReleaseBallast(n.cfg.FS, n.logDir())
	n.log.Warn("the disk is full: starting in the room of the ballast; make room", "available", u.AvailBytes, "freed", freed, "err", err)
}

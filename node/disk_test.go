package node

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestWritesAreRefusedBeforeTheDiskIsFullAndTakenAgainWithRoom(t *testing.T) {
	var d diskWatch
	for _, step := range []struct {
		what        string
		avail       uint64
		total       uint64
		low, change bool
	}{
		{"plenty of room", 10 << 30, 100 << 30, false, false},
		{"at the reserve", diskReserve, 100 << 30, false, false},
		{"below the reserve", diskReserve - 1, 100 << 30, true, true},
		{"a little more room does not flutter", diskReserve + diskReserve/4, 100 << 30, true, false},
		{"half as much again", diskReserve + diskReserve/2, 100 << 30, false, true},
		{"a small disk keeps a tenth", 7 << 20, 64 << 20, false, false},
		{"and no less", 6 << 20, 64 << 20, true, true},
	} {
		if changed := d.judge(vfs.DiskUsage{AvailBytes: step.avail, TotalBytes: step.total}); changed != step.change || d.low.Load() != step.low {
			t.Errorf("%s: low %v, changed %v; want %v, %v", step.what, d.low.Load(), changed, step.low, step.change)
		}
	}
}

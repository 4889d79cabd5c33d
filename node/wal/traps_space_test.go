package wal

import (
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

// A quiet group's hard state moves on in the tables, and pins no segment.
func TestTrapS8_QuietGroupsPinNothing(t *testing.T) {
	quiet, busy := Replica{Group: 1, ID: 1}, Replica{Group: 2, ID: 2}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	put(t, l, &Write{Replica: quiet, State: &raftpb.HardState{Term: 4, Vote: 2, Commit: 5}, Entries: entries(4, 1, 5, 10), Applied: 5})
	l.Cut(quiet, 5)
	for i := uint64(1); l.Stats().Rotations < 20; i++ {
		put(t, l, &Write{Replica: busy, Entries: entries(1, i, i, 1000)})
		l.Cut(busy, i-1)
		if n := l.Stats().Segments; n > 3 {
			t.Fatalf("%d segments in use after entry %d", n, i)
		}
	}
	_, rec := mustOpen(t, testOptions(lossFS(mem)))
	got := rec.Replicas[0]
	if got.State != (raftpb.HardState{Term: 4, Vote: 2, Commit: 5}) || got.Snapshot != (Mark{5, 4}) || got.Applied != 5 || len(got.Refs) != 0 {
		t.Fatalf("the quiet group: %+v", got)
	}
}

// A group with a few live entries keeps their segment and none behind it.
func TestTrapS8_OldLiveEntriesPinTheirSegmentAlone(t *testing.T) {
	quiet, busy := Replica{Group: 1, ID: 1}, Replica{Group: 2, ID: 2}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	first := put(t, l, &Write{Replica: quiet, State: &raftpb.HardState{Term: 4}, Entries: entries(4, 1, 5, 10)})
	for i := uint64(1); l.Stats().Rotations < 20; i++ {
		put(t, l, &Write{Replica: busy, Entries: entries(1, i, i, 1000)})
		l.Cut(busy, i-1)
	}
	if n := l.Stats().Segments; n > 4 {
		t.Fatalf("%d segments in use", n)
	}
	l, rec := mustOpen(t, testOptions(lossFS(mem)))
	if got := rec.Replicas[0]; len(got.Refs) != 5 || got.Refs[0] != first.Refs[0] {
		t.Fatalf("the quiet group: %+v", got)
	}
	if _, err := l.Read(first.Refs[4]); err != nil {
		t.Fatal(err)
	}
}

// On a full disk the log can be opened: the ballast makes room for the segment
// that recovery goes on in. It is not taken again by the same Open.
func TestTrapS9_OpenOnAFullDiskReleasesTheBallast(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	mem := vfs.NewCrashableMem()
	o := testOptions(mem)
	o.BallastBytes, o.Recycle = 1<<20, 0
	l, _ := mustOpen(t, o)
	put(t, l, &Write{Replica: r, Entries: entries(1, 1, 3, 100)})
	if n := l.Stats().BallastBytes; n != 1<<20 {
		t.Fatalf("ballast of %d bytes", n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	full := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileWriteAt && op.Kind != errorfs.OpFileWrite {
			return nil
		}
		if _, err := mem.Stat(testDir + "/" + ballastName); err == nil {
			return syscall.ENOSPC
		}
		return nil
	}))
	o.FS = full
	l, rec := mustOpen(t, o)
	if len(rec.Replicas[0].Refs) != 3 || l.Stats().BallastBytes != 0 {
		t.Fatalf("recovered %+v, ballast %d", rec.Replicas, l.Stats().BallastBytes)
	}
	put(t, l, &Write{Replica: r, Entries: entries(1, 4, 4, 100)})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o.FS = mem
	l, rec = mustOpen(t, o)
	if len(rec.Replicas[0].Refs) != 4 || l.Stats().BallastBytes != 1<<20 {
		t.Fatalf("recovered %+v, ballast %d", rec.Replicas, l.Stats().BallastBytes)
	}
	if n, err := l.ReleaseBallast(); n != 1<<20 || err != nil {
		t.Fatalf("released %d, %v", n, err)
	}
}

func TestTrapS9_NoRoomForTheBallastIsNoError(t *testing.T) {
	mem := vfs.NewCrashableMem()
	o := testOptions(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && op.Path == testDir+"/"+ballastName {
			return syscall.ENOSPC
		}
		return nil
	})))
	o.BallastBytes = 1 << 20
	l, _ := mustOpen(t, o)
	if _, err := mem.Stat(testDir + "/" + ballastName); err == nil || l.Stats().BallastBytes != 0 {
		t.Fatal("half a ballast was left")
	}
}

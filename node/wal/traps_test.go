package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

// Recovery keeps the terms around C, so that the caller can compare, and the
// reset that follows an installed snapshot happens as a whole or not at all,
// with the hard state that came with it.
func TestTrapR8_ResetAfterSnapshotIsAtomic(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	mem := vfs.NewCrashableMem()
	var before, unsynced *vfs.MemFS
	armed := false
	fs := opHook(mem, func(op errorfs.Op) error {
		if armed && op.Kind == errorfs.OpFileSyncData {
			before, unsynced = lossFS(mem), copyFS(mem)
		}
		return nil
	})
	l, _ := mustOpen(t, testOptions(fs))
	put(t, l, &Write{Replica: r, State: &raftpb.HardState{Term: 3, Vote: 2, Commit: 90}, Entries: entries(3, 1, 110, 10), Applied: 80})
	armed = true
	put(t, l, &Write{Replica: r, Reset: &Mark{Index: 100, Term: 5}, State: &raftpb.HardState{Term: 5, Commit: 100}, Applied: 100})

	_, rec := mustOpen(t, testOptions(before))
	got := rec.Replicas[0]
	if got.State.Commit != 90 || len(got.Refs) != 110 || got.Refs[99].Term != 3 || got.Applied != 80 {
		t.Fatalf("before the sync: %+v", got.State)
	}
	for _, after := range []*vfs.MemFS{unsynced, lossFS(mem)} {
		_, rec = mustOpen(t, testOptions(after))
		got = rec.Replicas[0]
		want := Recovered{Replica: r, State: raftpb.HardState{Term: 5, Commit: 100}, Snapshot: Mark{Index: 100, Term: 5}, Applied: 100}
		if got.State != want.State || got.Snapshot != want.Snapshot || got.Applied != want.Applied || len(got.Refs) != 0 {
			t.Fatalf("after the write: %+v", got)
		}
	}
}

// The frames of a removed replica never reach the next one of its group.
func TestTrapS3_FramesOfReplicasWithoutLiveRecordAreDropped(t *testing.T) {
	old, heir, other := Replica{Group: 1, ID: 3}, Replica{Group: 1, ID: 9}, Replica{Group: 2, ID: 4}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	put(t, l, &Write{Replica: old, State: &raftpb.HardState{Term: 8, Vote: 3}, Entries: entries(8, 1, 20, 100)})
	put(t, l, &Write{Replica: other, State: &raftpb.HardState{Term: 1}, Entries: entries(1, 1, 2, 100)})

	o := testOptions(lossFS(mem))
	o.Live = func(r Replica) bool { return r != old }
	l, rec := mustOpen(t, o)
	if len(rec.Replicas) != 1 || rec.Replicas[0].Replica != other || len(rec.Dropped) != 1 || rec.Dropped[0] != old {
		t.Fatalf("recovered %+v, dropped %v", rec.Replicas, rec.Dropped)
	}
	put(t, l, &Write{Replica: heir, State: &raftpb.HardState{Term: 1, Vote: 9}, Entries: entries(1, 1, 1, 10)})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// The heir has its own state alone, and the drop holds without the filter.
	o.Live = nil
	_, rec = mustOpen(t, o)
	if len(rec.Replicas) != 2 || rec.Replicas[0].Replica != heir ||
		rec.Replicas[0].State != (raftpb.HardState{Term: 1, Vote: 9}) || len(rec.Replicas[0].Refs) != 1 {
		t.Fatalf("recovered %+v", rec.Replicas)
	}
}

func TestTrapS3_DroppedReplicaPinsNoSegment(t *testing.T) {
	gone, stays := Replica{Group: 1, ID: 1}, Replica{Group: 2, ID: 2}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	for i := uint64(1); l.Stats().Rotations < 4; i++ {
		put(t, l, &Write{Replica: gone, Entries: entries(1, i, i, 1000)})
	}
	put(t, l, &Write{Replica: stays, Entries: entries(1, 1, 1, 10)})
	o := testOptions(lossFS(mem))
	o.Live = func(r Replica) bool { return r == stays }
	l, _ = mustOpen(t, o)
	if n := l.Stats().Segments; n != 2 {
		t.Fatalf("%d segments are in use, want the one with the live entry and the new one", n)
	}
}

// What recovery reports survives a power loss that follows at once, although
// the write that it found had never been synced.
func TestTrapS4_RecoveredIsDurable(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	mem := vfs.NewCrashableMem()
	fail := false
	fs := opHook(mem, func(op errorfs.Op) error {
		if fail && op.Kind == errorfs.OpFileSyncData {
			return errorfs.ErrInjected
		}
		return nil
	})
	l, _ := mustOpen(t, testOptions(fs))
	put(t, l, &Write{Replica: r, State: &raftpb.HardState{Term: 1}, Entries: entries(1, 1, 1, 100)})
	fail = true
	w := &Write{Replica: r, State: &raftpb.HardState{Term: 2, Vote: 1}, Entries: entries(2, 2, 2, 100)}
	l.Enqueue(w)
	if _, err := l.Flush(); !errors.Is(err, ErrFailed) || w.Err == nil {
		t.Fatalf("the sync failed, but the write ended with %v", w.Err)
	}
	if err := l.Close(); err != nil { // the process is gone
		t.Fatal(err)
	}
	_, rec := mustOpen(t, testOptions(mem))
	_, again := mustOpen(t, testOptions(lossFS(mem)))
	if a, b := fmt.Sprintf("%+v", rec.Replicas), fmt.Sprintf("%+v", again.Replicas); a != b || len(rec.Replicas[0].Refs) != 2 {
		t.Fatalf("recovered %s\nand after the power loss %s", a, b)
	}
}

// After a failed sync a kernel may hold the lost pages as clean: a second sync
// succeeds and writes nothing. Recovery writes what it read once more.
func TestTrapS4_RecoveryRewritesWhatAFailedSyncLost(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	for at := 1; at <= 12; at++ { // which sync of the run fails
		disk := &pageFS{MemFS: vfs.NewCrashableMem(), dirty: map[page]bool{}, lost: map[page]bool{}}
		l, _ := mustOpen(t, testOptions(disk))
		disk.failAt = at
		for i := uint64(1); ; i++ {
			l.Enqueue(&Write{Replica: r, Entries: entries(1, i, i, 3900)})
			if err := flushAll(l); err != nil {
				break
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		_, rec := mustOpen(t, testOptions(disk))
		_, again, err := Open(testOptions(disk.powerLoss(t)))
		if err != nil {
			t.Fatalf("sync %d failed, and after the recovery and a power loss: %v", at, err)
		}
		if a, b := fmt.Sprintf("%+v", rec.Replicas), fmt.Sprintf("%+v", again.Replicas); a != b {
			t.Fatalf("sync %d failed: recovered %s\nand after the power loss %s", at, a, b)
		}
	}
}

// pageFS is a page cache over a disk. One sync fails, and leaves the pages that
// were dirty clean and not on the disk.
type pageFS struct {
	*vfs.MemFS
	dirty, lost map[page]bool
	failAt      int
}

type page struct {
	file string
	n    int64
}

func (c *pageFS) OpenReadWrite(name string, cat vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.MemFS.OpenReadWrite(name, cat, o...)
	return &pageFile{File: f, fs: c, name: name}, err
}

func (c *pageFS) Rename(from, to string) error {
	for p := range c.lost {
		if p.file == from || p.file == to {
			return errors.New("a segment with lost pages is renamed")
		}
	}
	return c.MemFS.Rename(from, to)
}

// powerLoss returns the disk without what was in the cache alone.
func (c *pageFS) powerLoss(t *testing.T) *vfs.MemFS {
	mem := lossFS(c.MemFS)
	for p := range c.lost {
		f, err := mem.OpenReadWrite(p.file, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(make([]byte, 4096), p.n*4096); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

type pageFile struct {
	vfs.File
	fs   *pageFS
	name string
}

func (f *pageFile) WriteAt(b []byte, off int64) (int, error) {
	for n := off / 4096; n*4096 < off+int64(len(b)); n++ {
		f.fs.dirty[page{f.name, n}] = true
		delete(f.fs.lost, page{f.name, n})
	}
	return f.File.WriteAt(b, off)
}

func (f *pageFile) Sync() error { return f.SyncData() }

func (f *pageFile) SyncData() error {
	f.fs.failAt--
	fails := f.fs.failAt == 0
	for p := range f.fs.dirty {
		if p.file == f.name {
			delete(f.fs.dirty, p)
			if fails {
				f.fs.lost[p] = true
			}
		}
	}
	if fails {
		return syscall.EIO
	}
	return f.File.SyncData()
}

// Recovery goes on in a new segment, so that nothing behind a cut tail comes
// back at the next crash.
func TestTrapS4_NothingBehindACutComesBack(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	for percent := 0; percent <= 100; percent += 10 {
		rng := rand.New(rand.NewPCG(uint64(percent), 3))
		mem := vfs.NewCrashableMem()
		l, _ := mustOpen(t, testOptions(mem))
		put(t, l, &Write{Replica: r, Entries: entries(1, 1, 3, 300)})
		// A write of several blocks tears.
		var torn *vfs.MemFS
		l.cur.file = errorfs.WrapFile(l.cur.file, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileSyncData && torn == nil {
				torn = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
			}
			return nil
		}))
		put(t, l, &Write{Replica: r, Entries: entries(9, 4, 4, 3900)})
		l, rec := mustOpen(t, testOptions(torn))
		if len(rec.Replicas[0].Refs) == 4 {
			continue // it persisted as a whole
		}
		put(t, l, &Write{Replica: r, Entries: entries(2, 4, 4, 50)})
		for range 3 {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l, rec = mustOpen(t, testOptions(torn))
			if got := rec.Replicas[0].Refs; len(got) != 4 || got[3].Term != 2 {
				t.Fatalf("percent %d: recovered %+v", percent, got)
			}
		}
	}
}

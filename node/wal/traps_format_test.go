package wal

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

// Blocks of one unsynced write persist in any order: a bad frame before good
// ones is a torn tail there, and damage below the last sync.
func TestTrapS5_TornTailIsToldFromDamage(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	put(t, l, &Write{Replica: r, Entries: entries(1, 1, 2, 300)})
	start := l.off
	name := testDir + "/" + l.cur.name
	put(t, l, &Write{Replica: r, Entries: entries(1, 3, 6, 900)})

	lost := func(fs *vfs.MemFS) *vfs.MemFS { // the first block of the last write is lost
		f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(make([]byte, 200), start); err != nil {
			t.Fatal(err)
		}
		return fs
	}
	_, rec, err := Open(testOptions(lost(copyFS(mem))))
	if err != nil || len(rec.Replicas[0].Refs) != 2 || rec.Offset != start {
		t.Fatalf("a torn tail: %v, %+v", err, rec)
	}
	put(t, l, &Write{Replica: r, Entries: entries(1, 7, 7, 10)})
	_, _, err = Open(testOptions(lost(copyFS(mem))))
	var damage *DamageError
	if !errors.As(err, &damage) || damage.Offset != start || testDir+"/"+damage.File != name {
		t.Fatalf("damage below the synced offset: %v", err)
	}
}

func TestTrapS5_ReadErrorIsNoTornTail(t *testing.T) {
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	put(t, l, &Write{Replica: Replica{1, 1}, Entries: entries(1, 1, 2, 300)})
	bad := errorfs.Wrap(copyFS(mem), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && op.Offset > segmentHeader {
			return syscall.EIO
		}
		return nil
	}))
	if _, _, err := Open(testOptions(bad)); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v", err)
	}
}

// A file system may scribble over the slices that it writes.
func TestTrapS6_EntriesAreNotChangedByTheFileSystem(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	l, _ := mustOpen(t, testOptions(scribbleFS{vfs.NewCrashableMem()}))
	for i := uint64(1); i <= 40; i++ {
		es := entries(1, i, i, 100+int(i)*200)
		want := bytes.Clone(es[0].Data)
		w := put(t, l, &Write{Replica: r, Entries: es})
		if !bytes.Equal(es[0].Data, want) {
			t.Fatalf("entry %d was changed in memory", i)
		}
		got, err := l.Read(w.Refs[0])
		if err != nil || !bytes.Equal(got.Data, want) {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
}

type scribbleFS struct{ vfs.FS }

func (s scribbleFS) OpenReadWrite(name string, cat vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.OpenReadWrite(name, cat, o...)
	return scribbleFile{f}, err
}

type scribbleFile struct{ vfs.File }

func (f scribbleFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	for i := range b {
		b[i] ^= 0xff
	}
	return n, err
}

// Recycled segments keep their size, and what an earlier life wrote there is
// never taken for this one's.
func TestTrapS6_RecycledSegmentsAreReusedSafely(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	mem := vfs.NewCrashableMem()
	grown, renames := 0, 0
	l, _ := mustOpen(t, testOptions(opHook(mem, func(op errorfs.Op) error {
		if op.Kind == errorfs.OpRename {
			renames++
		}
		return nil
	})))
	for i := uint64(1); l.Stats().Rotations < 12; i++ {
		before, size := l.cur.info.number, l.cur.size
		put(t, l, &Write{Replica: r, Entries: entries(1, i, i, 1000)})
		if l.cur.info.number == before && renames > 0 && l.cur.size != size && l.off <= l.opts.SegmentBytes {
			grown++
		}
		l.Cut(r, i-1)
		if i%7 == 0 { // the stale rest of the file is there, the tail is not
			_, rec := mustOpen(t, testOptions(lossFS(mem)))
			if got := rec.Replicas[0].Last().Index; got != i {
				t.Fatalf("recovered up to %d of %d", got, i)
			}
		}
	}
	// A spare may lack the last bytes of the full size, and grows once.
	if renames < 6 || grown > renames {
		t.Fatalf("%d segments were recycled, %d rounds changed the size of one", renames, grown)
	}
}

// A block that was not written holds a frame of the file's earlier life, of the
// same size in the same place: the batch around it is torn all the same.
func TestTrapS6_StaleFramesAreNotPartOfABatch(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	life := func(number, salt, index uint64) (*segmentInfo, []byte, int64) {
		s := &segmentInfo{number: number, salt: salt}
		b := appendSegmentHeader(nil, s)
		var e encoder
		e.reset(nil, number, s.end, s.seed())
		es := entries(1, index, index+1, 200)
		e.entry(r, 0, &es[0])
		second := e.entry(r, 0, &es[1])
		batchHeader{offset: s.end, synced: s.end, length: int64(len(e.buf)) - batchHeaderBytes}.put(e.buf, salt, s.seed())
		return s, append(b, e.buf...), second
	}
	_, old, _ := life(3, 11, 5)
	s, now, second := life(4, 12, 5)
	if res, err := scanSegment(bytes.NewReader(now), int64(len(now)), s, nil); err != nil || res.batches != 1 {
		t.Fatalf("the whole batch: %+v, %v", res, err)
	}
	copy(now[second:], old[second:])
	res, err := scanSegment(bytes.NewReader(now), int64(len(now)), s, nil)
	if err != nil || res.batches != 0 || !res.torn || res.damaged() {
		t.Fatalf("a batch with a stale frame: %+v, %v", res, err)
	}
}

// A user who knows the format can't place bytes that recovery takes for a batch.
func TestTrapS6_PayloadIsNeverTakenForABatch(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	forged := *l.cur.info
	forged.salt++ // what can't be known
	var data []byte
	for len(data) < 2000 {
		b := make([]byte, batchHeaderBytes)
		at := l.off + batchHeaderBytes + entryOverhead + int64(len(data))
		batchHeader{offset: at, synced: at}.put(b, forged.salt, forged.seed())
		data = append(data, b...)
	}
	start := l.off
	put(t, l, &Write{Replica: r, Entries: []raftpb.Entry{{Index: 1, Term: 1, Data: data}}})
	clone := copyFS(mem)
	flip(t, clone, testDir+"/"+l.cur.name, start*8)
	if _, _, err := Open(testOptions(clone)); err != nil {
		t.Fatalf("a torn tail with forged headers in it: %v", err)
	}
}

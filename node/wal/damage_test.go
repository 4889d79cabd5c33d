package wal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// flip inverts one bit of a file, durably.
func flip(t testing.TB, fs vfs.FS, name string, bit int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if err := readFull(f, b[:], bit/8); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << (bit % 8)
	if _, err := f.WriteAt(b[:], bit/8); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// damageLog returns a disk with three segments in use, as kill -9 leaves it,
// the model of it, and where the last batch of the newest segment starts and
// ends. Without the last batch the replica's log ends one entry earlier.
func damageLog(t *testing.T, confirm bool) (fs *vfs.MemFS, m *model, newest string, last, end int64) {
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	m = newModel()
	r, index := Replica{Group: 1, ID: 1}, uint64(0)
	for l.Stats().Segments < 3 || l.off < l.cur.info.end+2000 {
		index++
		last = l.off
		m.enqueue(l, r, modelOp{write: &Write{Entries: entries(2, index, index, 700)}})
		if err := flushAll(l); err != nil {
			t.Fatal(err)
		}
	}
	end = l.off
	if confirm {
		if err := l.Confirm(); err != nil {
			t.Fatal(err)
		}
	}
	return copyFS(mem), m, testDir + "/" + l.cur.name, last, end
}

// Damage to bytes that a later header knows to be synced is refused; damage to
// the last batch, which no header vouches for, looks like a torn tail and is
// cut, with nothing before it lost.
func TestBitFlips(t *testing.T) {
	for _, confirm := range []bool{false, true} {
		fs, m, newest, last, end := damageLog(t, confirm)
		r := Replica{Group: 1, ID: 1}
		cut := m.clone()
		cut.ops[r] = cut.ops[r][:len(cut.ops[r])-1]
		cut.acked[r]--
		names, err := fs.List(testDir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, ok := parseSegmentName(name); !ok {
				continue
			}
			name = testDir + "/" + name
			for bit, step := int64(0), int64(0); ; bit, step = bit+1+step*41%97, step+1 {
				fi, err := fs.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				if bit >= fi.Size()*8 {
					break
				}
				clone := lossFS(fs)
				flip(t, clone, name, bit)
				what := fmt.Sprintf("confirmed %t, %s byte %d bit %d", confirm, name, bit/8, bit%8)
				l, rec, err := Open(testOptions(clone))
				off := bit / 8
				switch {
				case name == newest && off >= end:
					// Behind the end: the confirming header, or bytes that count for nothing.
					checkOpened(t, what, l, rec, err, m)
				case name == newest && off >= last && !confirm:
					checkOpened(t, what, l, rec, err, cut)
				default:
					checkRefused(t, what, name, off, l, err)
				}
			}
		}
	}
}

func checkOpened(t *testing.T, what string, l *Log, rec *Recovery, err error, m *model) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := m.check(l, rec); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// checkRefused accepts a refusal, and a success only where the damage is behind
// the seal of an older segment.
func checkRefused(t *testing.T, what, name string, off int64, l *Log, err error) {
	t.Helper()
	if err == nil {
		n, _ := parseSegmentName(name[len(testDir)+1:])
		s, aerr := l.acquire(n)
		if aerr != nil {
			t.Fatalf("%s: opened without the segment: %v", what, aerr)
		}
		res, serr := scanSegment(s.file, s.size, s.info, nil)
		if serr != nil || !res.sealed || off < res.end {
			t.Fatalf("%s: accepted, the segment ends at %d", what, res.end)
		}
		return
	}
	var damage *DamageError
	var version *VersionError
	if !errors.As(err, &damage) && !errors.As(err, &version) {
		t.Fatalf("%s: refused with %v", what, err)
	}
	if damage != nil && (damage.File != name[len(testDir)+1:] || damage.Offset > off) {
		t.Fatalf("%s: the refusal names another place: %v", what, err)
	}
}

func TestDamageIsRefusedWithFileAndOffset(t *testing.T) {
	fs, _, newest, _, _ := damageLog(t, true)
	info := func(name string) *segmentInfo {
		f, err := fs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := readSegmentHeader(f, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}(newest)
	older := testDir + "/" + segmentName(info.live[0])
	tests := []struct {
		name   string
		damage func(fs *vfs.MemFS) error
		want   string
	}{
		{"a batch of the newest segment", func(fs *vfs.MemFS) error { flip(t, fs, newest, info.end*8); return nil },
			fmt.Sprintf("wal: %s is damaged at offset %d: a batch is bad, and a later one proves", segmentName(info.number), info.end)},
		{"the header of the newest segment", func(fs *vfs.MemFS) error { flip(t, fs, newest, 20*8); return nil },
			fmt.Sprintf("wal: %s is damaged at offset 0: its header is bad", segmentName(info.number))},
		{"a batch of an older segment", func(fs *vfs.MemFS) error { flip(t, fs, older, 100*8); return nil },
			fmt.Sprintf("wal: %s is damaged at offset 64: a batch is bad in a segment", segmentName(info.live[0]))},
		{"the header of an older segment", func(fs *vfs.MemFS) error { flip(t, fs, older, 0); return nil },
			fmt.Sprintf("wal: %s is damaged at offset 0: %s needs it, but its header is bad", segmentName(info.live[0]), segmentName(info.number))},
		{"an older segment is missing", func(fs *vfs.MemFS) error { return fs.Remove(older) },
			fmt.Sprintf("wal: %s is damaged at offset 0: %s needs it, but it is missing", segmentName(info.live[0]), segmentName(info.number))},
		{"the newest segment is missing", func(fs *vfs.MemFS) error { return fs.Remove(newest) },
			fmt.Sprintf("wal: %s is damaged at offset 0: it is missing, but %s goes on in it", segmentName(info.number), segmentName(info.number-1))},
		{"the newest segment is all zeros", func(fs *vfs.MemFS) error {
			f, err := fs.Create(newest, vfs.WriteCategoryUnspecified)
			if err != nil {
				return err
			}
			_, err = f.Write(make([]byte, MinSegmentBytes))
			return errors.Join(err, f.Close())
		}, fmt.Sprintf("wal: %s is damaged at offset 0: its header is bad", segmentName(info.number))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clone := lossFS(fs)
			if err := tt.damage(clone); err != nil {
				t.Fatal(err)
			}
			_, _, err := Open(testOptions(clone))
			if err == nil || len(err.Error()) < len(tt.want) || err.Error()[:len(tt.want)] != tt.want {
				t.Fatalf("got %v\nwant %s…", err, tt.want)
			}
			// The refusal changes nothing: the next attempt says the same.
			if _, _, again := Open(testOptions(clone)); again == nil || again.Error() != err.Error() {
				t.Fatalf("the second attempt says %v", again)
			}
		})
	}
}

func TestDataOfAnotherClusterIsRefused(t *testing.T) {
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	put(t, l, &Write{Replica: Replica{1, 1}, Entries: entries(1, 1, 3, 100)})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o := testOptions(mem)
	o.Cluster = 8
	_, _, err := Open(o)
	var other *ClusterError
	if !errors.As(err, &other) || other.Found != 7 || other.Expected != 8 {
		t.Fatalf("got %v", err)
	}
	o.Cluster = 0
	l, rec := mustOpen(t, o)
	if rec.Cluster != 7 {
		t.Fatalf("the log says cluster %d", rec.Cluster)
	}
	if err := l.SetCluster(9); !errors.As(err, &other) {
		t.Fatalf("another cluster was accepted: %v", err)
	}
}

func TestClusterBecomesKnownLater(t *testing.T) {
	mem := vfs.NewCrashableMem()
	o := testOptions(mem)
	o.Cluster = 0
	l, _ := mustOpen(t, o)
	put(t, l, &Write{Replica: Replica{1, 1}, Entries: entries(1, 1, 3, 100)})
	if err := l.SetCluster(7); err != nil {
		t.Fatal(err)
	}
	put(t, l, &Write{Replica: Replica{1, 1}, Entries: entries(1, 4, 4, 100)})
	o.Cluster = 8
	var other *ClusterError
	if _, _, err := Open(optionsOn(o, lossFS(mem))); !errors.As(err, &other) {
		t.Fatalf("got %v", err)
	}
	o.Cluster = 7
	_, rec := mustOpen(t, optionsOn(o, lossFS(mem)))
	if len(rec.Replicas) != 1 || len(rec.Replicas[0].Refs) != 4 {
		t.Fatalf("recovered %+v", rec)
	}
}

func optionsOn(o Options, fs vfs.FS) Options {
	o.FS = fs
	return o
}

func TestNewerFormatIsRefused(t *testing.T) {
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	name := segmentName(2)
	flip(t, mem, testDir+"/"+name, 8*8+1) // version 1 becomes 3
	_, _, err := Open(testOptions(mem))
	var version *VersionError
	if !errors.As(err, &version) || version.Found != 3 || version.Supported != 1 || version.File != name {
		t.Fatalf("got %v", err)
	}
}

// With a single segment in use, or old ones far behind it, a bad header is not
// taken for a log that never began, nor for a segment that was never used.
func TestBadHeaderOfTheOnlyNewSegmentIsRefused(t *testing.T) {
	for _, old := range []bool{false, true} {
		mem := vfs.NewCrashableMem()
		o := testOptions(mem)
		o.Recycle = 0
		l, _ := mustOpen(t, o)
		if old {
			put(t, l, &Write{Replica: Replica{2, 2}, Entries: entries(1, 1, 1, 10)})
		}
		r := Replica{Group: 1, ID: 1}
		for i := uint64(1); l.Stats().Rotations < 6; i++ {
			put(t, l, &Write{Replica: r, Entries: entries(1, i, i, 1000)})
			l.Cut(r, i)
			if err := flushAll(l); err != nil {
				t.Fatal(err)
			}
		}
		name := l.cur.name
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		flip(t, mem, testDir+"/"+name, 40*8)
		_, _, err := Open(o)
		var damage *DamageError
		if !errors.As(err, &damage) || damage.File != name || damage.Offset != 0 {
			t.Fatalf("an older segment in use: %t: %v", old, err)
		}
	}
}

// Bytes that a device wrote to the wrong place verify nowhere else.
func TestBatchesAndFramesAreBoundToTheirPlace(t *testing.T) {
	s := &segmentInfo{number: 2, salt: 9}
	appendSegmentHeader(nil, s)
	var e encoder
	e.reset(nil, 2, s.end, s.seed())
	es := entries(1, 1, 1, 40)
	e.entry(Replica{1, 1}, 0, &es[0])
	batchHeader{offset: s.end, synced: s.end, length: int64(len(e.buf)) - batchHeaderBytes}.put(e.buf, s.salt, s.seed())
	for off := s.end; off < s.end+64; off += align {
		_, batch := getBatchHeader(e.buf, s, s.seed(), off)
		_, frame := getFrame(e.buf[batchHeaderBytes:], s.seed(), off+batchHeaderBytes)
		if right := off == s.end; batch != right || frame != right {
			t.Errorf("at offset %d: batch %t, frame %t", off, batch, frame)
		}
	}
}

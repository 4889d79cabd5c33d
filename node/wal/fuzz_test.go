package wal

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

// writeFile puts a segment file on the disk.
func writeFile(t testing.TB, fs vfs.FS, number uint64, data []byte) {
	t.Helper()
	if err := fs.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create(testDir+"/"+segmentName(number), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(data)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// openAny opens whatever is there: it must end with a log that works, or with
// one of the refusals.
func openAny(t *testing.T, fs *vfs.MemFS) {
	l, rec, err := Open(testOptions(fs))
	if err != nil {
		var damage *DamageError
		var version *VersionError
		var cluster *ClusterError
		if !errors.As(err, &damage) && !errors.As(err, &version) && !errors.As(err, &cluster) {
			t.Fatalf("open: %v", err)
		}
		return
	}
	for _, r := range rec.Replicas {
		for _, ref := range r.Refs {
			if _, err := l.Read(ref); err != nil {
				var damage *DamageError
				if !errors.As(err, &damage) && !errors.Is(err, ErrGone) {
					t.Fatalf("read: %v", err)
				}
			}
		}
	}
	fresh := Replica{Group: 77, ID: 1 << 40}
	put(t, l, &Write{Replica: fresh, Entries: entries(1, 1, 1, 10)})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, again := mustOpen(t, testOptions(fs))
	if len(again.Replicas) < len(rec.Replicas) {
		t.Fatalf("%d replicas became %d", len(rec.Replicas), len(again.Replicas))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// FuzzSegmentFile gives recovery a file of any bytes.
func FuzzSegmentFile(f *testing.F) {
	s := &segmentInfo{number: 2, cluster: 7, salt: 9, rows: []row{{replica: Replica{1, 1}, hard: raftpb.HardState{Term: 1}}}}
	head := appendSegmentHeader(nil, s)
	var e encoder
	e.reset(nil, 2, s.end, s.seed())
	es := entries(1, 1, 3, 40)
	for i := range es {
		e.entry(Replica{1, 1}, 0, &es[i])
	}
	batchHeader{offset: s.end, synced: s.end, length: int64(len(e.buf)) - batchHeaderBytes}.put(e.buf, s.salt, s.seed())
	whole := append(bytes.Clone(head), e.buf...)
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Add(head)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		fs := vfs.NewMem()
		writeFile(t, fs, 2, data)
		openAny(t, fs)
	})
}

// FuzzFrames gives recovery valid batches with frames of any content: the
// checksums hold, so all that follows them is put to the test.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{1, 0, 16, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, uint8(3))
	f.Add([]byte{5, 0, 24, 6, 0, 16, 7, 0, 8, 8, 0, 0, 9, 0, 8, 3}, uint8(1))
	f.Add([]byte{1, 3, 16, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 16, 1, 0, 0, 0, 0, 0, 0, 0, 1}, uint8(0))
	f.Add([]byte{2, 3, 30, 3, 1, 24}, uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, rows uint8) {
		r := Replica{Group: 1, ID: 1}
		s := &segmentInfo{number: 2, cluster: 7, salt: 9}
		for i := range uint64(rows % 4) {
			s.rows = append(s.rows, row{replica: Replica{1, i + 1}, mark: Mark{i, i}, last: Mark{i, i}})
		}
		buf := appendSegmentHeader(nil, s)
		off := s.end
		for len(data) > 0 {
			var e encoder
			e.reset(nil, 2, off, s.seed())
			for n := 0; n < 5 && len(data) > 2; n++ {
				kind, flags, size := data[0]%12, data[1]&3, int(data[2])
				data = data[3:]
				size = min(size, len(data))
				e.begin(frameKind(kind), flags, 0, r)
				e.buf = append(e.buf, data[:size]...)
				e.end()
				data = data[size:]
			}
			if e.empty() {
				break
			}
			batchHeader{offset: off, synced: off, length: int64(len(e.buf)) - batchHeaderBytes}.put(e.buf, s.salt, s.seed())
			buf = append(buf, e.buf...)
			off += int64(len(e.buf))
		}
		fs := vfs.NewMem()
		writeFile(t, fs, 2, buf)
		openAny(t, fs)
	})
}

package wal

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

// cpuTime returns what the process used, in user and system time.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRound is one round of as many replicas' writes, one entry of 300
// bytes each, on the real file system: in segments that were never written, and
// in recycled ones. CPU is that of the process, per entry.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		for _, recycled := range []bool{false, true} {
			b.Run(fmt.Sprintf("entries=%d/recycled=%t", n, recycled), func(b *testing.B) {
				o := Options{FS: vfs.Default, Dir: filepath.Join(b.TempDir(), "wal")}
				if recycled {
					o.SegmentBytes, o.Recycle = 4<<20, 4
				}
				benchmarkRound(b, o, n, recycled)
			})
		}
	}
}

func benchmarkRound(b *testing.B, o Options, n int, recycled bool) {
	l, _ := mustOpen(b, o)
	defer l.Close()
	data := make([]byte, 300)
	writes := make([]Write, n)
	for i := range writes {
		writes[i] = Write{Replica: Replica{Group: uint32(i), ID: uint64(i) + 1}, Entries: make([]raftpb.Entry, 1)}
	}
	index := uint64(0)
	round := func() {
		index++
		for i := range writes {
			w := &writes[i]
			w.Entries[0] = raftpb.Entry{Index: index, Term: 1, Data: data}
			if recycled {
				l.Cut(w.Replica, index-1)
			}
			l.Enqueue(w)
		}
		if err := flushAll(l); err != nil {
			b.Fatal(err)
		}
	}
	for recycled && l.Stats().Spares == 0 {
		round()
	}
	before, cpu := l.Stats(), cpuTime(b)
	b.ReportAllocs()
	for b.Loop() {
		round()
	}
	after := l.Stats()
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N*n), "cpu-ns/entry")
	b.ReportMetric(float64(after.SyncTime-before.SyncTime)/float64(after.Rounds-before.Rounds), "sync-ns/round")
}

// BenchmarkSync is one fdatasync of 4 KiB: at the end of a growing file, and in
// one that was written and synced before.
func BenchmarkSync(b *testing.B) {
	const block, size = 4096, 32 << 20
	for _, mode := range []string{"growing", "written"} {
		b.Run(mode, func(b *testing.B) {
			f, err := vfs.Default.OpenReadWrite(filepath.Join(b.TempDir(), "f"), vfs.WriteCategoryUnspecified)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			data := make([]byte, block)
			if mode != "growing" {
				if _, err := f.WriteAt(make([]byte, size), 0); err != nil {
					b.Fatal(err)
				}
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
			off := int64(0)
			for b.Loop() {
				if _, err := f.WriteAt(data, off); err != nil {
					b.Fatal(err)
				}
				if err := f.SyncData(); err != nil {
					b.Fatal(err)
				}
				if off += block; off == size && mode != "growing" {
					off = 0
				}
			}
		})
	}
}

package basestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"runnel.dev/runnel/node/stream"
)

// layout is one way to keep a stream's bytes in Pebble. The benchmarks below
// compare the store's own (blocks of 64 KiB) with smaller blocks and with one
// key an append; docs/formats/basestore.md has the figures.
type layout struct {
	name   string
	append func(b *pebble.Batch, id, offset uint64, data []byte)
	read   func(db *pebble.DB, dst []byte, id, from, to uint64) ([]byte, error)
}

func layouts() []layout {
	return []layout{blockLayout(64 << 10), blockLayout(16 << 10), blockLayout(4 << 10), appendLayout()}
}

func blockLayout(size uint64) layout {
	key := func(dst []byte, id, block uint64) []byte {
		dst = appendStreamKind(dst, 1, 1, kindBytes, stream.ID(id))
		return binary.BigEndian.AppendUint64(dst, block)
	}
	return layout{
		name: fmt.Sprintf("blocks=%dKiB", size>>10),
		append: func(b *pebble.Batch, id, offset uint64, data []byte) {
			for len(data) > 0 {
				n := min(uint64(len(data)), size-offset%size)
				must(b.Merge(key(make([]byte, 0, 32), id, offset/size), data[:n], nil))
				offset, data = offset+n, data[n:]
			}
		},
		read: func(db *pebble.DB, dst []byte, id, from, to uint64) ([]byte, error) {
			for from < to {
				block := from / size
				v, closer, err := db.Get(key(make([]byte, 0, 32), id, block))
				if err != nil {
					return nil, err
				}
				end := min(to-block*size, size)
				dst = append(dst, v[from%size:end]...)
				from = block*size + end
				if err := closer.Close(); err != nil {
					return nil, err
				}
			}
			return dst, nil
		},
	}
}

func appendLayout() layout {
	key := func(id, offset uint64) []byte {
		k := appendStreamKind(make([]byte, 0, 32), 1, 1, kindBytes, stream.ID(id))
		return binary.BigEndian.AppendUint64(k, offset)
	}
	return layout{
		name: "key-per-append",
		append: func(b *pebble.Batch, id, offset uint64, data []byte) {
			must(b.Set(key(id, offset), data, nil))
		},
		read: func(db *pebble.DB, dst []byte, id, from, to uint64) ([]byte, error) {
			it, err := db.NewIter(&pebble.IterOptions{LowerBound: key(id, 0), UpperBound: key(id, to)})
			if err != nil {
				return nil, err
			}
			if !it.SeekLT(key(id, from+1)) {
				return nil, ErrGone
			}
			for ; it.Valid(); it.Next() {
				k := it.Key()
				at := binary.BigEndian.Uint64(k[len(k)-8:])
				v := it.Value()
				if at < from {
					v = v[from-at:]
				}
				dst = append(dst, v...)
			}
			return dst, it.Close()
		},
	}
}

const benchAppend = 256

// benchText is what appends carry: JSON that compresses about as well as logs.
func benchText(rng *rand.Rand) []byte {
	s := fmt.Sprintf(`{"time":%d,"level":"info","request":"%016x","path":"/v1/items/%d","user":"%08x","note":"`,
		rng.Uint64()>>20, rng.Uint64(), rng.IntN(100000), rng.Uint32())
	out := []byte(s)
	for len(out) < benchAppend-2 {
		out = append(out, "abcdefghijklmnopqrstuvwxyz0123456789"[rng.IntN(36)])
	}
	return append(out, `"}`...)
}

func benchDB(b *testing.B) *pebble.DB {
	b.Helper()
	o := Options{Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	po := pebbleOptions(o, &pebbleLogger{log: o.Logger, fail: func(err error) { b.Error(err) }})
	defer po.Cache.Unref()
	db, err := pebble.Open(b.TempDir(), po)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load appends n messages, round robin over streams, 100 to a batch.
func (l layout) load(b *testing.B, db *pebble.DB, streams, n int) {
	rng := rand.New(rand.NewPCG(1, 2))
	texts := make([][]byte, 1024)
	for i := range texts {
		texts[i] = benchText(rng)
	}
	batch := db.NewBatch()
	for i := range n {
		l.append(batch, uint64(i%streams)+1, uint64(i/streams)*benchAppend, texts[rng.IntN(len(texts))])
		if i%100 == 99 || i == n-1 {
			if err := batch.Commit(pebble.NoSync); err != nil {
				b.Fatal(err)
			}
			batch.Reset()
		}
	}
	if err := batch.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLayoutAppend counts the whole process's CPU, flushes and
// compactions included. Run it with a fixed count, -benchtime=400000x.
func BenchmarkLayoutAppend(b *testing.B) {
	for _, l := range layouts() {
		b.Run(l.name, func(b *testing.B) {
			db := benchDB(b)
			b.ReportAllocs()
			b.ResetTimer()
			cpu := cpuTime()
			l.load(b, db, 500, b.N)
			if err := db.Flush(); err != nil {
				b.Fatal(err)
			}
			for db.Metrics().Compact.NumInProgress > 0 {
				time.Sleep(time.Millisecond)
			}
			used := cpuTime() - cpu
			m := db.Metrics()
			total := m.Total()
			in := float64(b.N) * benchAppend
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(m.WAL.BytesWritten)/in, "log-B/B")
			b.ReportMetric(float64(total.TableBytesFlushed+total.TableBytesCompacted)/in, "tables-B/B")
			b.ReportMetric(float64(m.DiskSpaceUsage()-m.WAL.PhysicalSize)/in, "disk-B/B")
		})
	}
}

// BenchmarkLayoutRead replays whole streams of 1 MiB, in reads of 256 KiB.
func BenchmarkLayoutRead(b *testing.B) {
	const streams, perStream = 64, 4096
	for _, l := range layouts() {
		for _, state := range []string{"memtable", "flushed", "compacted"} {
			b.Run(l.name+"/"+state, func(b *testing.B) {
				db := benchDB(b)
				if state == "memtable" {
					l.load(b, db, 4, 4*perStream)
				} else {
					l.load(b, db, streams, streams*perStream)
					if err := db.Flush(); err != nil {
						b.Fatal(err)
					}
				}
				if state == "compacted" {
					if err := db.Compact(context.Background(), []byte{0}, []byte{0xff}, false); err != nil {
						b.Fatal(err)
					}
				}
				var buf []byte
				b.SetBytes(perStream * benchAppend)
				b.ResetTimer()
				for i := range b.N {
					n := streams
					if state == "memtable" {
						n = 4
					}
					id := uint64(i%n) + 1
					for from := uint64(0); from < perStream*benchAppend; from += 256 << 10 {
						var err error
						if buf, err = l.read(db, buf[:0], id, from, from+256<<10); err != nil {
							b.Fatal(err)
						}
						if len(buf) != 256<<10 {
							b.Fatalf("read %d bytes", len(buf))
						}
					}
				}
			})
		}
	}
}

// BenchmarkLayoutTail reads the last append of a stream whose last block is
// full but for one append, none of it flushed: the worst case of folding.
func BenchmarkLayoutTail(b *testing.B) {
	const n = 255
	for _, l := range layouts() {
		b.Run(l.name, func(b *testing.B) {
			db := benchDB(b)
			l.load(b, db, 8, 8*n)
			var buf []byte
			b.ResetTimer()
			for i := range b.N {
				var err error
				buf, err = l.read(db, buf[:0], uint64(i%8)+1, (n-1)*benchAppend, n*benchAppend)
				if err != nil || len(buf) != benchAppend {
					b.Fatal(len(buf), err)
				}
			}
		})
	}
}

package basestore

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/stream"
)

func benchStore(b *testing.B, streams int) (*Store, []*stream.Stream) {
	s := openTest(b, Options{FS: vfs.Default, Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	newWorld(1).create(b, s)
	m := &stream.Mutations{Group: &stream.Group{LastID: stream.ID(streams)}}
	for n := range streams {
		m.Put = append(m.Put, &stream.Stream{
			ID: stream.ID(n + 1), Key: stream.Key{Bucket: "bucket", Stream: fmt.Sprintf("stream-%06d", n)}, ContentType: "application/json",
		})
	}
	batch := s.NewBatch()
	check(b, batch.Apply(1, m))
	check(b, batch.Commit())
	return s, m.Put
}

// BenchmarkCommit is the cost of one append of 256 B, in batches as shards make
// them: each append is of another stream and rewrites that stream's record.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("appends=%d", size), func(b *testing.B) {
			s, recs := benchStore(b, 500)
			random := rand.New(rand.NewPCG(1, 2))
			text := benchText(random)
			// Writers answer in no order.
			random.Shuffle(len(recs), func(i, j int) { recs[i], recs[j] = recs[j], recs[i] })
			b.ReportAllocs()
			b.ResetTimer()
			cpu := cpuTime()
			for n := 0; n < b.N; n += size {
				m := &stream.Mutations{}
				for i := range size {
					at := (n + i) % len(recs)
					rec := *recs[at]
					m.Appends = append(m.Appends, stream.Append{Stream: rec.ID, Offset: rec.Tail, Data: text})
					rec.Tail += uint64(len(text))
					recs[at] = &rec
					m.Put = append(m.Put, &rec)
				}
				batch := s.NewBatch()
				check(b, batch.Apply(1, m))
				check(b, batch.Mark(1, 1, uint64(n+1), 1, nil))
				check(b, batch.Commit())
			}
			b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	s, recs := benchStore(b, 10000)
	for _, evict := range []bool{false, true} {
		b.Run(fmt.Sprintf("cached=%v", !evict), func(b *testing.B) {
			b.ReportAllocs()
			for n := range b.N {
				key := recs[n%len(recs)].Key
				if evict {
					s.records.drop(nameKey(1, key))
				}
				rec, err := s.Lookup(1, key)
				if err != nil || rec == nil {
					b.Fatal(rec, err)
				}
			}
		})
	}
}

func BenchmarkReadTail(b *testing.B) {
	for _, bound := range []int64{0, -1} {
		b.Run(fmt.Sprintf("cached=%v", bound == 0), func(b *testing.B) {
			s := openTest(b, Options{FS: vfs.Default, Dir: b.TempDir(), TailCacheBytes: bound, Logger: slog.New(slog.DiscardHandler)})
			newWorld(1).create(b, s)
			var have []byte
			rng := rand.New(rand.NewPCG(1, 2))
			for range 255 {
				have = appendBytes(b, s, 1, have, benchAppend, rng)
			}
			buf := make([]byte, 0, benchAppend)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if _, err := s.ReadBytes(buf, 1, 1, uint64(len(have)-benchAppend), uint64(len(have))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package basestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"runnel.dev/runnel/node/stream"
)

// TestReadBytesAcrossBlocks writes appends of many sizes and reads every kind
// of range, from memory and from tables, with and without the tail cache.
func TestReadBytesAcrossBlocks(t *testing.T) {
	for _, tails := range []int64{-1, 1 << 20} {
		for _, state := range []string{"memtable", "flushed", "compacted"} {
			t.Run(fmt.Sprintf("%s, tail cache %d", state, tails), func(t *testing.T) {
				rng := seeded(t, 1)
				o := testOptions(vfs.NewMem())
				o.TailCacheBytes, o.MemTableBytes = tails, 8<<20
				s := openTest(t, o)
				newWorld(1).create(t, s)
				var want []byte
				for _, size := range []int{1, 255, 0, blockBytes - 256, 1, blockBytes, 3*blockBytes + 5, 7, 2 * blockBytes} {
					want = appendBytes(t, s, 1, want, size, rng)
				}
				if state != "memtable" {
					check(t, s.db.Flush())
				}
				if state == "compacted" {
					check(t, s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false))
				}
				cuts := []int{0, 1, 255, 256, blockBytes - 1, blockBytes, blockBytes + 1, 2 * blockBytes, len(want) - 7, len(want) - 1, len(want)}
				for range 8 {
					cuts = append(cuts, rng.IntN(len(want)+1))
				}
				for _, from := range cuts {
					for _, to := range cuts {
						checkRange(t, s, want, from, to)
					}
				}
				if _, err := s.ReadBytes(nil, 1, 1, uint64(len(want)-1), uint64(len(want)+1)); !isGone(err) {
					t.Fatalf("read past the tail: %v", err)
				}
			})
		}
	}
}

func checkRange(t *testing.T, s *Store, want []byte, from, to int) {
	t.Helper()
	got, err := s.ReadBytes([]byte("head"), 1, 1, uint64(from), uint64(to))
	check(t, err)
	if !bytes.Equal(got[4:], want[min(from, to):to]) || string(got[:4]) != "head" {
		t.Fatalf("read [%d, %d): %d bytes", from, to, len(got)-4)
	}
}

// appendBytes appends random bytes to a stream of group 1 that has those in have.
func appendBytes(t testing.TB, s *Store, id stream.ID, have []byte, size int, rng *rand.Rand) []byte {
	t.Helper()
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	b := s.NewBatch()
	check(t, b.Apply(1, &stream.Mutations{Appends: []stream.Append{{Stream: id, Offset: uint64(len(have)), Data: data}}}))
	check(t, b.Commit())
	return append(have, data...)
}

func TestAFailedReadLeavesTheCallersBufferAsItWas(t *testing.T) {
	rng := seeded(t, 1)
	o := testOptions(vfs.NewMem())
	o.TailCacheBytes = -1
	s := openTest(t, o)
	newWorld(1).create(t, s)
	appendBytes(t, s, 1, nil, blockBytes+10, rng)
	got, err := s.ReadBytes([]byte("head"), 1, 1, 5, 2*blockBytes+1)
	if !errors.Is(err, ErrGone) || string(got) != "head" {
		t.Fatalf("read %d bytes, %v", len(got), err)
	}
}

func TestDeletedBytesAreGoneAndARecreateNeverMixesWithThem(t *testing.T) {
	for _, size := range []int{1, 3 * blockBytes, 20 * blockBytes} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			rng := seeded(t, 1)
			s := openTest(t, testOptions(vfs.NewMem()))
			newWorld(1).create(t, s)
			key := stream.Key{Bucket: "b", Stream: "s"}
			old := stream.Stream{ID: 1, Key: key, Tail: uint64(size), Producers: 1}
			b := s.NewBatch()
			check(t, b.Apply(1, &stream.Mutations{
				Group: &stream.Group{LastID: 1}, Put: []*stream.Stream{&old},
				Producers: []stream.ProducerPut{{Stream: 1, ID: "p", Producer: &stream.Producer{Seq: 3}}},
				Appends:   []stream.Append{{Stream: 1, Data: bytes.Repeat([]byte("o"), size)}},
			}))
			check(t, b.Commit())
			next := stream.Stream{ID: 2, Key: key, Tail: 2}
			b = s.NewBatch()
			check(t, b.Apply(1, &stream.Mutations{
				Group: &stream.Group{LastID: 2}, Removed: []*stream.Stream{&old}, Put: []*stream.Stream{&next},
				Appends: []stream.Append{{Stream: 2, Data: []byte("nn")}},
			}))
			check(t, b.Commit())
			for _, from := range []int{0, rng.IntN(size), size - 1} {
				if _, err := s.ReadBytes(nil, 1, 1, uint64(from), uint64(from+1)); !isGone(err) {
					t.Fatalf("read of the deleted stream at %d: %v", from, err)
				}
			}
			got, err := s.ReadBytes(nil, 1, 2, 0, 2)
			check(t, err)
			if string(got) != "nn" {
				t.Fatalf("the new stream reads %q", got)
			}
			rec, err := s.Lookup(1, key)
			check(t, err)
			if rec.ID != 2 {
				t.Fatalf("the name leads to stream %d", rec.ID)
			}
			if keys := groupKeys(t, s, 1); len(keys) != 6 { // head 2, group, name, record, block
				t.Fatalf("keys %q", keys)
			}
		})
	}
}

func TestAMergeIsTheConcatenationFromEitherEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "operands")
		limit := rapid.SampledFrom([]int{4, 300, 40000}).Draw(t, "limit")
		operands := make([][]byte, n)
		var want []byte
		for i := range operands {
			operands[i] = bytes.Repeat([]byte{byte(i)}, rapid.IntRange(0, limit).Draw(t, "size"))
			want = append(want, operands[i]...)
		}
		at := rapid.IntRange(0, n-1).Draw(t, "first")
		m, err := concatMerger.Merge(nil, operands[at])
		if err != nil {
			t.Fatal(err)
		}
		older, newer := at-1, at+1
		for older >= 0 || newer < n {
			if newer >= n || older >= 0 && rapid.Bool().Draw(t, "older") {
				err = m.MergeOlder(operands[older])
				older--
			} else {
				err = m.MergeNewer(operands[newer])
				newer++
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		got, closer, err := m.Finish(true)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes, want %d: %v", len(got), len(want), err)
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestReadingAHotBlockIsLinearInItsOperands bounds the allocation of a read of
// a block of many small operands: a merge that copies its result for each
// operand allocates hundreds of times the block.
func TestReadingAHotBlockIsLinearInItsOperands(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.TailCacheBytes, o.MemTableBytes = -1, 8<<20
	s := openTest(t, o)
	newWorld(1).create(t, s)
	var have []byte
	rng := seeded(t, 1)
	for len(have) < blockBytes-64 {
		have = appendBytes(t, s, 1, have, 64, rng)
	}
	buf := make([]byte, 0, 64)
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := s.ReadBytes(buf, 1, 1, uint64(len(have)-64), uint64(len(have))); err != nil {
				b.Fatal(err)
			}
		}
	})
	if n := r.AllocedBytesPerOp(); n > 4*blockBytes {
		t.Fatalf("a read of a block of %d operands allocates %d bytes", len(have)/64, n)
	}
}

func TestABatchLargerThanAMemtableIsOneUnit(t *testing.T) {
	rng := seeded(t, 1)
	fs := vfs.NewCrashableMem()
	s := openTest(t, testOptions(fs)) // memtables of 256 KiB
	newWorld(1).create(t, s)
	want := appendBytes(t, s, 1, nil, 10, rng)
	want = appendBytes(t, s, 1, want, 3<<20, rng)
	want = appendBytes(t, s, 1, want, 10, rng)
	_, err := s.Sync()
	check(t, err)
	for _, st := range []*Store{s, openTest(t, testOptions(fs.CrashClone(vfs.CrashCloneCfg{})))} {
		got, err := st.ReadBytes(nil, 1, 1, 0, uint64(len(want)))
		check(t, err)
		if !bytes.Equal(got, want) {
			t.Fatal("the bytes differ")
		}
	}
}

var _ pebble.ValueMerger = (*concat)(nil)

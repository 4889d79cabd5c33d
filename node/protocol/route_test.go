package protocol

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
)

// The vectors of docs/formats/routing.md. They never change: data lies where
// they say.
func TestRoutingVectors(t *testing.T) {
	tests := []struct {
		bucket, stream  string
		hash            uint64
		of64, of16, of3 uint32
	}{
		{"demo", "hello", 0xe1ce6685733189d1, 17, 1, 0},
		{"demo", "hellp", 0x7b48b8b231cf8230, 48, 0, 1},
		{"conf", "日本", 0x5475908928b994a7, 39, 7, 2},
		{"a-_0", "streams.1", 0x861ee26d5d4194cc, 12, 12, 1},
		{"tenant-1", "orders", 0xa464a70b529e50f4, 52, 4, 1},
		{"demo", strings.Repeat("x", 117), 0xffc61454ad66fdf8, 56, 8, 1},
	}
	for _, tt := range tests {
		if got := KeyHash(tt.bucket, tt.stream); got != tt.hash {
			t.Errorf("%s/%s hashes to %#x, want %#x", tt.bucket, tt.stream, got, tt.hash)
		}
		for groups, want := range map[uint32]uint32{64: tt.of64, 16: tt.of16, 3: tt.of3, 1: 0} {
			if got := GroupOf(tt.bucket, tt.stream, groups); got != want {
				t.Errorf("%s/%s of %d groups is in %d, want %d", tt.bucket, tt.stream, groups, got, want)
			}
		}
	}
}

func TestKeyHashIsFinalizedFNV1a(t *testing.T) {
	for i := range 1000 {
		bucket, stream := fmt.Sprintf("bucket-%d", i%7), fmt.Sprintf("stream/%d", i*i)
		h := fnv.New64a()
		h.Write([]byte(bucket + "/" + stream))
		if got, want := KeyHash(bucket, stream), mix64(h.Sum64()); got != want {
			t.Fatalf("%s/%s: %#x, want %#x", bucket, stream, got, want)
		}
	}
}

func TestGroupsGetEvenSharesOfSimilarNames(t *testing.T) {
	// Names that differ in a few low digits are what users have. With 64 groups
	// and 64,000 names a fair share is 1,000, standard deviation 31.
	for _, groups := range []uint32{16, 64} {
		for _, name := range []string{"user-%d", "%d", "%08d", "a%da"} {
			counts := make([]int, groups)
			for i := range 1000 * int(groups) {
				counts[GroupOf("demo", fmt.Sprintf(name, i), groups)]++
			}
			for g, n := range counts {
				if n < 800 || n > 1200 {
					t.Errorf("%q over %d groups: group %d has %d of 1,000", name, groups, g, n)
				}
			}
		}
	}
}

func BenchmarkGroupOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		GroupOf("demo", "user-4711/events", 64)
	}
}

package bench

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// subBits sets the precision: values within a power of two share 2^subBits
	// buckets, so a reported quantile is at most 1/128 above the true value.
	subBits = 7
	subs    = 1 << subBits
	// maxExp bounds the range: 2^40 ns is 18 minutes; what is larger counts as that.
	maxExp  = 40
	buckets = (maxExp - subBits + 1) * subs
)

// histogram counts durations in log-linear buckets. Its size is fixed (35 KiB),
// and it may be written from many goroutines.
type histogram struct {
	counts [buckets]atomic.Uint64
	max    atomic.Int64
}

func (h *histogram) record(d time.Duration) {
	h.counts[bucketOf(d)].Add(1)
	for {
		m := h.max.Load()
		if int64(d) <= m || h.max.CompareAndSwap(m, int64(d)) {
			return
		}
	}
}

// bucketOf maps [0, 128) ns to one bucket a nanosecond, and [128·2^k, 256·2^k)
// to 128 buckets of 2^k ns.
func bucketOf(d time.Duration) int {
	v := uint64(min(max(d, 0), 1<<maxExp-1))
	if v < subs {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return shift<<subBits + int(v>>shift)
}

// upper is the largest value of a bucket.
func upper(b int) time.Duration {
	if b < subs {
		return time.Duration(b)
	}
	shift := b>>subBits - 1
	return time.Duration((uint64(b&(subs-1))+subs+1)<<shift - 1)
}

func (h *histogram) count() uint64 {
	var n uint64
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// quantile returns the upper end of the bucket that holds the q-th value, 0
// without values; q in [0, 1].
func (h *histogram) quantile(q float64) time.Duration {
	n := h.count()
	if n == 0 {
		return 0
	}
	rank := min(n, uint64(q*float64(n))+1)
	var seen uint64
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= rank {
			return min(upper(i), time.Duration(h.max.Load()))
		}
	}
	return time.Duration(h.max.Load())
}

package streamhttp

import (
	"errors"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
)

// budget bounds the bytes of one kind that the handler holds for clients.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes, or says no.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// fits says whether n bytes would be given now.
func (b *budget) fits(n int64) bool { return b.used.Load()+n <= b.limit }

// grant reserves want bytes, or what is left of the budget, but never less
// than atLeast: who holds that little must make progress.
func (b *budget) grant(want, atLeast int64) int64 {
	for {
		used := b.used.Load()
		n := max(min(want, b.limit-used), min(want, atLeast))
		if b.used.CompareAndSwap(used, used+n) {
			return n
		}
	}
}

func (b *budget) free(n int64) { b.used.Add(-n) }

// Buffers come in powers of two, each size with a pool of its own, so that a
// small body never sits in the memory of a large one.
const (
	smallestClass = 10 // 1 KiB
	largestClass  = 23 // 8 MiB; larger ones are left to the collector
)

var pools [largestClass + 1]sync.Pool

// buffer is pooled memory together with what it takes of a budget.
type buffer struct {
	b        []byte
	reserved int64
}

// getBuffer returns an empty buffer with room for n bytes.
func getBuffer(n int) *buffer {
	class := max(bits.Len(uint(max(n, 1)-1)), smallestClass)
	if class > largestClass {
		return &buffer{b: make([]byte, 0, n)}
	}
	if v := pools[class].Get(); v != nil {
		return v.(*buffer)
	}
	return &buffer{b: make([]byte, 0, 1<<class)}
}

// putBuffer gives the memory back to be used again.
func putBuffer(b *buffer) {
	class := bits.Len(uint(cap(b.b))) - 1
	if class < smallestClass || class > largestClass || cap(b.b) != 1<<class {
		return
	}
	b.b, b.reserved = b.b[:0], 0
	pools[class].Put(b)
}

// wholeBody is the largest body that is reserved at once. A larger one is
// reserved as it arrives, so that a slow sender holds what it sent and not what
// it declared.
const wholeBody = 64 << 10

// readBody reads the request's body within the node's budget; nil when it is
// empty. Whether there is room is decided before the first byte is read, so a
// client that waits for 100 Continue keeps its body.
func (h *Handler) readBody(x http1.Exchange) (*buffer, error) {
	n := x.Request().ContentLength
	if n == 0 {
		return nil, nil
	}
	if n > 0 && !h.bodies.fits(n) {
		return nil, faultIngress
	}
	first := int64(wholeBody)
	if n > 0 && n < first {
		first = n
	}
	if !h.bodies.take(first) {
		return nil, faultIngress
	}
	b := getBuffer(int(first))
	b.reserved = first
	var err error
	if n > 0 && n <= first {
		b.b, err = x.ReadBody(b.b, n)
	} else {
		b, err = h.readGrowing(x, b, n)
	}
	if err == nil && n > 0 && int64(len(b.b)) != n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil || len(b.b) == 0 {
		h.releaseBody(b, true)
		return nil, err
	}
	return b, nil
}

// readGrowing reads a body of unknown (declared -1) or large size, doubling its
// buffer and its reservation as bytes arrive.
func (h *Handler) readGrowing(x http1.Exchange, b *buffer, declared int64) (*buffer, error) {
	// One byte more than a limit, to tell a body that ends there from a longer one.
	most := int64(protocol.MaxRequestBytes) + 1
	if declared >= 0 {
		most = declared + 1
	}
	body := x.Body()
	for size := b.reserved; ; {
		if int64(len(b.b)) == size {
			next := min(2*size, most)
			if !h.bodies.take(next - size) {
				return b, faultIngress
			}
			b = moveBuffer(b, int(next))
			b.reserved, size = next, next
		}
		n, err := body.Read(b.b[len(b.b):size])
		b.b = b.b[:len(b.b)+n]
		if len(b.b) > protocol.MaxRequestBytes {
			return b, http1.ErrBodyTooLarge
		}
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// discardBody reads a body that means nothing. Only behind it can a reader that
// waits see its client leave.
func discardBody(x http1.Exchange) error {
	if x.Request().ContentLength == 0 {
		return nil
	}
	_, err := io.Copy(io.Discard, x.Body())
	return err
}

// moveBuffer moves what b holds to a buffer with room for n bytes.
func moveBuffer(b *buffer, n int) *buffer {
	next := getBuffer(n)
	next.b = append(next.b, b.b...)
	putBuffer(b)
	return next
}

// releaseBody gives a body's reservation back, and its memory when nobody can
// be reading it any more.
func (h *Handler) releaseBody(b *buffer, settled bool) {
	if b == nil {
		return
	}
	h.bodies.free(b.reserved)
	b.reserved = 0
	if settled {
		putBuffer(b)
	}
}

package wal

import (
	"fmt"
	"io"
)

// scanResult says how a segment's valid batches end.
type scanResult struct {
	// end is the offset behind the last valid batch of the unbroken sequence.
	end int64
	// synced is the highest offset that any valid header of the segment knew to
	// be durable, headers behind a bad batch included.
	synced  int64
	batches int
	sealed  bool
	torn    bool // there are remains of a batch at or behind end
}

// damaged says that durable bytes are bad: a later header proves that what
// does not verify at end had been synced. Otherwise the bytes at end were part
// of a write that never was reported, whose blocks persist in any order.
func (s *scanResult) damaged() bool { return s.synced > s.end }

// visitor is called for each frame of each valid batch, in order, with its
// offset. It returns what makes a frame with a good checksum unacceptable.
type visitor func(f *frame, off int64) error

// scanSegment reads the batches of a segment. It calls visit, which may be nil,
// only for frames of batches that verify as a whole. Errors are those of the
// file, and a *DamageError without a file name where valid frames make no
// sense. Memory is bounded by the largest batch that lies in the file.
func scanSegment(r io.ReaderAt, size int64, s *segmentInfo, visit visitor) (scanResult, error) {
	seed := s.seed()
	res := scanResult{end: s.end, synced: s.end}
	var buf []byte
	var head [batchHeaderBytes]byte
	for !res.sealed {
		off := res.end
		if off+batchHeaderBytes > size {
			return res, nil
		}
		if err := readFull(r, head[:], off); err != nil {
			return res, err
		}
		h, ok := getBatchHeader(head[:], s, seed, off)
		if ok {
			res.synced = max(res.synced, h.synced)
		}
		if !ok || off+batchHeaderBytes+h.length > size {
			res.torn = ok
			err := scanBehind(r, size, s, seed, off+align, &res)
			return res, err
		}
		if int64(cap(buf)) < h.length {
			buf = make([]byte, h.length)
		}
		buf = buf[:h.length]
		if err := readFull(r, buf, off+batchHeaderBytes); err != nil {
			return res, err
		}
		if !verifyFrames(buf, seed, off+batchHeaderBytes) {
			res.torn = true
			err := scanBehind(r, size, s, seed, off+align, &res)
			return res, err
		}
		if err := visitFrames(buf, off+batchHeaderBytes, s, seed, &res, visit); err != nil {
			return res, err
		}
		res.end = off + batchHeaderBytes + h.length
		res.batches++
	}
	return res, nil
}

// verifyFrames says whether b is a whole sequence of frames that verify.
func verifyFrames(b []byte, seed uint32, off int64) bool {
	for len(b) > 0 {
		f, ok := getFrame(b, seed, off)
		if !ok {
			return false
		}
		b, off = b[f.size:], off+f.size
	}
	return true
}

func visitFrames(b []byte, off int64, s *segmentInfo, seed uint32, res *scanResult, visit visitor) error {
	for len(b) > 0 {
		f, _ := getFrame(b, seed, off)
		if f.kind == kindSeal {
			ws, ok := f.wordsOf(1)
			if !ok || ws[0] != s.number+1 {
				return &DamageError{Offset: off, Reason: "a seal that does not name the next segment"}
			}
			res.sealed = true
		} else if visit != nil {
			if err := visit(&f, off); err != nil {
				return &DamageError{Offset: off, Reason: err.Error()}
			}
		}
		b, off = b[f.size:], off+f.size
	}
	return nil
}

// scanBehind looks for valid batch headers from off to the end of the file and
// notes what they knew to be synced. Batches start at multiples of align, and a
// header names its own offset, so nothing else is taken for one.
func scanBehind(r io.ReaderAt, size int64, s *segmentInfo, seed uint32, off int64, res *scanResult) error {
	const chunk = 256 << 10
	buf := make([]byte, min(chunk, max(size-off, 0)))
	for off+batchHeaderBytes <= size {
		n := min(int64(len(buf)), size-off)
		if err := readFull(r, buf[:n], off); err != nil {
			return fmt.Errorf("reading behind offset %d: %w", res.end, err)
		}
		i := int64(0)
		for ; i+batchHeaderBytes <= n; i += align {
			if le.Uint64(buf[i:]) != s.salt {
				continue
			}
			if h, ok := getBatchHeader(buf[i:n], s, seed, off+i); ok {
				res.synced = max(res.synced, h.synced)
				res.torn = true
			}
		}
		off += i
	}
	return nil
}

package wal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// formatVersion is written to every segment and is the newest that is read.
const formatVersion = 1

const (
	segmentMagic     = "RUNNELWA"
	segmentHeader    = 64 // bytes before the table
	tableRow         = 88
	batchHeaderBytes = 32
	align            = 8
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	// errNoHeader says that a file does not start with a valid segment header:
	// it is a spare, or was never completed, or is damaged.
	errNoHeader = errors.New("no valid segment header")
)

// pad rounds n up to the alignment of frames and batches.
func pad[T int | int64](n T) T { return (n + align - 1) &^ (align - 1) }

// row is a replica's line of a segment's table.
type row struct {
	replica Replica
	hard    raftpb.HardState
	mark    Mark // the log starts after it
	last    Mark
	applied uint64
}

// segmentInfo is what a segment says of itself.
type segmentInfo struct {
	number  uint64
	cluster uint64
	// salt is drawn at random for each segment. It starts every batch header, so
	// neither the stale bytes of a recycled file nor bytes that a user chose are
	// ever taken for a batch.
	salt uint64
	rows []row
	live []uint64 // numbers of older segments that hold live entries, ascending
	end  int64    // offset of the first batch
}

// seed starts every checksum of the segment.
func (s *segmentInfo) seed() uint32 {
	var b [24]byte
	le.PutUint64(b[0:], s.salt)
	le.PutUint64(b[8:], s.number)
	le.PutUint64(b[16:], s.cluster)
	return crc32.Checksum(b[:], castagnoli)
}

// appendSegmentHeader encodes the header and the table, and sets end.
func appendSegmentHeader(buf []byte, s *segmentInfo) []byte {
	start := len(buf)
	table := len(s.rows)*tableRow + len(s.live)*8
	buf = append(buf, make([]byte, segmentHeader)...)
	for i := range s.rows {
		r := &s.rows[i]
		buf = le.AppendUint32(buf, r.replica.Group)
		buf = le.AppendUint32(buf, 0)
		for _, v := range [...]uint64{
			r.replica.ID, r.hard.Term, r.hard.Vote, r.hard.Commit,
			r.mark.Index, r.mark.Term, r.last.Index, r.last.Term, r.applied, 0,
		} {
			buf = le.AppendUint64(buf, v)
		}
	}
	for _, n := range s.live {
		buf = le.AppendUint64(buf, n)
	}
	h := buf[start:]
	copy(h, segmentMagic)
	le.PutUint32(h[8:], formatVersion)
	le.PutUint32(h[12:], segmentHeader)
	le.PutUint64(h[16:], s.number)
	le.PutUint64(h[24:], s.cluster)
	le.PutUint64(h[32:], s.salt)
	le.PutUint32(h[40:], uint32(table))
	le.PutUint32(h[44:], uint32(len(s.rows)))
	le.PutUint32(h[48:], uint32(len(s.live)))
	le.PutUint32(h[56:], crc32.Update(s.seed(), castagnoli, h[segmentHeader:]))
	le.PutUint32(h[60:], crc32.Update(s.seed(), castagnoli, h[:60]))
	s.end = segmentHeader + int64(table)
	return buf
}

// readSegmentHeader reads the header and the table. errNoHeader means that
// there is none that is valid; a *VersionError, that it is of a newer format.
func readSegmentHeader(r io.ReaderAt, size int64) (*segmentInfo, error) {
	if size < segmentHeader {
		return nil, errNoHeader
	}
	var h [segmentHeader]byte
	if err := readFull(r, h[:], 0); err != nil {
		return nil, err
	}
	if string(h[:8]) != segmentMagic {
		return nil, errNoHeader
	}
	// The version is judged before the checksum, which a newer format may
	// compute in another way.
	if v := le.Uint32(h[8:]); v > formatVersion {
		return nil, &VersionError{Found: v, Supported: formatVersion}
	}
	s := &segmentInfo{number: le.Uint64(h[16:]), cluster: le.Uint64(h[24:]), salt: le.Uint64(h[32:])}
	seed := s.seed()
	if crc32.Update(seed, castagnoli, h[:60]) != le.Uint32(h[60:]) ||
		le.Uint32(h[8:]) != formatVersion || le.Uint32(h[12:]) != segmentHeader {
		return nil, errNoHeader
	}
	table, rows, live := int64(le.Uint32(h[40:])), int64(le.Uint32(h[44:])), int64(le.Uint32(h[48:]))
	if table != rows*tableRow+live*8 || segmentHeader+table > size {
		return nil, errNoHeader
	}
	b := make([]byte, table)
	if err := readFull(r, b, segmentHeader); err != nil {
		return nil, err
	}
	if crc32.Update(seed, castagnoli, b) != le.Uint32(h[56:]) {
		return nil, errNoHeader
	}
	s.end = segmentHeader + table
	s.decodeTable(b, int(rows), int(live))
	return s, nil
}

func (s *segmentInfo) decodeTable(b []byte, rows, live int) {
	s.rows = make([]row, rows)
	for i := range s.rows {
		u := func(k int) uint64 { return le.Uint64(b[k*8:]) }
		s.rows[i] = row{
			replica: Replica{Group: le.Uint32(b), ID: u(1)},
			hard:    raftpb.HardState{Term: u(2), Vote: u(3), Commit: u(4)},
			mark:    Mark{Index: u(5), Term: u(6)},
			last:    Mark{Index: u(7), Term: u(8)},
			applied: u(9),
		}
		b = b[tableRow:]
	}
	s.live = make([]uint64, live)
	for i := range s.live {
		s.live[i] = le.Uint64(b[i*8:])
	}
}

// batchHeader starts every batch.
type batchHeader struct {
	offset int64 // of this header in its segment
	synced int64 // everything below was durable before this batch was written
	length int64 // of the frames
}

// put encodes the header into b[:batchHeaderBytes].
func (h batchHeader) put(b []byte, salt uint64, seed uint32) {
	le.PutUint64(b[0:], salt)
	le.PutUint64(b[8:], uint64(h.offset))
	le.PutUint64(b[16:], uint64(h.synced))
	le.PutUint32(b[24:], uint32(h.length))
	le.PutUint32(b[28:], crc32.Update(seed, castagnoli, b[:28]))
}

// getBatchHeader decodes a header that must lie at offset.
func getBatchHeader(b []byte, s *segmentInfo, seed uint32, offset int64) (batchHeader, bool) {
	if le.Uint64(b) != s.salt || le.Uint64(b[8:]) != uint64(offset) ||
		crc32.Update(seed, castagnoli, b[:28]) != le.Uint32(b[28:]) {
		return batchHeader{}, false
	}
	h := batchHeader{offset: offset, synced: int64(le.Uint64(b[16:])), length: int64(le.Uint32(b[24:]))}
	if h.synced < s.end || h.synced > offset || h.length%align != 0 {
		return batchHeader{}, false
	}
	return h, true
}

// readFull reads len(b) bytes at off; the caller knows that they exist.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

package stream

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Every stored record starts with its version. A flag bit or version that is
// not known is refused, never skipped.
const recordVersion = 1

// Flags of a stream record.
const (
	streamClosed = 1 << iota
	streamHasTTL
	streamHasAt
	streamHasPredecessor
	streamHasFloor
	streamFlags = 1<<iota - 1
)

// Flags of a producer record.
const (
	producerHasClosed = 1 << iota
	producerBelowFloor
	producerNewestClosed
	producerNewestDigest
	producerClaimDigest
	producerFlags = 1<<iota - 1
)

// AppendGroup appends g's stored form to dst.
func AppendGroup(dst []byte, g *Group) []byte {
	dst = append(dst, recordVersion)
	dst = binary.AppendUvarint(dst, g.Time)
	dst = binary.AppendUvarint(dst, g.LastCreated)
	dst = binary.AppendUvarint(dst, uint64(g.LastID))
	dst = binary.AppendUvarint(dst, uint64(len(g.Histories)))
	for _, h := range g.Histories {
		dst = binary.BigEndian.AppendUint64(dst, h)
	}
	return dst
}

// DecodeGroup reads a record written by AppendGroup. It keeps no reference to
// b. Errors: ErrUnsupported, ErrMalformed.
func DecodeGroup(b []byte) (*Group, error) {
	r := reader{b: b}
	r.version("group")
	g := &Group{Time: r.uvarint(), LastCreated: r.uvarint(), LastID: ID(r.uvarint())}
	n := r.uvarint()
	if n != uint64(len(r.b))/8 || len(r.b)%8 != 0 {
		r.fail(ErrMalformed)
	}
	if r.err != nil {
		return nil, fmt.Errorf("group record: %w", r.err)
	}
	if n > 0 {
		g.Histories = make([]uint64, n)
		for i := range g.Histories {
			g.Histories[i] = binary.BigEndian.Uint64(r.b[8*i:])
		}
	}
	return g, nil
}

// AppendStream appends s's stored form to dst: version, flags, numbers, the
// lengths of the strings, then the strings.
func AppendStream(dst []byte, s *Stream) []byte {
	var flags byte
	if s.Closed {
		flags |= streamClosed
	}
	if s.Expiry.HasTTL {
		flags |= streamHasTTL
	}
	if s.Expiry.AtText != "" {
		flags |= streamHasAt
	}
	if s.Predecessor != nil {
		flags |= streamHasPredecessor
	}
	if s.HasFloor {
		flags |= streamHasFloor
	}
	dst = append(dst, recordVersion, flags)
	dst = binary.AppendUvarint(dst, uint64(s.ID))
	dst = binary.AppendUvarint(dst, s.Created)
	dst = binary.AppendUvarint(dst, s.Tail)
	dst = binary.AppendUvarint(dst, s.Retained)
	dst = binary.AppendUvarint(dst, s.Touched)
	dst = binary.AppendUvarint(dst, uint64(s.Written))
	dst = binary.AppendUvarint(dst, uint64(s.Producers))
	if s.Expiry.HasTTL {
		dst = binary.AppendUvarint(dst, s.Expiry.TTL)
	}
	if s.Expiry.AtText != "" {
		dst = binary.AppendUvarint(dst, s.Expiry.At)
	}
	if s.Predecessor != nil {
		dst = binary.AppendUvarint(dst, uint64(s.Predecessor.History))
		dst = binary.AppendUvarint(dst, s.Predecessor.Tail)
	}
	if s.HasFloor {
		dst = binary.AppendUvarint(dst, s.Floor)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Key.Bucket)))
	dst = binary.AppendUvarint(dst, uint64(len(s.Key.Stream)))
	dst = binary.AppendUvarint(dst, uint64(len(s.ContentType)))
	dst = binary.AppendUvarint(dst, uint64(len(s.Seq)))
	dst = binary.AppendUvarint(dst, uint64(len(s.Expiry.AtText)))
	dst = append(dst, s.Key.Bucket...)
	dst = append(dst, s.Key.Stream...)
	dst = append(dst, s.ContentType...)
	dst = append(dst, s.Seq...)
	return append(dst, s.Expiry.AtText...)
}

// DecodeStream reads a record written by AppendStream. It keeps no reference
// to b. Errors: ErrUnsupported, ErrMalformed.
func DecodeStream(b []byte) (*Stream, error) {
	r := reader{b: b}
	r.version("stream")
	flags := r.flags(streamFlags)
	s := &Stream{
		ID:       ID(r.uvarint()),
		Created:  r.uvarint(),
		Tail:     r.uvarint(),
		Retained: r.uvarint(),
		Touched:  r.uvarint(),
		Written:  r.uint32(),
		Closed:   flags&streamClosed != 0,
	}
	s.Producers = r.uint32()
	if flags&streamHasTTL != 0 {
		s.Expiry.HasTTL, s.Expiry.TTL = true, r.uvarint()
	}
	if flags&streamHasAt != 0 {
		s.Expiry.At = r.uvarint()
	}
	if flags&streamHasPredecessor != 0 {
		s.Predecessor = &Predecessor{History: r.uint32(), Tail: r.uvarint()}
	}
	if flags&streamHasFloor != 0 {
		s.HasFloor, s.Floor = true, r.uvarint()
	}
	var lens [5]uint64
	for i := range lens {
		lens[i] = r.uvarint()
	}
	// One string backs all of the record's strings: an idle record costs two
	// allocations. It is made only after the lengths were found to fit.
	var texts [5]string
	r.strings(texts[:], lens[:])
	s.Key = Key{Bucket: texts[0], Stream: texts[1]}
	s.ContentType, s.Seq, s.Expiry.AtText = texts[2], texts[3], texts[4]
	if (flags&streamHasAt != 0) != (s.Expiry.AtText != "") {
		r.fail(ErrMalformed)
	}
	if r.err != nil {
		return nil, fmt.Errorf("stream record: %w", r.err)
	}
	return s, nil
}

// AppendProducer appends p's stored form to dst.
func AppendProducer(dst []byte, p *Producer) []byte {
	var flags byte
	if p.HasClosed {
		flags |= producerHasClosed
	}
	if p.OpenedBelowFloor {
		flags |= producerBelowFloor
	}
	if p.Newest.Closed {
		flags |= producerNewestClosed
	}
	if p.Newest.Digest.Given {
		flags |= producerNewestDigest
	}
	if p.Claim.Given {
		flags |= producerClaimDigest
	}
	dst = append(dst, recordVersion, flags)
	dst = binary.AppendUvarint(dst, p.Epoch)
	dst = binary.AppendUvarint(dst, p.Seq)
	dst = binary.AppendUvarint(dst, p.Newest.Start)
	dst = binary.AppendUvarint(dst, p.Newest.End)
	dst = binary.AppendUvarint(dst, uint64(p.ClaimHistory))
	dst = binary.AppendUvarint(dst, p.LastWrite)
	if p.HasClosed {
		dst = binary.AppendUvarint(dst, p.ClosedEpoch)
		dst = binary.AppendUvarint(dst, p.ClosedSeq)
	}
	if p.Newest.Digest.Given {
		dst = append(dst, p.Newest.Digest.Sum[:]...)
	}
	if p.Claim.Given {
		dst = append(dst, p.Claim.Sum[:]...)
	}
	return dst
}

// DecodeProducer reads a record written by AppendProducer. It keeps no
// reference to b. Errors: ErrUnsupported, ErrMalformed.
func DecodeProducer(b []byte) (*Producer, error) {
	r := reader{b: b}
	r.version("producer")
	flags := r.flags(producerFlags)
	p := &Producer{
		Epoch:            r.uvarint(),
		Seq:              r.uvarint(),
		Newest:           Receipt{Start: r.uvarint(), End: r.uvarint(), Closed: flags&producerNewestClosed != 0},
		ClaimHistory:     r.uint32(),
		LastWrite:        r.uvarint(),
		HasClosed:        flags&producerHasClosed != 0,
		OpenedBelowFloor: flags&producerBelowFloor != 0,
	}
	if p.HasClosed {
		p.ClosedEpoch, p.ClosedSeq = r.uvarint(), r.uvarint()
	}
	if flags&producerNewestDigest != 0 {
		p.Newest.Digest = r.digest()
	}
	if flags&producerClaimDigest != 0 {
		p.Claim = r.digest()
	}
	if len(r.b) != 0 {
		r.fail(ErrMalformed)
	}
	if r.err != nil {
		return nil, fmt.Errorf("producer record: %w", r.err)
	}
	return p, nil
}

// reader takes fields off the front of b. After its first error every read
// returns zero, so a decoder checks once.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail(ErrMalformed)
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) version(record string) {
	if v := r.byte(); v != recordVersion && r.err == nil {
		r.fail(fmt.Errorf("%s version %d: %w", record, v, ErrUnsupported))
	}
}

func (r *reader) flags(known byte) byte {
	f := r.byte()
	if f&^known != 0 {
		r.fail(fmt.Errorf("flags %#x: %w", f, ErrUnsupported))
	}
	return f
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(ErrMalformed)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint32() uint32 {
	v := r.uvarint()
	if v > math.MaxUint32 {
		r.fail(ErrMalformed)
		return 0
	}
	return uint32(v)
}

func (r *reader) digest() Digest {
	d := Digest{Given: true}
	if len(r.b) < len(d.Sum) {
		r.fail(ErrMalformed)
		return Digest{}
	}
	r.b = r.b[copy(d.Sum[:], r.b):]
	return d
}

// strings takes all that is left and cuts it by lens, which must use it up.
func (r *reader) strings(out []string, lens []uint64) {
	left := uint64(len(r.b))
	for _, n := range lens {
		if n > left {
			r.fail(ErrMalformed)
			return
		}
		left -= n
	}
	if left != 0 {
		r.fail(ErrMalformed)
		return
	}
	all := string(r.b)
	for i, n := range lens {
		out[i], all = all[:n], all[n:]
	}
	r.b = nil
}

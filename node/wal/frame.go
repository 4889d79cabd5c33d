package wal

import (
	"hash/crc32"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// frameKind says what a frame does. Values are on disk; 0 is never valid, so
// zeros are no frame.
type frameKind uint8

const (
	kindEntry    frameKind = 1 + iota // an entry: index, term, data
	kindPart                          // a piece of a large entry: index, term, position, data
	kindAssembly                      // a large entry: index, term, size, the places of its parts
	kindCommit                        // staged entries take effect: first index, last index
	kindState                         // the hard state: term, vote, commit
	kindReset                         // the log is dropped, goes on after: index, term
	kindApplied                       // the durable applied index
	kindForget                        // the replica is gone
	kindSeal                          // the segment ends; the next one's number
)

// Frame flags.
const (
	// flagStaged marks an entry that takes effect with a later commit frame.
	flagStaged = 1 << iota
	// flagBegin marks the first frame of a split Write. It drops what an earlier
	// one of the replica had staged and never committed.
	flagBegin
)

const (
	frameHeader   = 24
	entryPrefix   = 16 // index, term
	partPrefix    = 24 // index, term, position
	partPlace     = 24 // segment, offset, size of one part
	entryOverhead = frameHeader + entryPrefix
)

// frame is a decoded frame. payload aliases the buffer it was read from.
type frame struct {
	kind    frameKind
	flags   uint8
	etype   uint8
	replica Replica
	payload []byte
	size    int64 // on disk, padding included
}

// place says where a part of a large entry lies.
type place struct {
	segment uint64
	offset  int64
	size    uint32
}

// encoder builds one batch in memory. base is the batch's offset in the file.
type encoder struct {
	buf     []byte
	base    int64
	seed    uint32
	segment uint64
	start   int // of the frame that is being built
}

// reset starts a batch; the header's room is left at the front.
func (e *encoder) reset(buf []byte, segment uint64, base int64, seed uint32) {
	var zero [batchHeaderBytes]byte
	e.buf, e.segment, e.base, e.seed = append(buf[:0], zero[:]...), segment, base, seed
}

// empty says that no frame was added since reset.
func (e *encoder) empty() bool { return len(e.buf) == batchHeaderBytes }

// begin starts a frame and returns its offset in the file.
func (e *encoder) begin(k frameKind, flags, etype uint8, r Replica) int64 {
	e.start = len(e.buf)
	e.buf = append(e.buf, 0, 0, 0, 0, 0, 0, 0, 0, byte(k), flags, etype, 0)
	e.buf = le.AppendUint32(e.buf, r.Group)
	e.buf = le.AppendUint64(e.buf, r.ID)
	return e.base + int64(e.start)
}

func (e *encoder) u64(vs ...uint64) {
	for _, v := range vs {
		e.buf = le.AppendUint64(e.buf, v)
	}
}

// end pads the frame, and sets its length and checksum.
func (e *encoder) end() {
	var zero [align]byte
	n := len(e.buf) - e.start - frameHeader
	e.buf = append(e.buf, zero[:pad(n)-n]...)
	f := e.buf[e.start:]
	le.PutUint32(f[4:], uint32(n))
	le.PutUint32(f[0:], frameChecksum(f, e.seed, e.base+int64(e.start)))
}

// frameChecksum covers everything after the checksum, padding included. The
// offset is part of the seed, so a frame is valid only where it was written.
func frameChecksum(f []byte, seed uint32, off int64) uint32 {
	return crc32.Update(seed^uint32(off/align), castagnoli, f[4:])
}

func (e *encoder) entry(r Replica, flags uint8, ent *raftpb.Entry) int64 {
	off := e.begin(kindEntry, flags, uint8(ent.Type), r)
	e.u64(ent.Index, ent.Term)
	e.buf = append(e.buf, ent.Data...)
	e.end()
	return off
}

func (e *encoder) part(r Replica, flags uint8, ent *raftpb.Entry, pos, n int) place {
	off := e.begin(kindPart, flags, 0, r)
	e.u64(ent.Index, ent.Term, uint64(pos))
	e.buf = append(e.buf, ent.Data[pos:pos+n]...)
	e.end()
	return place{segment: e.segment, offset: off, size: uint32(n)}
}

func (e *encoder) assembly(r Replica, ent *raftpb.Entry, parts []place) int64 {
	off := e.begin(kindAssembly, flagStaged, uint8(ent.Type), r)
	e.u64(ent.Index, ent.Term, uint64(len(ent.Data)))
	for _, p := range parts {
		e.u64(p.segment, uint64(p.offset), uint64(p.size))
	}
	e.end()
	return off
}

// words adds a frame that is a list of numbers.
func (e *encoder) words(k frameKind, r Replica, vs ...uint64) {
	e.begin(k, 0, 0, r)
	e.u64(vs...)
	e.end()
}

// getFrame decodes and verifies the frame at the start of b, which lies at off
// of its segment.
func getFrame(b []byte, seed uint32, off int64) (frame, bool) {
	if len(b) < frameHeader {
		return frame{}, false
	}
	n := int64(le.Uint32(b[4:]))
	size := frameHeader + pad(n)
	if size > int64(len(b)) || frameChecksum(b[:size], seed, off) != le.Uint32(b) {
		return frame{}, false
	}
	return frame{
		kind: frameKind(b[8]), flags: b[9], etype: b[10],
		replica: Replica{Group: le.Uint32(b[12:]), ID: le.Uint64(b[16:])},
		payload: b[frameHeader : frameHeader+n],
		size:    size,
	}, true
}

// wordsOf returns the numbers of a frame that must hold exactly n of them.
func (f *frame) wordsOf(n int) ([4]uint64, bool) {
	var vs [4]uint64
	if len(f.payload) != n*8 {
		return vs, false
	}
	for i := range n {
		vs[i] = le.Uint64(f.payload[i*8:])
	}
	return vs, true
}

// entryRef returns the ref of an entry or assembly frame; ok is false when the
// payload is too short for its kind.
func (f *frame) entryRef(segment uint64, off int64) (Ref, bool) {
	r := Ref{Segment: segment, Offset: off}
	switch {
	case f.kind == kindEntry && len(f.payload) >= entryPrefix:
		r.Size = uint32(len(f.payload) - entryPrefix)
	case f.kind == kindAssembly && len(f.payload) >= partPrefix && (len(f.payload)-partPrefix)%partPlace == 0 &&
		le.Uint64(f.payload[16:]) <= MaxEntryBytes:
		r.Size = uint32(le.Uint64(f.payload[16:]))
	default:
		return Ref{}, false
	}
	r.Index, r.Term = le.Uint64(f.payload), le.Uint64(f.payload[8:])
	return r, true
}

// Sizes on disk, for planning a round.
func entryBytes(ent *raftpb.Entry) int64 { return pad(entryOverhead + int64(len(ent.Data))) }

func wordsBytes(n int64) int64 { return frameHeader + n*8 }

func (w *Write) frameBytes() int64 {
	var n int64
	for i := range w.Entries {
		n += entryBytes(&w.Entries[i])
	}
	if w.Reset != nil {
		n += wordsBytes(2)
	}
	if w.State != nil {
		n += wordsBytes(3)
	}
	if w.Applied != 0 {
		n += wordsBytes(1)
	}
	return n
}

package wal

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

const (
	// readAhead bounds what one read of a single frame takes beyond its header.
	readAhead = 64 << 10
	// readWindow bounds one read of neighbouring entries.
	readWindow = 1 << 20
)

// Read returns one entry. It verifies the checksum and that the frame is the
// one that the ref names. The data is the caller's.
func (l *Log) Read(ref Ref) (raftpb.Entry, error) {
	s, err := l.acquire(ref.Segment)
	if err != nil {
		return raftpb.Entry{}, err
	}
	defer func() { _ = s.release() }() // closing has nothing to lose
	f, err := s.readFrame(ref.Offset, int64(ref.Size)+entryPrefix)
	if err != nil {
		return raftpb.Entry{}, err
	}
	return l.entry(s, &f, ref)
}

// ReadRange returns the entries of refs in order, as many as fit in maxBytes of
// data, and at least one. Neighbours are read together, and their data shares
// memory.
func (l *Log) ReadRange(refs []Ref, maxBytes uint64) ([]raftpb.Entry, error) {
	n, sum := 0, uint64(0)
	for n < len(refs) && (n == 0 || sum+uint64(refs[n].Size) <= maxBytes) {
		sum += uint64(refs[n].Size)
		n++
	}
	refs = refs[:n]
	ents := make([]raftpb.Entry, 0, n)
	for len(refs) > 0 {
		k := neighbours(refs)
		var err error
		if ents, err = l.readRun(ents, refs[:k]); err != nil {
			return nil, err
		}
		refs = refs[k:]
	}
	return ents, nil
}

// neighbours returns how many of the first refs lie close enough together to
// be read at once.
func neighbours(refs []Ref) int {
	k := 1
	for k < len(refs) {
		prev, next := refs[k-1], refs[k]
		if next.Segment != refs[0].Segment || next.Offset <= prev.Offset ||
			next.Offset-prev.Offset > readAhead || next.Offset-refs[0].Offset > readWindow {
			break
		}
		k++
	}
	return k
}

func (l *Log) readRun(ents []raftpb.Entry, refs []Ref) ([]raftpb.Entry, error) {
	s, err := l.acquire(refs[0].Segment)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.release() }() // closing has nothing to lose
	first := refs[0].Offset
	window := make([]byte, refs[len(refs)-1].Offset-first)
	if err := readFull(s.file, window, first); err != nil {
		return nil, fmt.Errorf("wal: read %s at offset %d: %w", s.name, first, err)
	}
	for i, ref := range refs {
		var f frame
		if i < len(refs)-1 {
			var ok bool
			if f, ok = getFrame(window[ref.Offset-first:], s.seed, ref.Offset); !ok {
				return nil, &DamageError{File: s.name, Offset: ref.Offset, Reason: "checksum of an entry"}
			}
		} else if f, err = s.readFrame(ref.Offset, int64(ref.Size)+entryPrefix); err != nil {
			return nil, err
		}
		ent, err := l.entry(s, &f, ref)
		if err != nil {
			return nil, err
		}
		ents = append(ents, ent)
	}
	return ents, nil
}

// acquire returns an open segment; the caller releases it.
func (l *Log) acquire(number uint64) (*segment, error) {
	l.segMu.RLock()
	defer l.segMu.RUnlock()
	s := l.segments[number]
	if s == nil {
		return nil, fmt.Errorf("%w: segment %d was released", ErrGone, number)
	}
	s.users.Add(1)
	return s, nil
}

// readFrame reads and verifies the frame at off. hint is the expected payload.
func (s *segment) readFrame(off, hint int64) (frame, error) {
	b := make([]byte, frameHeader+pad(min(hint, readAhead)))
	n, err := s.file.ReadAt(b, off)
	if n < frameHeader {
		if err == nil {
			err = errors.New("short read")
		}
		return frame{}, fmt.Errorf("wal: read %s at offset %d: %w", s.name, off, err)
	}
	size := frameHeader + pad(int64(le.Uint32(b[4:])))
	// The length is not verified yet, so it is bounded by the file before memory
	// is taken for it.
	if size > int64(n) {
		fi, err := s.file.Stat()
		if err != nil {
			return frame{}, fmt.Errorf("wal: stat %s: %w", s.name, err)
		}
		if off+size > fi.Size() {
			return frame{}, &DamageError{File: s.name, Offset: off, Reason: "a frame beyond the end of the file"}
		}
		grown := make([]byte, size)
		have := copy(grown, b[:n])
		if err := readFull(s.file, grown[have:], off+int64(have)); err != nil {
			return frame{}, fmt.Errorf("wal: read %s at offset %d: %w", s.name, off, err)
		}
		b = grown
	}
	f, ok := getFrame(b, s.seed, off)
	if !ok {
		return frame{}, &DamageError{File: s.name, Offset: off, Reason: "checksum of a frame"}
	}
	return f, nil
}

// entry turns the frame of a ref into the entry.
func (l *Log) entry(s *segment, f *frame, ref Ref) (raftpb.Entry, error) {
	got, ok := f.entryRef(ref.Segment, ref.Offset)
	if !ok || got != ref {
		return raftpb.Entry{}, &DamageError{File: s.name, Offset: ref.Offset, Reason: "a frame that is not the entry it should be"}
	}
	ent := raftpb.Entry{Index: ref.Index, Term: ref.Term, Type: raftpb.EntryType(f.etype)}
	if f.kind == kindEntry {
		if ref.Size > 0 {
			ent.Data = f.payload[entryPrefix:len(f.payload):len(f.payload)]
		}
		return ent, nil
	}
	data, err := l.assemble(f, ref)
	if err != nil {
		return raftpb.Entry{}, err
	}
	ent.Data = data
	return ent, nil
}

// assemble reads the parts that an assembly frame names.
func (l *Log) assemble(f *frame, ref Ref) ([]byte, error) {
	sum := uint64(0)
	for b := f.payload[partPrefix:]; len(b) > 0; b = b[partPlace:] {
		sum += uint64(le.Uint32(b[16:]))
	}
	if sum != uint64(ref.Size) {
		return nil, &DamageError{File: segmentName(ref.Segment), Offset: ref.Offset, Reason: "parts that do not make up the entry"}
	}
	data := make([]byte, 0, ref.Size)
	for b := f.payload[partPrefix:]; len(b) > 0; b = b[partPlace:] {
		p := place{segment: le.Uint64(b), offset: int64(le.Uint64(b[8:])), size: le.Uint32(b[16:])}
		s, err := l.acquire(p.segment)
		if err != nil {
			return nil, err
		}
		data, err = s.readPart(data, f.replica, ref, p)
		_ = s.release()
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

func (s *segment) readPart(data []byte, r Replica, ref Ref, p place) ([]byte, error) {
	f, err := s.readFrame(p.offset, int64(p.size)+partPrefix)
	if err != nil {
		return nil, err
	}
	if f.kind != kindPart || f.replica != r || len(f.payload) != partPrefix+int(p.size) ||
		le.Uint64(f.payload) != ref.Index || le.Uint64(f.payload[8:]) != ref.Term ||
		le.Uint64(f.payload[16:]) != uint64(len(data)) || len(data)+int(p.size) > int(ref.Size) {
		return nil, &DamageError{File: s.name, Offset: p.offset, Reason: "a frame that is not the part it should be"}
	}
	return append(data, f.payload[partPrefix:]...), nil
}

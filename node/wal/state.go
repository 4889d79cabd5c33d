package wal

import (
	"sort"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// span is a run of a replica's entries that need the same segments: all from
// pin to top. For an ordinary entry both are the segment of its frame; for an
// entry of a split Write they are the segments of the Write's first and last
// frame, because recovery needs all that lies between.
type span struct {
	lo, hi   uint64 // indexes, inclusive
	pin, top uint64
}

// termRun says that entries from an index on have a term.
type termRun struct{ from, term uint64 }

// replicaState is what the log knows of one replica. It is changed in the order
// of the frames, by the writer and by recovery alike.
type replicaState struct {
	hard    raftpb.HardState
	mark    Mark // the log starts after it
	last    Mark
	applied uint64
	spans   []span    // contiguous from mark.Index+1 to last.Index
	terms   []termRun // ascending
}

// accepts says whether entries from index on can be written.
func (s *replicaState) accepts(index uint64) bool {
	return index > s.mark.Index && index <= s.last.Index+1
}

// append adds an entry and drops what was at or above its index.
func (s *replicaState) append(index, term, pin, top uint64) {
	if index <= s.last.Index {
		s.truncate(index)
	}
	if n := len(s.terms); n == 0 || s.terms[n-1].term != term {
		s.terms = append(s.terms, termRun{from: index, term: term})
	}
	if n := len(s.spans); n > 0 && s.spans[n-1].pin == pin && s.spans[n-1].top == top {
		s.spans[n-1].hi = index
	} else {
		s.spans = append(s.spans, span{lo: index, hi: index, pin: pin, top: top})
	}
	s.last = Mark{Index: index, Term: term}
}

// truncate drops the entries at and above index, which is above the mark.
func (s *replicaState) truncate(index uint64) {
	for n := len(s.spans); n > 0; n = len(s.spans) {
		if s.spans[n-1].lo < index {
			s.spans[n-1].hi = min(s.spans[n-1].hi, index-1)
			break
		}
		s.spans = s.spans[:n-1]
	}
	for n := len(s.terms); n > 0 && s.terms[n-1].from >= index; n = len(s.terms) {
		s.terms = s.terms[:n-1]
	}
	s.last = Mark{Index: index - 1, Term: s.mark.Term}
	if n := len(s.terms); n > 0 {
		s.last.Term = s.terms[n-1].term
	}
}

// reset drops the whole log.
func (s *replicaState) reset(m Mark) {
	s.mark, s.last = m, m
	s.spans, s.terms = nil, nil
}

// cut drops the entries up to index. What is not there is not cut.
func (s *replicaState) cut(index uint64) {
	index = min(index, s.last.Index)
	if index <= s.mark.Index {
		return
	}
	n := sort.Search(len(s.terms), func(i int) bool { return s.terms[i].from > index })
	s.mark = Mark{Index: index, Term: s.terms[n-1].term}
	s.terms = append(s.terms[:0], s.terms[n-1:]...)
	k := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].hi > index })
	s.spans = append(s.spans[:0], s.spans[k:]...)
	if len(s.spans) > 0 {
		s.spans[0].lo = max(s.spans[0].lo, index+1)
	} else {
		s.terms = s.terms[:0]
	}
}

// pins calls f with each range of segments that the replica needs.
func (s *replicaState) pins(f func(pin, top uint64)) {
	for i := range s.spans {
		f(s.spans[i].pin, s.spans[i].top)
	}
}

package wal

// split is a Write that is too large for one round. Its entries are staged
// round by round and take effect with a commit frame in the last one, together
// with its other parts: the hard state never precedes the entries. Later
// operations of the same replica wait behind it, those of others do not.
type split struct {
	write   *Write
	begun   bool
	pin     uint64 // segment of the first staged frame
	next    int    // the entry that is being staged
	sent    int    // its bytes that lie in parts
	parts   []place
	waiting []op
}

func (l *Log) splitOf(r Replica) *split {
	for _, s := range l.splits {
		if s.write.Replica == r {
			return s
		}
	}
	return nil
}

// advance adds the split's next frames, about budget bytes, to the batch.
func (l *Log) advance(e *encoder, s *split, budget int64) {
	w := s.write
	if !s.begun {
		if w.Err = w.check(l.replicas[w.Replica]); w.Err != nil {
			l.endSplit(s)
			return
		}
		s.begun, s.pin, w.Refs = true, e.segment, w.Refs[:0]
	}
	if !s.stage(e, budget, l.opts.MaxWriteBytes/2) {
		// Another large Write has the next turn.
		l.splits = append(l.splits[1:], s)
		return
	}
	st := l.replica(w.Replica)
	l.encodeReset(e, w, st)
	first, last := w.Entries[0].Index, w.Entries[len(w.Entries)-1].Index
	e.words(kindCommit, w.Replica, first, last)
	for i := range w.Entries {
		st.append(w.Entries[i].Index, w.Entries[i].Term, s.pin, e.segment)
	}
	l.encodeState(e, w, st)
	l.endSplit(s)
}

// endSplit completes the first split and lets what waited behind it go on.
func (l *Log) endSplit(s *split) {
	l.finished = append(l.finished, s.write)
	l.splits = l.splits[1:]
	l.pending.Add(-1) // it is none of the round's own operations
	l.ready = append(s.waiting, l.ready...)
}

// stage adds staged frames up to the budget and says whether all entries are
// staged. Entries of more than whole bytes are written in parts.
func (s *split) stage(e *encoder, budget, whole int64) bool {
	w := s.write
	start := len(e.buf)
	room := func() int64 { return budget - int64(len(e.buf)-start) }
	for s.next < len(w.Entries) {
		ent := &w.Entries[s.next]
		flags := uint8(flagStaged)
		if s.next == 0 && s.sent == 0 {
			flags |= flagBegin
		}
		var off int64
		if n := entryBytes(ent); n <= whole {
			if n > room() {
				return false
			}
			off = e.entry(w.Replica, flags, ent)
		} else {
			if s.sent < len(ent.Data) {
				n := min(int64(len(ent.Data)-s.sent), room()-frameHeader-partPrefix-align)
				if n < min(int64(len(ent.Data)-s.sent), MinMaxWriteBytes/4) {
					return false
				}
				s.parts = append(s.parts, e.part(w.Replica, flags, ent, s.sent, int(n)))
				s.sent += int(n)
				continue
			}
			off = e.assembly(w.Replica, ent, s.parts)
			s.parts = s.parts[:0]
		}
		w.Refs = append(w.Refs, Ref{
			Index: ent.Index, Term: ent.Term, Segment: e.segment, Offset: off, Size: uint32(len(ent.Data)),
		})
		s.next, s.sent = s.next+1, 0
	}
	return true
}

package stream

import "runnel.dev/runnel/node/protocol"

// append decides a write in the order of extensions 5.3: the stream, the
// producer rules, closure, content, and last Stream-Seq. The first step that
// refuses decides the answer, and a refused write changes nothing.
func (t *Tx) append(c *Command, now uint64) (Result, error) {
	e, err := t.live(c.Key, now)
	if err != nil {
		return Result{}, err
	}
	s := e.cur
	if s == nil {
		return Result{Outcome: NotFound}, nil
	}
	var p *producerEntry
	if c.Producer != nil {
		if p, err = t.producer(e, c.Producer.ID); err != nil {
			return Result{}, err
		}
		if r, decided := checkProducer(p.cur, c.Producer); decided {
			if r.Outcome == Duplicate {
				t.renew(e, now)
			}
			r.Stream, r.Producer = e.cur, p.cur
			return r, nil
		}
	}
	if s.Closed && p == nil && c.closeOnly() {
		// Closing again is the same answer again, and it renews like any write.
		t.renew(e, now)
		return Result{Outcome: Appended, Stream: e.cur, Start: s.Tail, End: s.Tail, ClosedByWrite: true}, nil
	}
	r := Result{Stream: s}
	if p != nil {
		r.Producer = p.cur
	}
	if r.Outcome, r.Fault = checkContent(s, c); r.Outcome != 0 {
		return r, nil
	}

	next := *s
	t.write(&next, c, now)
	r = Result{Outcome: Appended, Stream: &next, Start: s.Tail, End: next.Tail, ClosedByWrite: c.Close}
	if p != nil {
		if p.cur == nil {
			next.Producers++
		}
		rec := t.advance(p.cur, c.Producer, Receipt{Start: r.Start, End: r.End, Closed: c.Close, Digest: c.Producer.Digest}, now)
		t.putProducer(p, rec)
		r.Producer = rec
	}
	t.put(e, &next)
	return r, nil
}

// checkContent returns why a write that the producer rules let through does
// not apply; the zero Outcome when it does.
func checkContent(s *Stream, c *Command) (Outcome, Fault) {
	if s.Closed {
		return StreamClosed, FaultNone
	}
	if !c.closeOnly() {
		switch {
		case c.Fault == FaultMissingContentType, c.MediaType == "" && len(c.Payload) > 0 && c.Fault == FaultNone:
			return ContentFault, FaultMissingContentType
		case c.MediaType != "" && c.MediaType != s.ContentType && c.MediaType != protocol.MediaType(s.ContentType):
			return TypeMismatch, FaultNone
		case c.Fault != FaultNone:
			return ContentFault, c.Fault
		case len(c.Payload) == 0:
			// Not closeOnly, so the write asks for nothing at all.
			return ContentFault, FaultEmptyBody
		}
	}
	if c.Seq != "" && c.Seq <= s.Seq {
		return SeqConflict, FaultNone
	}
	if uint64(len(c.Payload)) > MaxOffset-s.Tail {
		return OutOfRange, FaultNone
	}
	return 0, FaultNone
}

// closeOnly says that the write closes and brings no bytes. Its content type,
// even a wrong one, does not matter.
func (c *Command) closeOnly() bool {
	return c.Close && len(c.Payload) == 0 && c.Fault == FaultNone
}

// write changes s, a copy, as an accepted append or close does.
func (t *Tx) write(s *Stream, c *Command, now uint64) {
	if len(c.Payload) > 0 {
		// The bytes now change in this history: what the stream was in the one
		// before it is fixed by this first write.
		if h := t.history(); s.Written != h {
			s.Predecessor = &Predecessor{History: s.Written, Tail: s.Tail}
			s.Written = h
		}
		t.appends = append(t.appends, Append{Stream: s.ID, Offset: s.Tail, Data: c.Payload})
		s.Tail += uint64(len(c.Payload))
	}
	if c.Seq != "" {
		s.Seq = c.Seq
	}
	s.Closed = c.Close
	s.Touched = now
}

package jsontext

import "slices"

// Boundary reports that an offset whose preceding stored byte is b lies between
// messages. A stream's first offset is a boundary as well.
func Boundary(b byte) bool { return b == '\n' }

// Normalize validates body as one JSON text and appends its messages to dst in
// stored form. A top-level array is flattened one level, each of its elements
// is a message, and [] gives none; any other value is one message. messages
// counts them.
//
// On an error, a *Error, nothing is appended: out is dst at its old length. dst
// must not overlap body.
func Normalize(dst, body []byte) (out []byte, messages int, err error) {
	s := scanner{body: body, out: slices.Grow(dst, len(body)+1)}
	if messages, ok := s.text(); ok {
		return s.out, messages, nil
	}
	return dst, 0, &Error{Offset: s.pos, Reason: s.reason}
}

// scanner walks a body once. Bytes from run to pos belong to the current
// message and are not yet copied: whitespace ends a run, and a message without
// whitespace is one copy.
type scanner struct {
	body   []byte
	out    []byte
	pos    int
	run    int
	reason Reason
	depth  int
	// objects holds one bit for each open container: set for an object. Its size
	// is what bounds the scan, whatever the body nests.
	objects [MaxDepth/64 + 1]uint64
}

func (s *scanner) fail(r Reason) bool {
	s.reason = r
	return false
}

// failHere is for a byte that may also be missing.
func (s *scanner) failHere(r Reason) bool {
	if s.pos >= len(s.body) {
		r = Truncated
	}
	return s.fail(r)
}

func (s *scanner) text() (messages int, ok bool) {
	s.skip()
	if s.pos == len(s.body) {
		return 0, s.fail(NothingPresent)
	}
	if s.body[s.pos] == '[' {
		messages, ok = s.elements()
	} else {
		messages, ok = 1, s.message()
	}
	if !ok {
		return 0, false
	}
	s.skip()
	if s.pos < len(s.body) {
		return 0, s.fail(TrailingData)
	}
	return messages, true
}

// elements reads a top-level array, each element as a message.
func (s *scanner) elements() (messages int, ok bool) {
	s.pos++
	s.skip()
	if s.next(']') {
		return 0, true
	}
	for {
		if !s.message() {
			return 0, false
		}
		messages++
		s.skip()
		if s.next(']') {
			return messages, true
		}
		if !s.next(',') {
			return 0, s.failHere(Unexpected)
		}
	}
}

// next consumes c if it is the next byte.
func (s *scanner) next(c byte) bool {
	if s.pos < len(s.body) && s.body[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// skip passes whitespace between messages, where there is no run to keep.
func (s *scanner) skip() {
	for s.pos < len(s.body) && isSpace(s.body[s.pos]) {
		s.pos++
	}
}

// message reads one value and appends it with its LF.
func (s *scanner) message() bool {
	s.skip()
	s.run = s.pos
	if !s.value() {
		return false
	}
	s.out = append(append(s.out, s.body[s.run:s.pos]...), '\n')
	return true
}

// trim passes whitespace inside a message: the run before it is copied, and the
// next one starts behind it.
func (s *scanner) trim() {
	if s.pos == len(s.body) || s.body[s.pos] > ' ' {
		return
	}
	s.out = append(s.out, s.body[s.run:s.pos]...)
	s.skip()
	s.run = s.pos
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

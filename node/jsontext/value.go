package jsontext

// value reads one value of any depth up to MaxDepth, its containers tracked by
// the bit stack. It starts at the value's first byte.
func (s *scanner) value() bool {
	for {
		// Here a value begins.
		closed := false
		switch c := s.at(); {
		case c == '"':
			if !s.str() {
				return false
			}
		case c == '{':
			if !s.open(true) {
				return false
			}
			if closed = s.next('}'); !closed && !s.member() {
				return false
			}
			if !closed {
				continue
			}
		case c == '[':
			if !s.open(false) {
				return false
			}
			if closed = s.next(']'); !closed {
				continue
			}
		case c == '-' || c-'0' <= 9:
			if !s.number() {
				return false
			}
		default:
			if !s.literal(c) {
				return false
			}
		}
		if closed {
			s.depth--
		}
		// Here a value has ended.
		more, ok := s.after()
		if !more {
			return ok
		}
	}
}

// after goes on behind a value: out of the containers that end there, to the
// next value if there is one. Without more, ok says whether the message ended
// well.
func (s *scanner) after() (more, ok bool) {
	for s.depth > 0 {
		s.trim()
		object := s.objects[s.depth/64]&(1<<(s.depth%64)) != 0
		switch c := s.at(); {
		case c == ',':
			s.pos++
			s.trim()
			if object {
				return s.member(), false
			}
			return true, true
		case c == '}' && object || c == ']' && !object:
			s.pos++
			s.depth--
		default:
			return false, s.failHere(Unexpected)
		}
	}
	return false, true
}

// at returns the next byte; 0, which no rule allows, at the end.
func (s *scanner) at() byte {
	if s.pos < len(s.body) {
		return s.body[s.pos]
	}
	return 0
}

// open enters a container, up to its first byte inside.
func (s *scanner) open(object bool) bool {
	if s.depth == MaxDepth {
		return s.fail(TooDeep)
	}
	s.depth++
	word, bit := s.depth/64, uint64(1)<<(s.depth%64)
	if object {
		s.objects[word] |= bit
	} else {
		s.objects[word] &^= bit
	}
	s.pos++
	s.trim()
	return true
}

// member reads an object member up to its value.
func (s *scanner) member() bool {
	if s.at() != '"' {
		return s.failHere(Unexpected)
	}
	if !s.str() {
		return false
	}
	s.trim()
	if !s.next(':') {
		return s.failHere(Unexpected)
	}
	s.trim()
	return true
}

func (s *scanner) literal(c byte) bool {
	word := ""
	switch c {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	case 'n':
		word = "null"
	default:
		return s.failHere(Unexpected)
	}
	for i := range len(word) {
		if s.at() != word[i] {
			return s.failHere(Unexpected)
		}
		s.pos++
	}
	return true
}

// number reads a number: no plus, no leading zero, digits on both sides of the
// point and in the exponent.
func (s *scanner) number() bool {
	s.next('-')
	if !s.next('0') && !s.digits() {
		return s.failHere(BadNumber)
	}
	if s.next('.') && !s.digits() {
		return s.failHere(BadNumber)
	}
	if s.next('e') || s.next('E') {
		if !s.next('+') {
			s.next('-')
		}
		if !s.digits() {
			return s.failHere(BadNumber)
		}
	}
	// A digit here follows a leading zero.
	if c := s.at(); c-'0' <= 9 {
		return s.fail(BadNumber)
	}
	return true
}

// digits reads digits and reports that there was one.
func (s *scanner) digits() bool {
	from := s.pos
	for s.pos < len(s.body) && s.body[s.pos]-'0' <= 9 {
		s.pos++
	}
	return s.pos > from
}

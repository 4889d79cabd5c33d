package jsontext

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// str reads a string from its opening quote to behind its closing one.
func (s *scanner) str() bool {
	s.pos++
	for {
		s.pos = plain(s.body, s.pos)
		if s.pos == len(s.body) {
			return s.fail(Truncated)
		}
		switch c := s.body[s.pos]; {
		case c == '"':
			s.pos++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return s.fail(ControlChar)
		default:
			if !s.runes() {
				return false
			}
		}
	}
}

// runes reads characters outside ASCII, which come in runs.
func (s *scanner) runes() bool {
	for s.pos < len(s.body) && s.body[s.pos] >= utf8.RuneSelf {
		_, n := utf8.DecodeRune(s.body[s.pos:])
		if n == 1 {
			return s.fail(BadUTF8)
		}
		s.pos += n
	}
	return true
}

// escape reads an escape from its backslash. A \u escape may name half of a
// surrogate pair: strings are kept as text, never decoded.
func (s *scanner) escape() bool {
	s.pos++
	switch s.at() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return true
	case 'u':
		s.pos++
		for range 4 {
			if !isHex(s.at()) {
				return s.failHere(BadEscape)
			}
			s.pos++
		}
		return true
	}
	return s.failHere(BadEscape)
}

func isHex(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// plain returns the index of the first byte of b at or behind i that ends a run
// of plain string bytes: a quote, a backslash, a control character or a byte
// outside ASCII; len(b) when there is none. It looks at eight bytes at a time.
func plain(b []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		// The high bit of a byte is set where a subtraction borrowed. A borrow may
		// spill into higher bytes, never into the lowest that matters.
		hit := (w | (w - ones*' ') | (quote - ones) | (slash - ones)) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

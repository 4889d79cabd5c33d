package bench

import (
	"bytes"
	"strconv"
	"time"
)

// A mark is the time an event was sent, inside its payload: '@', 19 digits of
// Unix nanoseconds, '@'. It survives any framing that keeps the payload's text,
// so one scanner reads text, JSON arrays and NDJSON.
const (
	markDigits = 19
	markLen    = markDigits + 2
)

func appendMark(dst []byte, t time.Time) []byte {
	dst = append(dst, '@')
	dst = strconv.AppendInt(dst, t.UnixNano(), 10)
	return append(dst, '@')
}

// markScanner finds marks in pieces of payload, also across pieces.
type markScanner struct {
	carry  [markLen - 1]byte
	n      int
	onMark func(sent time.Time)
}

func (m *markScanner) feed(p []byte) {
	for len(p) > 0 {
		if m.n == 0 {
			i := bytes.IndexByte(p, '@')
			if i < 0 {
				return
			}
			p = p[i:]
		}
		c := p[0]
		p = p[1:]
		switch {
		case c == '@' && m.n == markLen-1:
			m.n = 0
			if ns, err := strconv.ParseInt(string(m.carry[1:]), 10, 64); err == nil {
				m.onMark(time.Unix(0, ns))
			}
		case c == '@':
			m.carry[0], m.n = c, 1
		case c >= '0' && c <= '9' && m.n < markLen-1:
			m.carry[m.n] = c
			m.n++
		default:
			m.n = 0
		}
	}
}

// maxControl bounds what is kept of a line that is no payload.
const maxControl = 4 << 10

// sseScanner reads a stream of server-sent events in pieces of any size: the
// payload of data events goes to the mark scanner, control events to onControl.
type sseScanner struct {
	marks     markScanner
	onControl func(data []byte)
	line      []byte
	data      bool // the current event is a data event
	payload   bool // the current line is payload of a data event
	control   bool // the current event is a control event
}

var (
	prefixData  = []byte("data:")
	prefixEvent = []byte("event:")
)

func (s *sseScanner) feed(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			s.part(p)
			return
		}
		s.part(p[:i])
		s.endLine()
		p = p[i+1:]
	}
}

// part takes a part of a line.
func (s *sseScanner) part(p []byte) {
	if !s.payload {
		s.line = append(s.line, p[:min(len(p), maxControl-len(s.line))]...)
		if !s.data || !bytes.HasPrefix(s.line, prefixData) {
			return
		}
		s.payload = true
		p = s.line[len(prefixData):]
	}
	s.marks.feed(p)
}

func (s *sseScanner) endLine() {
	line := bytes.TrimSuffix(s.line, []byte("\r"))
	switch {
	case s.payload:
	case len(line) == 0:
		s.data, s.control = false, false
	case bytes.HasPrefix(line, prefixEvent):
		name := string(bytes.TrimSpace(line[len(prefixEvent):]))
		s.data, s.control = name == "data", name == "control"
	case s.control && bytes.HasPrefix(line, prefixData):
		s.onControl(bytes.TrimSpace(line[len(prefixData):]))
	}
	s.line, s.payload = s.line[:0], false
}

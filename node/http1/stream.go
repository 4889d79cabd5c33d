package http1

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// chunkHead is room for a chunk's size line: eight hexadecimal digits and CRLF.
const chunkHead = 10

// stream is the lean StreamWriter. What is written collects in the connection's
// output as one open chunk, which Flush closes.
type stream struct {
	c       *conn // nil when the exchange streams nothing
	open    int   // where the open chunk's head begins in the output, -1 for none
	chunked bool
	discard bool // the answer has no body
	err     error
}

func (e *exchange) Stream(status int) StreamWriter {
	v10 := e.req.Minor == 0
	none := e.req.Method == "HEAD" || bodyless(status)
	if v10 && !none {
		e.closing = true
	}
	e.head(status)
	s := e.c.s
	if !v10 && !bodyless(status) {
		s.out = append(s.out, "Transfer-Encoding: chunked\r\n"...)
	}
	s.out = append(s.out, '\r', '\n')
	e.stream = stream{c: e.c, open: -1, chunked: !v10, discard: none}
	return &e.stream
}

func (w *stream) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.discard {
		return len(p), nil
	}
	s := w.c.s
	limit := w.c.srv.limits.StreamBufferBytes
	for done := 0; ; {
		if done == len(p) {
			return done, nil
		}
		if w.chunked && w.open < 0 {
			w.open = len(s.out)
			s.out = append(s.out, "00000000\r\n"...)
		}
		n := min(len(p)-done, max(1, limit-len(s.out)))
		s.out = append(s.out, p[done:done+n]...)
		done += n
		if len(s.out) >= limit {
			if err := w.Flush(); err != nil {
				return done, err
			}
		}
	}
}

func (w *stream) Flush() error {
	if w.err != nil {
		return w.err
	}
	w.closeChunk()
	if err := w.c.flush(); err != nil {
		w.err = streamError(err)
		return w.err
	}
	return nil
}

// closeChunk writes the size of the open chunk into the room before it, without
// leading zeros: what precedes moves up to it.
func (w *stream) closeChunk() {
	if w.open < 0 {
		return
	}
	s := w.c.s
	size := len(s.out) - w.open - chunkHead
	var digits [8]byte
	d := strconv.AppendInt(digits[:0], int64(size), 16)
	at := w.open + 8 - len(d)
	copy(s.out[at:], d)
	if gap := at - w.open; gap > 0 {
		s.out = slices.Delete(s.out, w.open, at)
	}
	s.out = append(s.out, '\r', '\n')
	w.open = -1
}

func (w *stream) SetWriteDeadline(t time.Time) error {
	if w.err != nil {
		return w.err
	}
	w.c.writeArmed = time.Time{}
	w.c.s.ex.ownWriteDeadline = !t.IsZero()
	return w.c.nc.SetWriteDeadline(t)
}

func (w *stream) Abort() {
	w.err = ErrStreamEnded
	w.open = -1
	w.c.s.out = w.c.s.out[:0]
	w.c.writeErr = ErrStreamEnded
}

// end completes the answer. Sending it is left to the connection.
func (w *stream) end() {
	if w.err != nil {
		return
	}
	w.closeChunk()
	if w.chunked && !w.discard {
		w.c.s.out = append(w.c.s.out, "0\r\n\r\n"...)
	}
	w.err = ErrStreamEnded
}

func streamError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrStreamEnded, err)
}

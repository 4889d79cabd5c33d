package http1

import (
	"errors"
	"io"
	"os"
	"slices"
	"time"
)

type bodyKind uint8

const (
	bodyNone bodyKind = iota
	bodyFixed
	bodyChunked
)

const (
	readBodyStep   = 64 << 10 // first allocation of ReadBody, so that a declared length alone takes no memory
	directReadFrom = 1 << 10  // reads of at least this size skip the connection's buffer
)

// body reads the body of the current request of a lean connection. Errors are
// sticky: after one, the place of the next request is unknown.
type body struct {
	c         *conn
	kind      bodyKind
	expect    bool  // "100 Continue" is owed before the first read
	begun     bool  // the first read happened
	left      int64 // bytes left of the body (fixed) or of the current chunk
	limit     int64
	received  int64
	startedAt time.Time // of the first wait, for the budget of the whole body
	err       error     // io.EOF at the end
	chunk     chunkState
}

func (b *body) reset(c *conn, req *Request, chunked bool, limit int64) {
	*b = body{c: c, limit: limit, expect: req.ExpectContinue}
	switch {
	case chunked:
		b.kind = bodyChunked
	case req.ContentLength > 0:
		b.kind = bodyFixed
		b.left = req.ContentLength
	default:
		b.err = io.EOF
	}
}

func (b *body) atEnd() bool { return b.err == io.EOF }

// Read implements io.Reader; see Exchange.Body.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := b.begin(); err != nil {
		return 0, b.fail(err)
	}
	if b.kind == bodyChunked && b.left == 0 {
		if err := b.nextChunk(); err != nil {
			return 0, b.fail(err)
		}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.fetch(p)
	if err != nil {
		return 0, b.fail(err)
	}
	b.left -= int64(n)
	b.received += int64(n)
	if b.left == 0 && b.kind == bodyFixed {
		_ = b.fail(io.EOF)
	}
	return n, nil
}

func (b *body) fail(err error) error {
	b.err = err
	if err == io.EOF {
		b.c.s.ex.bodyEnded()
	}
	return err
}

// begin runs before the first byte is read: a declared length is judged before
// the client is asked to send.
func (b *body) begin() error {
	if b.begun {
		return nil
	}
	if b.kind == bodyFixed && b.left > b.limit {
		return ErrBodyTooLarge
	}
	b.begun = true
	if b.expect && b.c.buffered() == 0 {
		// Only queued: whatever waits for the client's bytes sends it first.
		b.c.s.out = append(b.c.s.out, "HTTP/1.1 100 Continue\r\n\r\n"...)
	}
	return nil
}

// fetch reads some bytes of the connection into p.
func (b *body) fetch(p []byte) (int, error) {
	c := b.c
	if c.buffered() == 0 {
		if err := b.armDeadline(); err != nil {
			return 0, err
		}
		if len(p) >= directReadFrom {
			n, err := c.readInto(p)
			if n > 0 {
				return n, nil
			}
			return 0, bodyError(err)
		}
		if err := c.fill(); err != nil {
			return 0, bodyError(err)
		}
	}
	n := copy(p, c.s.in[c.s.r:c.s.w])
	c.s.r += n
	return n, nil
}

// armDeadline bounds the next wait by the time without data and by what is left
// of the whole body's budget.
func (b *body) armDeadline() error {
	now := time.Now()
	if b.startedAt.IsZero() {
		b.startedAt = now
	}
	lim := &b.c.srv.limits
	end := b.startedAt.Add(lim.bodyBudget(b.received))
	if !now.Before(end) {
		return ErrBodyTooSlow
	}
	if idle := now.Add(lim.BodyIdleTimeout); idle.Before(end) {
		end = idle
	}
	b.c.armRead(end, 0)
	return nil
}

func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrBodyTooSlow
	}
	return io.ErrUnexpectedEOF
}

// readAll is Exchange.ReadBody.
func (b *body) readAll(dst []byte, max int64) ([]byte, error) {
	b.limit = min(b.limit, max)
	if b.err == nil {
		if err := b.begin(); err != nil {
			_ = b.fail(err)
		}
	}
	if b.err == io.EOF {
		return dst, nil
	}
	if b.err != nil {
		return dst, b.err
	}
	return readAll(b, dst, func() int64 {
		if b.kind == bodyFixed {
			return b.left
		}
		return -1
	})
}

// readAll appends all of r to dst. It grows dst with what arrives: left is what
// is still announced, or -1.
func readAll(r io.Reader, dst []byte, left func() int64) ([]byte, error) {
	base := len(dst)
	for {
		if cap(dst) == len(dst) || cap(dst)-len(dst) < directReadFrom && left() >= directReadFrom {
			grow := int64(max(readBodyStep, len(dst)-base))
			if n := left(); n >= 0 {
				grow = max(1, min(grow, n))
			}
			dst = slices.Grow(dst, int(grow))
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		if left() == 0 {
			return dst, nil
		}
	}
}

// mustClose tells whether the connection can carry no further request, given
// that the handler reads no more of the body. It is asked before the answer's
// head is written, because the head has to say so.
func (b *body) mustClose() bool {
	switch {
	case b.err == io.EOF:
		return false
	case b.err != nil, b.kind == bodyChunked:
		return true
	case b.expect && !b.begun:
		// The client may send the body or may not: what follows is ambiguous.
		return true
	}
	return b.left-int64(b.c.buffered()) > b.c.srv.limits.DrainBytes
}

// drain discards the rest of a fixed body after the answer. It reports whether
// the connection can go on.
func (b *body) drain() bool {
	c := b.c
	var end time.Time
	for b.left > 0 {
		if c.buffered() == 0 {
			if end.IsZero() {
				end = time.Now().Add(c.srv.limits.DrainTimeout)
			}
			c.armRead(end, 0)
			if c.fill() != nil {
				return false
			}
		}
		n := min(b.left, int64(c.buffered()))
		c.s.r += int(n)
		b.left -= n
	}
	b.err = io.EOF
	return true
}

package http1

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	scratchIn     = 4 << 10  // initial read buffer: the head and body of a small append
	scratchOut    = 2 << 10  // initial write buffer: the head of an answer
	scratchKeep   = 16 << 10 // larger buffers are not pooled
	maxPendingOut = 64 << 10 // answers of pipelined requests that wait for one write
)

// States of a connection, for Shutdown: only an idle one may be closed.
const (
	stateIdle int32 = iota
	stateActive
	stateClosing
)

// scratch is what a connection needs while it has a request: an idle one has none.
type scratch struct {
	in   []byte // read buffer, full length
	r, w int    // in[r:w] was received and not consumed
	out  []byte // written and not sent
	ex   exchange
}

var scratchPool = sync.Pool{New: func() any {
	return &scratch{in: make([]byte, scratchIn), out: make([]byte, 0, scratchOut)}
}}

func putScratch(s *scratch) {
	if len(s.in) > scratchKeep || cap(s.out) > scratchKeep || cap(s.ex.arena) > scratchKeep {
		return
	}
	s.r, s.w, s.out = 0, 0, s.out[:0]
	s.ex.release()
	scratchPool.Put(s)
}

// conn is one lean connection, owned by the goroutine that runs serve.
type conn struct {
	srv    *Server
	nc     net.Conn
	raw    syscall.RawConn       // nil when nc has no descriptor
	rawFn  func(fd uintptr) bool // c.tryRead, bound once
	rawN   int                   // result of the last tryRead
	rawErr error                 // result of the last tryRead
	s      *scratch              // nil while idle

	readArmed, writeArmed time.Time // deadlines as last set
	writeErr              error     // a failed write; nothing is sent afterwards
	state                 atomic.Int32
	idle                  bool // waiting for a request's first byte
	served                bool // a request was parsed before
	linger                bool // the client may still be sending when the connection ends
	remote                string
}

func newConn(srv *Server, nc net.Conn) *conn {
	c := &conn{srv: srv, nc: nc, remote: nc.RemoteAddr().String()}
	if sc, ok := nc.(syscall.Conn); ok && rawReads {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw, c.rawFn = raw, c.tryRead
		}
	}
	return c
}

// serve runs requests until the connection ends. It reports whether the
// connection was handed to the HTTP/2 server instead.
func (c *conn) serve() (handedOff bool) {
	defer func() {
		if c.s != nil {
			putScratch(c.s)
			c.s = nil
		}
	}()
	for {
		n, err := c.readHead()
		if err != nil {
			var ref *refusal
			if errors.As(err, &ref) {
				c.refuse(ref)
			}
			break
		}
		if c.isPreface(n) {
			return c.handOff()
		}
		if !c.serveOne(n) {
			break
		}
		if c.buffered() > 0 {
			continue
		}
		// The answer leaves before the connection counts as idle, because an
		// idle one may be closed at any time. The flag is read after the state
		// is stored: Shutdown sets it before it looks at the states, so one of
		// the two sees the other.
		if c.flush() != nil {
			break
		}
		c.state.Store(stateIdle)
		if c.srv.shutting.Load() {
			break
		}
	}
	c.finish()
	return false
}

// serveOne runs the request whose head is the next n bytes of the buffer and
// reports whether the connection can carry another.
func (c *conn) serveOne(n int) (again bool) {
	s := c.s
	head := string(s.in[s.r : s.r+n])
	s.r += n
	e := &s.ex
	e.req.Remote = c.remote
	fr, err := parseHead(head, &c.srv.limits, &e.req)
	if err != nil {
		var ref *refusal
		errors.As(err, &ref)
		c.refuse(ref)
		return false
	}
	c.served = true
	e.begin(c, fr)
	if !c.runHandler(e) {
		return false
	}
	return e.end()
}

// runHandler reports whether the handler returned in order.
func (c *conn) runHandler(e *exchange) (ok bool) {
	defer func() {
		if ok {
			return
		}
		logPanic(c.srv.logger(), recover())
		e.abandon()
	}()
	c.srv.Handler.Serve(e)
	return true
}

// logPanic reports what a handler panicked with; http.ErrAbortHandler is a
// handler's way to end a connection.
func logPanic(l *slog.Logger, r any) {
	if r != http.ErrAbortHandler {
		l.Error("http handler panicked", slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
	}
}

// refuse answers a request that no handler sees and ends the connection.
func (c *conn) refuse(ref *refusal) {
	s := c.scratch()
	s.out = appendStatus(s.out, ref.status)
	s.out = append(s.out, c.srv.dateField(time.Now())...)
	s.out = append(s.out, "Content-Length: 0\r\nConnection: close\r\n\r\n"...)
	c.linger = true
}

// finish sends what is pending and closes. A client that may still be sending
// is read from for a while: closing now would reset the connection, and the
// reset would overtake the answer.
func (c *conn) finish() {
	if c.s != nil {
		_ = c.flush()
	}
	if c.linger && c.writeErr == nil {
		c.lingerClose()
	}
	c.nc.Close()
}

func (c *conn) lingerClose() {
	cw, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || cw.CloseWrite() != nil {
		return
	}
	lim := &c.srv.limits
	c.armRead(time.Now().Add(lim.LingerTimeout), 0)
	buf := c.scratch().in
	for left := lim.LingerBytes; left > 0; {
		n, err := c.nc.Read(buf)
		if err != nil {
			return
		}
		left -= int64(n)
	}
}

func (c *conn) scratch() *scratch {
	if c.s == nil {
		c.s = scratchPool.Get().(*scratch)
	}
	return c.s
}

func (c *conn) buffered() int {
	if c.s == nil {
		return 0
	}
	return c.s.w - c.s.r
}

// readHead reads until the buffer holds a whole head and returns its length.
func (c *conn) readHead() (int, error) {
	lim := &c.srv.limits
	if c.buffered() == 0 {
		c.idle = true
		c.armRead(time.Now().Add(lim.IdleTimeout), lim.IdleTimeout/16)
		err := c.fill()
		c.idle = false
		if err != nil {
			return 0, err
		}
		if !c.state.CompareAndSwap(stateIdle, stateActive) {
			return 0, net.ErrClosed
		}
	}
	c.skipEmptyLines()
	scanned, armed := 0, false
	for {
		n, err := scanHead(c.s.in[c.s.r:c.s.w], scanned, lim)
		if n > 0 || err != nil {
			return n, err
		}
		scanned = c.buffered()
		if !armed {
			armed = true
			c.armRead(time.Now().Add(lim.HeadTimeout), 0)
		}
		if err := c.fill(); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = errHeadTooSlow
			}
			return 0, err
		}
		if scanned == 0 {
			c.skipEmptyLines()
		}
	}
}

// skipEmptyLines drops the CRLF that old clients send after a body (RFC 9112
// section 2.2).
func (c *conn) skipEmptyLines() {
	s := c.s
	for i := 0; i < 2 && s.w-s.r >= 2 && s.in[s.r] == '\r' && s.in[s.r+1] == '\n'; i++ {
		s.r += 2
	}
}

var headEnd = []byte("\r\n\r\n")

// scanHead looks for the end of a head in buf, whose first scanned bytes were
// looked at before. It returns the head's length, 0 when more is needed, or why
// no more may come.
func scanHead(buf []byte, scanned int, lim *Limits) (int, error) {
	from := max(0, scanned-len(headEnd)+1)
	if i := bytes.Index(buf[from:], headEnd); i >= 0 {
		if n := from + i + len(headEnd); n <= lim.MaxHeadBytes {
			return n, nil
		}
		return 0, headOverflow(buf, lim)
	}
	if len(buf) >= lim.MaxHeadBytes {
		return 0, headOverflow(buf, lim)
	}
	// A lone LF never becomes the end looked for: refuse it now, not by timeout.
	for i := scanned; i < len(buf); i++ {
		if buf[i] == '\n' && (i == 0 || buf[i-1] != '\r') {
			return 0, errFieldLine
		}
	}
	return 0, nil
}

// headOverflow tells a request line that is too long from fields that are.
func headOverflow(buf []byte, lim *Limits) error {
	line := bytes.IndexByte(buf, '\n')
	if line < 0 || line > lim.MaxTargetBytes+len("OPTIONS  HTTP/1.1\r") {
		return errTargetTooLong
	}
	return errHeadTooLarge
}

// fill reads more into the buffer. Nothing waits for a client that itself may
// wait for an answer: pending output is sent first.
func (c *conn) fill() error {
	if c.s != nil {
		if err := c.flush(); err != nil {
			return err
		}
		c.makeRoom()
	}
	if c.raw != nil {
		err := c.raw.Read(c.rawFn)
		if err == nil {
			err = c.rawErr
		}
		if err != nil {
			return err
		}
		if c.rawN == 0 {
			return io.EOF
		}
		c.s.w += c.rawN
		return nil
	}
	s := c.scratch()
	n, err := c.nc.Read(s.in[s.w:])
	s.w += n
	if n > 0 {
		return nil
	}
	return err
}

// readInto reads straight into p, past the buffer, which must be empty.
func (c *conn) readInto(p []byte) (int, error) {
	if err := c.flush(); err != nil {
		return 0, err
	}
	return c.nc.Read(p)
}

// makeRoom makes the read buffer take more. It is never asked for more than a
// head or a chunk line needs.
func (c *conn) makeRoom() {
	s := c.s
	if s.r == s.w {
		s.r, s.w = 0, 0
		return
	}
	if s.w < len(s.in) {
		return
	}
	if s.r > 0 {
		s.w = copy(s.in, s.in[s.r:s.w])
		s.r = 0
		return
	}
	grown := make([]byte, 2*len(s.in))
	copy(grown, s.in)
	s.in = grown
}

// flush sends the pending output in one write.
func (c *conn) flush() error {
	s := c.s
	if c.writeErr != nil || len(s.out) == 0 {
		return c.writeErr
	}
	c.armWrite()
	_, err := c.nc.Write(s.out)
	s.out = s.out[:0]
	if err != nil {
		c.writeErr = err
	}
	return err
}

// armRead sets the read deadline, unless the one that is set already lies less
// than slack before the one that is wanted: setting one costs more than parsing a small head.
func (c *conn) armRead(want time.Time, slack time.Duration) {
	if d := want.Sub(c.readArmed); d >= 0 && d <= slack && !c.readArmed.IsZero() {
		return
	}
	c.readArmed = want
	c.nc.SetReadDeadline(want)
}

// armWrite gives the next write between a half and the whole of WriteTimeout.
func (c *conn) armWrite() {
	if c.s.ex.ownWriteDeadline {
		return
	}
	timeout := c.srv.limits.WriteTimeout
	want := time.Now().Add(timeout)
	if d := want.Sub(c.writeArmed); d >= 0 && d <= timeout/2 && !c.writeArmed.IsZero() {
		return
	}
	c.writeArmed = want
	c.nc.SetWriteDeadline(want)
}

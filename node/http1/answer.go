package http1

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
	"unsafe"
)

const (
	inlineBody = 16 << 10  // smaller bodies are copied behind their head
	bodyPiece  = 512 << 10 // larger bodies go out in pieces, each with its own deadline
)

// statusLines has the status lines of the registered codes.
var statusLines = func() (t [600][]byte) {
	for code := 100; code < len(t); code++ {
		if text := http.StatusText(code); text != "" {
			t[code] = []byte("HTTP/1.1 " + strconv.Itoa(code) + " " + text + "\r\n")
		}
	}
	return t
}()

func appendStatus(dst []byte, code int) []byte {
	if code > 0 && code < len(statusLines) && statusLines[code] != nil {
		return append(dst, statusLines[code]...)
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	return append(dst, " \r\n"...)
}

// bodyless tells whether an answer of that status has no body (RFC 9110 section 6.4.1).
func bodyless(code int) bool { return code < 200 || code == 204 || code == 304 }

// exchange is the lean Exchange. It lives in its connection's scratch.
type exchange struct {
	c     *conn
	req   Request
	body  body
	out   []Field // fields of the answer
	block []byte  // encoded fields of the answer
	arena []byte  // values given as bytes

	stream           stream
	watch            watch
	answered         bool
	closing          bool // the connection ends with this answer
	keepAliveV10     bool
	ownWriteDeadline bool
}

func (e *exchange) begin(c *conn, fr framing) {
	e.c = c
	e.answered = false
	e.ownWriteDeadline = false
	v10 := e.req.Minor == 0
	e.keepAliveV10 = v10 && fr.keepAlive && !fr.close
	e.closing = fr.close || v10 && !fr.keepAlive
	e.body.reset(c, &e.req, fr.chunked, c.srv.limits.MaxBodyBytes)
}

// release drops the references of the last request.
func (e *exchange) release() {
	e.resetAnswer()
	fields := e.req.Header.fields
	clear(fields)
	e.req = Request{Header: Header{fields: fields[:0]}}
	e.c, e.body, e.stream, e.watch = nil, body{}, stream{}, watch{}
}

func (e *exchange) resetAnswer() {
	clear(e.out)
	e.out, e.block, e.arena = e.out[:0], e.block[:0], e.arena[:0]
}

// end completes the exchange after the handler returned and reports whether the
// connection goes on.
func (e *exchange) end() bool {
	if !e.answered {
		e.resetAnswer()
		e.Respond(http.StatusInternalServerError, nil)
	}
	if e.stream.c != nil {
		e.stream.end()
	}
	gone := e.stopWatch()
	c := e.c
	e.resetAnswer()
	e.stream = stream{}
	if e.ownWriteDeadline {
		e.ownWriteDeadline = false
		c.writeArmed = time.Time{}
	}
	if c.writeErr != nil || gone {
		return false
	}
	if e.closing {
		c.linger = !e.body.atEnd()
		return false
	}
	return e.body.atEnd() || e.body.drain()
}

// abandon ends the exchange of a handler that panicked.
func (e *exchange) abandon() {
	e.resetAnswer()
	if !e.answered {
		e.closing = true
		e.Respond(http.StatusInternalServerError, nil)
	} else if e.stream.c != nil {
		e.stream.Abort()
	}
	e.c.linger = !e.body.atEnd()
	e.stopWatch()
	e.stream = stream{}
}

func (e *exchange) Request() *Request { return &e.req }

func (e *exchange) Body() io.Reader { return &e.body }

func (e *exchange) LimitBody(n int64) { e.body.limit = n }

func (e *exchange) ReadBody(dst []byte, max int64) ([]byte, error) { return e.body.readAll(dst, max) }

func (e *exchange) SetHeader(name, value string) {
	kept := e.out[:0]
	for _, f := range e.out {
		if !sameName(f.Name, name) {
			kept = append(kept, f)
		}
	}
	e.out = append(kept, Field{name, value})
}

func (e *exchange) AddHeader(name, value string) { e.out = append(e.out, Field{name, value}) }

func (e *exchange) SetHeaderBytes(name string, value []byte) {
	start := len(e.arena)
	e.arena = append(e.arena, value...)
	e.SetHeader(name, e.arenaString(start))
}

func (e *exchange) SetHeaderInt(name string, value int64) {
	start := len(e.arena)
	e.arena = strconv.AppendInt(e.arena, value, 10)
	e.SetHeader(name, e.arenaString(start))
}

// arenaString is the arena's end as a string. The arena is written over only
// after the answer's fields were dropped, and growing it leaves the old bytes
// where they are.
func (e *exchange) arenaString(start int) string {
	if start == len(e.arena) {
		return ""
	}
	return unsafe.String(&e.arena[start], len(e.arena)-start)
}

func (e *exchange) AddBlock(b *Block) { e.block = append(e.block, b.wire...) }

// head begins the answer: status, date and the handler's fields. The framing
// fields and the empty line are the caller's.
func (e *exchange) head(status int) {
	if e.answered {
		panic("http1: the exchange is answered already")
	}
	e.answered = true
	c := e.c
	if !e.closing {
		e.closing = c.srv.shutting.Load() || e.body.mustClose()
	}
	s := c.s
	s.out = appendStatus(s.out, status)
	s.out = append(s.out, c.srv.dateField(time.Now())...)
	s.out = append(s.out, e.block...)
	for i := range e.out {
		s.out = appendField(s.out, e.out[i].Name, e.out[i].Value)
	}
	switch {
	case e.closing:
		s.out = append(s.out, "Connection: close\r\n"...)
	case e.keepAliveV10:
		s.out = append(s.out, "Connection: keep-alive\r\n"...)
	}
}

func (e *exchange) Respond(status int, body []byte) {
	e.head(status)
	s := e.c.s
	headOnly := e.req.Method == "HEAD"
	if !bodyless(status) && (len(body) > 0 || !headOnly) {
		s.out = append(s.out, "Content-Length: "...)
		s.out = strconv.AppendInt(s.out, int64(len(body)), 10)
		s.out = append(s.out, '\r', '\n')
	}
	s.out = append(s.out, '\r', '\n')
	if headOnly || bodyless(status) {
		body = nil
	}
	if len(body) <= inlineBody {
		s.out = append(s.out, body...)
		if len(s.out) > maxPendingOut {
			_ = e.c.flush()
		}
		return
	}
	e.c.writeLarge(body)
}

// writeLarge sends the pending output and a body that is not copied. Each piece
// has the write timeout to itself, so that a slow but steady client gets all.
func (c *conn) writeLarge(body []byte) {
	s := c.s
	for c.writeErr == nil && len(body) > 0 {
		piece := body[:min(len(body), bodyPiece)]
		body = body[len(piece):]
		c.armWrite()
		bufs := net.Buffers{s.out, piece}
		_, c.writeErr = bufs.WriteTo(c.nc)
		s.out = s.out[:0]
	}
}

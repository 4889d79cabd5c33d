package http1

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"
)

// Adapter runs h under net/http. The limits of heads, idle connections and
// lingering are the http.Server's to set; the adapter keeps those of targets, fields, bodies and
// writes.
func Adapter(h Handler, limits Limits) http.Handler {
	return newAdapter(h, limits, slog.Default())
}

func newAdapter(h Handler, limits Limits, logger *slog.Logger) *adapter {
	return &adapter{handler: h, limits: limits.withDefaults(), logger: logger}
}

type adapter struct {
	handler Handler
	limits  Limits
	logger  *slog.Logger
}

func (a *adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &adapted{w: w, r: r, limits: &a.limits, rc: http.NewResponseController(w)}
	x.body = adaptedBody{x: x, left: a.limits.MaxBodyBytes}
	if status := x.readHead(); status != 0 {
		x.lastAnswer(status)
		return
	}
	a.runHandler(x)
	switch {
	case x.stream.aborted:
		panic(http.ErrAbortHandler)
	case x.stream.x != nil:
		x.stream.armDeadline() // for what net/http writes at the end
	case !x.answered:
		clear(w.Header())
		x.Respond(http.StatusInternalServerError, nil)
	}
}

// runHandler treats a panic as the lean server does: 500 when nothing was
// answered, and the end of the connection or, over HTTP/2, of the stream.
func (a *adapter) runHandler(x *adapted) {
	ok := false
	defer func() {
		if ok {
			return
		}
		logPanic(a.logger, recover())
		if !x.answered {
			clear(x.w.Header())
			x.lastAnswer(http.StatusInternalServerError)
			return
		}
		panic(http.ErrAbortHandler)
	}()
	a.handler.Serve(x)
	ok = true
}

// lastAnswer sends a bare answer that ends an HTTP/1.1 connection.
func (x *adapted) lastAnswer(status int) {
	if x.r.ProtoMajor == 1 {
		x.w.Header().Set("Connection", "close")
	}
	x.Respond(status, nil)
}

// adapted is the Exchange of a net/http request.
type adapted struct {
	w        http.ResponseWriter
	r        *http.Request
	rc       *http.ResponseController
	limits   *Limits
	req      Request
	body     adaptedBody
	stream   adaptedStream
	answered bool
}

// readHead fills the request and returns the status of a refusal, or 0.
func (x *adapted) readHead() int {
	r := x.r
	x.req = Request{
		Method:        internMethod(r.Method),
		Major:         r.ProtoMajor,
		Minor:         r.ProtoMinor,
		ContentLength: r.ContentLength,
		Remote:        r.RemoteAddr,
		Secure:        r.TLS != nil,
	}
	if len(r.RequestURI) > x.limits.MaxTargetBytes {
		return http.StatusRequestURITooLong
	}
	if !splitTarget(&x.req, r.RequestURI) {
		return http.StatusBadRequest
	}
	x.req.Host = r.Host
	n := 0
	for name, values := range r.Header {
		n += len(values)
		if connectionField(name) != fieldOther {
			continue
		}
		for _, v := range values {
			x.req.Header.fields = append(x.req.Header.fields, Field{name, trimOWS(v)})
		}
	}
	if n > x.limits.MaxHeaders {
		return http.StatusRequestHeaderFieldsTooLarge
	}
	// net/http answers the expectation at the first read; over HTTP/2 it hides the field.
	x.req.ExpectContinue = sameName(r.Header.Get("Expect"), "100-continue") && r.ContentLength != 0
	return 0
}

func (x *adapted) Request() *Request { return &x.req }

func (x *adapted) LimitBody(n int64) { x.body.left = n }

func (x *adapted) Body() io.Reader { return &x.body }

func (x *adapted) ReadBody(dst []byte, max int64) ([]byte, error) {
	b := &x.body
	b.left = min(b.left, max)
	declared := x.r.ContentLength
	if declared == 0 {
		return dst, nil
	}
	if err := b.begin(); err != nil {
		return dst, err
	}
	dst, err := readAll(b, dst, func() int64 {
		if declared < 0 {
			return -1
		}
		return declared - b.received
	})
	if err == nil {
		b.clearDeadline()
	}
	return dst, err
}

// adaptedBody bounds a net/http body in size and time.
type adaptedBody struct {
	x         *adapted
	left      int64 // until the limit
	received  int64
	startedAt time.Time
	err       error
}

func (b *adaptedBody) begin() error {
	if b.err == nil && b.startedAt.IsZero() {
		b.startedAt = time.Now()
		if b.x.r.ContentLength > b.left {
			b.err = ErrBodyTooLarge
		} else if b.x.req.ExpectContinue && b.x.r.ProtoMajor == 1 {
			// The deadline of the last answer may have passed since.
			b.x.armWrite()
		}
	}
	return b.err
}

// Read implements io.Reader; see Exchange.Body.
func (b *adaptedBody) Read(p []byte) (int, error) {
	if err := b.begin(); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	// One byte more than the limit tells a body that ends there from a larger one.
	if int64(len(p)) > b.left {
		p = p[:b.left+1]
	}
	b.armDeadline()
	n, err := b.x.r.Body.Read(p)
	b.received += int64(n)
	if b.left -= int64(n); b.left < 0 {
		n, err = n-1, ErrBodyTooLarge
	}
	if err != nil {
		b.err = mapBodyError(err)
		if b.err == io.EOF {
			b.clearDeadline()
		}
	}
	return n, b.err
}

func (b *adaptedBody) armDeadline() {
	end := b.startedAt.Add(b.x.limits.bodyBudget(b.received))
	if idle := time.Now().Add(b.x.limits.BodyIdleTimeout); idle.Before(end) {
		end = idle
	}
	b.x.rc.SetReadDeadline(end)
}

// clearDeadline ends the bound with the body: net/http goes on reading to notice
// that the client leaves, and would take the deadline for its leave.
func (b *adaptedBody) clearDeadline() { b.x.rc.SetReadDeadline(time.Time{}) }

func mapBodyError(err error) error {
	switch {
	case err == io.EOF, err == ErrBodyTooLarge:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrBodyTooSlow
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	}
	// What is left of HTTP/1.1 is invalid chunking, of HTTP/2 a reset stream.
	return ErrBodyMalformed
}

func (x *adapted) SetHeader(name, value string) { x.w.Header().Set(name, cleanValue(value)) }

func (x *adapted) AddHeader(name, value string) { x.w.Header().Add(name, cleanValue(value)) }

func (x *adapted) SetHeaderBytes(name string, value []byte) { x.SetHeader(name, string(value)) }

func (x *adapted) SetHeaderInt(name string, value int64) {
	x.w.Header().Set(name, strconv.FormatInt(value, 10))
}

func (x *adapted) AddBlock(b *Block) {
	for _, f := range b.fields {
		x.AddHeader(f.Name, f.Value)
	}
}

func (x *adapted) Respond(status int, body []byte) {
	x.answer()
	length := len(body)
	if length == 0 && x.req.Method == "HEAD" {
		length = -1
	}
	x.writeHead(status, length)
	if x.req.Method == "HEAD" || bodyless(status) {
		return
	}
	for len(body) > 0 {
		piece := body[:min(len(body), bodyPiece)]
		body = body[len(piece):]
		x.armWrite()
		if _, err := x.w.Write(piece); err != nil {
			return
		}
	}
}

func (x *adapted) answer() {
	if x.answered {
		panic("http1: the exchange is answered already")
	}
	x.answered = true
}

// writeHead sends the status with the length of the body, -1 for none.
func (x *adapted) writeHead(status, length int) {
	h := x.w.Header()
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // keeps net/http from guessing one
	}
	if length >= 0 && !bodyless(status) {
		h.Set("Content-Length", strconv.Itoa(length))
	}
	x.armWrite()
	x.w.WriteHeader(status)
}

func (x *adapted) armWrite() { x.rc.SetWriteDeadline(time.Now().Add(x.limits.WriteTimeout)) }

func (x *adapted) Stream(status int) StreamWriter {
	x.answer()
	x.writeHead(status, -1)
	x.stream.x = x
	return &x.stream
}

func (x *adapted) Done() <-chan struct{} { return x.r.Context().Done() }

// adaptedStream is the StreamWriter of a net/http request.
type adaptedStream struct {
	x           *adapted
	ownDeadline bool
	aborted     bool
	err         error
}

func (w *adaptedStream) Write(p []byte) (int, error) {
	n := 0
	w.bounded(func() (err error) {
		n, err = w.x.w.Write(p)
		return err
	})
	return n, w.err
}

func (w *adaptedStream) Flush() error {
	w.bounded(w.x.rc.Flush)
	return w.err
}

// bounded runs one write under the write timeout. The deadline is taken back
// afterwards: over HTTP/2 it would end a stream that waits for its next event.
func (w *adaptedStream) bounded(write func() error) {
	if w.err != nil {
		return
	}
	w.armDeadline()
	w.err = streamError(write())
	if !w.ownDeadline {
		w.x.rc.SetWriteDeadline(time.Time{})
	}
}

func (w *adaptedStream) armDeadline() {
	if !w.ownDeadline {
		w.x.armWrite()
	}
}

func (w *adaptedStream) SetWriteDeadline(t time.Time) error {
	w.ownDeadline = !t.IsZero()
	return w.x.rc.SetWriteDeadline(t)
}

func (w *adaptedStream) Abort() {
	w.aborted = true
	w.err = ErrStreamEnded
}

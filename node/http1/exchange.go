package http1

import (
	"io"
	"time"
)

// Request is the head of one request. It is valid until the handler returns.
// Its strings are immutable and may be kept, but each is a part of the whole
// head: strings.Clone what lives longer than the request.
type Request struct {
	// Method is a token as the client sent it, case kept.
	Method string
	// Target is the path of the request target, undecoded and without the
	// query: it begins with "/", or is "*" for a server-wide OPTIONS. Its percent
	// encodings are well formed; it holds visible ASCII only.
	Target string
	// RawQuery is what follows the first '?', undecoded; HasQuery tells an
	// empty query from none.
	RawQuery string
	HasQuery bool
	// Host is the authority the request names: that of an absolute target,
	// else the Host field. Empty only before HTTP/1.1.
	Host string
	// Major and Minor are the HTTP version: 1.0, 1.1 or 2.0.
	Major, Minor int
	// ContentLength is the declared length of the body in bytes, 0 without a
	// body, -1 when the body's end is not known in advance.
	ContentLength int64
	// ExpectContinue tells that the client waits for "100 Continue" before it
	// sends the body. The first read of the body sends it.
	ExpectContinue bool
	// Remote is the address of the peer, host:port.
	Remote string
	// Secure tells that the connection is TLS.
	Secure bool
	// Header has the end-to-end fields. Those that speak of the connection or
	// of the framing (Host, Connection, Keep-Alive, Content-Length,
	// Transfer-Encoding, TE, Trailer, Upgrade, Expect) were consumed.
	Header Header
}

// Exchange is one request and its answer. It belongs to the goroutine that
// runs the handler and dies when the handler returns.
//
// A handler answers exactly once, by Respond or by Stream. One that returns
// without an answer is answered 500; a second answer panics.
type Exchange interface {
	// Request returns the head. It never changes.
	Request() *Request

	// LimitBody lowers or raises the bound of the body in bytes. It is
	// Limits.MaxBodyBytes until then. Call it before the first read.
	LimitBody(n int64)

	// Body reads the body. The first Read sends "100 Continue" when the client
	// waits for it. Reads end in io.EOF at the body's end and fail with
	// ErrBodyTooLarge, ErrBodyTooSlow, ErrBodyMalformed, or io.ErrUnexpectedEOF
	// when the client went away; a failed body stays failed.
	//
	// A body that the handler leaves unread is discarded after the answer when
	// little is left of it (Limits.DrainBytes); otherwise the connection ends
	// after the answer.
	Body() io.Reader

	// ReadBody appends the whole body to dst and returns the result. max bounds
	// the body in bytes beside LimitBody. A declared length above the bound fails with
	// ErrBodyTooLarge before anything is read (and before "100 Continue"). The memory taken
	// follows the bytes that arrive, not the length that was declared. With an
	// error it returns dst with what had arrived.
	ReadBody(dst []byte, max int64) ([]byte, error)

	// SetHeader sets a field of the answer, in place of those of the same name
	// set before. The server itself sends Date, Content-Length,
	// Transfer-Encoding and Connection. A CR, LF or NUL in a value is sent as a
	// space.
	SetHeader(name, value string)
	// AddHeader adds a field beside those of the same name.
	AddHeader(name, value string)
	// SetHeaderBytes is SetHeader with a value that is copied, so that the
	// caller needs no string.
	SetHeaderBytes(name string, value []byte)
	// SetHeaderInt is SetHeader with a decimal value.
	SetHeaderInt(name string, value int64)
	// AddBlock adds fields that were encoded once. SetHeader does not replace
	// them.
	AddBlock(b *Block)

	// Respond sends the whole answer. Content-Length is len(body), also for
	// HEAD when body is not empty; HEAD, 204 and 304 carry no body. The body is
	// not kept after the call. A client that does not take the answer ends the
	// connection; the handler has nothing to do about it.
	Respond(status int, body []byte)

	// Stream begins an answer whose end is not known: chunked, or ended by the
	// connection's end before HTTP/1.1. The answer ends when the handler
	// returns. Nothing is sent before the first Flush.
	Stream(status int) StreamWriter

	// Done is closed when the client is known to have gone away, as far as the
	// server can tell while the handler runs: watching begins with the first call
	// and after the body was read, so a handler that waits for
	// something calls it and one that does not pays nothing. It is not closed by
	// the handler's return.
	Done() <-chan struct{}
}

// StreamWriter writes the body of a streamed answer.
type StreamWriter interface {
	// Write buffers p; it sends only when the buffer outgrows
	// Limits.StreamBufferBytes.
	Write(p []byte) (int, error)
	// Flush sends what was written since the last Flush, and the head with the
	// first, in one write. It fails when the client went away or does not
	// read within the write deadline.
	Flush() error
	// SetWriteDeadline bounds the following writes, the zero time gives the bound back to
	// Limits.WriteTimeout, counted from each write.
	SetWriteDeadline(t time.Time) error
	// Abort ends the connection instead of ending the answer, so that the
	// client can tell the answer from a whole one. Nothing can be written afterwards.
	Abort()
}

// Handler answers requests. Serve is called from many goroutines.
type Handler interface {
	Serve(Exchange)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(Exchange)

// Serve calls f.
func (f HandlerFunc) Serve(e Exchange) { f(e) }

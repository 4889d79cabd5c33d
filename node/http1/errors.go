package http1

import "errors"

// Errors of a body. The end of the connection inside a body is
// io.ErrUnexpectedEOF.
var (
	// ErrBodyTooLarge: the body is larger than its bound. Declared lengths are
	// refused before anything is read, chunked bodies when they cross the bound.
	ErrBodyTooLarge = errors.New("request body exceeds its limit")
	// ErrBodyTooSlow: no byte of the body came for Limits.BodyIdleTimeout, or
	// the body as a whole came slower than Limits.BodyGrace and
	// Limits.MinBodyRate allow.
	ErrBodyTooSlow = errors.New("request body arrives too slowly")
	// ErrBodyMalformed: the chunked framing of the body or a trailer is invalid.
	ErrBodyMalformed = errors.New("request body is not framed as RFC 9112 says")
)

// ErrStreamEnded is returned by a StreamWriter after Abort or after a failed
// write.
var ErrStreamEnded = errors.New("the streamed answer has ended")

// ErrServerClosed is returned by Serve and ServeTLS after Shutdown or Close.
var ErrServerClosed = errors.New("http server closed")

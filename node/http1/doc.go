// Package http1 is the client plane's HTTP server and the seam its handlers
// are written over.
//
// A Handler answers an Exchange and never learns which of two servers runs it:
// the lean HTTP/1.1 loop of this package, which serves clear text, or net/http
// behind Adapter, which serves HTTP/2 (with prior knowledge on the clear-text
// port, or by ALPN) and everything over TLS.
//
// The package keeps these invariants:
//
//   - A message is framed in one way only. What two readers of RFC 9112 could
//     frame differently (both lengths given, a folded line, a bare CR or LF, a
//     coding other than chunked) is refused, and the connection ends with the
//     refusal, because where the next request begins is then unknown.
//   - Answers leave in the order of their requests, and a request's body never
//     becomes the head of the next request.
//   - Every wait on a client has a deadline, and every byte held for a client
//     has a bound (Limits). A client that sends slowly, reads slowly, sends too
//     much or goes away costs a bounded amount of memory for a bounded time.
//   - An idle connection holds no buffers.
package http1

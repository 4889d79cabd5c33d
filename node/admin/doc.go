// Package admin serves a node's admin plane.
//
// The invariants it keeps: a request reaches the node only when its method,
// media type, size and form are right; whatever goes wrong is answered with a
// code, and with a remedy where there is one; without TLS the plane listens on
// loopback only and answers no web page; requests under way are bounded in
// number, bytes and time.
package admin

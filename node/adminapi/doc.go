// Package adminapi holds the wire types of a node's admin plane and its client.
//
// The plane is JSON over HTTP: mutual TLS, or loopback only. Paths carry the
// version of the API. Within a version requests and answers only gain fields:
// a server refuses request fields that it does not know, because dropping one
// could turn a request into another; a client ignores answer fields that it
// does not know. The invariant of the client: every call ends by a deadline,
// reads a bounded answer, and fails with an *Error exactly when the node
// itself answered.
package adminapi

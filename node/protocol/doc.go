// Package protocol holds the wire names of the Durable Streams protocol and its
// extensions, and the grammars of their values.
//
// The invariant it keeps: every value that leaves a parser of this package is
// inside the bounds that the specification and the on-disk formats assume, and
// every error it returns is a *Error whose code and message can go to a client
// as they are, since no message ever repeats what the client sent.
//
// The package is pure: no clock, no randomness, no I/O. Section numbers in its
// comments are those of the Durable Streams Protocol Extensions.
package protocol

// Package jsontext turns request bodies into JSON message text, the stored form
// of JSON streams, in one pass and without building values.
//
// The invariant it keeps: what Normalize returns is a run of messages, each one
// JSON text (RFC 8259, UTF-8) of depth at most 127 without insignificant
// whitespace, each followed by one LF, and it holds no other LF: control
// characters inside strings must be escaped, and outside strings an LF is
// whitespace. So a message boundary of a JSON stream can be told from a single
// stored byte (Boundary). Literals are kept as they were sent: nothing is
// reordered, merged, rounded or re-escaped.
//
// The package is pure, and no input makes it recurse or allocate beyond the
// output: at most one byte more than the body.
package jsontext

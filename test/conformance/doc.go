// Package conformance runs the official Durable Streams server suite against a
// server's own surface, /{bucket}/{stream}.
//
// The suite is the npm package that suite/package.json pins. It asks for
// /v1/stream/{name}; the copy that runs has that rewritten to /conf/{name}, conf
// being the bucket. What cannot pass on this surface stands in
// expected_failures.txt with its reason. The invariant: a test that is not on
// the list passes, and a test on the list does not, so that the list only
// shrinks.
package conformance

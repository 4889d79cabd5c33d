// Package streamhttp is the client plane: the Durable Streams protocol on
// /{bucket}/{stream}, over the exchanges of http1 and the node's Engine.
//
// The invariant it keeps: an answer says only what is proven. A 2xx of a write
// follows its apply; a refusal's code is sent only when nothing was proposed or
// the apply refused it, and everything else is OUTCOME_UNKNOWN; a 404, 410 or
// 416 of a read, and every live reader, is confirmed by the group's leader.
//
// Order that must hold for a write: size, malformed path and headers, routing,
// load, body. A redirect never follows a read of the body (extensions 5.7), and
// producer writes with a content fault are proposed without their payload, so
// that the order of extensions 5.3 is decided where the write applies.
//
// Everything held for a client is bounded: request bytes and response bytes by
// a budget each, live readers by a count, waits by deadlines.
package streamhttp

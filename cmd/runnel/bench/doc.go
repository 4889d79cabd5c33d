// Package bench measures a Durable Streams server over HTTP: appends to many
// streams, the fan-out of live reads, and catch-up replay.
//
// The load runs beside the server it measures, so what the client costs is taken
// from the server. Hence its own HTTP/1.1 client: one request is one write, one
// read and a scan of the answer's head, and the report says what a request cost
// the client.
//
// Latencies are those of a closed loop: each connection sends its next request
// when the last was answered, so a stall of the server is counted once for each
// connection and not once for each request that would have come meanwhile.
package bench

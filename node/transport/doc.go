// Package transport carries the raft messages of all groups between nodes.
//
// The invariants it keeps:
//
//   - A message is handed over only when its frame names this cluster, was
//     addressed to this node in the handshake and has an intact checksum.
//   - Messages of one group that carry log entries arrive in the order in
//     which they were sent, or are missing; they are never reordered.
//   - Nothing waits behind a large message: heartbeats, votes and responses
//     have a connection of their own (beat), and on the other one (bulk) a
//     large message goes in parts between the messages of other groups.
//   - Send never blocks. Queues, frames and the assembly of parts are bounded
//     in bytes on both sides, and every socket operation has a deadline.
//   - Without TLS, addresses other than loopback are refused, both ways.
//
// Losing messages is allowed: raft sends again. A loss that the sender can see
// is reported through Handler.Unreachable, so that raft moves to probing.
//
// Frame format: docs/formats/peer.md.
package transport

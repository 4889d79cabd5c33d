// Package wal is a node's write-ahead log: one segmented log for the replicas
// of all groups, with one writer and group commit.
//
// The invariant it keeps: what a Write reported as done survives a power loss,
// in the order of its replica; what was never reported is there wholly or not
// at all. A tail that the power loss tore is cut. Damage to what was known to
// be synced is refused, with the file and the offset.
//
// The order of things that makes it true:
//
//   - A round is one write and one fdatasync. Its Writes are completed after
//     that, and the next round is written after that. So a valid batch header
//     proves that everything below its synced offset was durable.
//   - A new segment, with the table of all replicas, is durable under its name
//     before the seal that names it is written to the segment before, and that
//     seal is durable before the new segment takes a batch. So the newest
//     segment can't vanish unnoticed, and a segment that was never in use is
//     told from one that was destroyed.
//   - Segments are released only after the table that no longer needs them is
//     durable and sealed in. A segment is renamed, and the rename made durable,
//     before its content is overwritten.
//   - Recovery rewrites and syncs the tail that it read before it reports
//     anything, and goes on in a new segment.
//   - Any error of a write or a sync is final. Nothing is retried.
//
// The bytes are described in docs/formats/wal.md.
package wal

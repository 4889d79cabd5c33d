// Package basestore holds the applied state of all replicas of a node in one
// Pebble.
//
// The invariant it keeps: a batch carries the mutations of a run of commands
// together with the applied index C they lead to, its term and configuration,
// so the stored state of a group is always exactly that of its C. Batches are
// committed without a sync, in one order for all groups; Sync makes everything
// committed so far durable. After a crash every group is at some C that is at
// least the one Sync last reported, and all groups are cut from one prefix of
// the commit order.
//
// Streams, producers and tails that are in use are cached, bounded in bytes; a
// cached record is never older than the committed one. An idle stream costs no
// memory.
//
// docs/formats/basestore.md describes the keys and values.
package basestore

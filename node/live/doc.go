// Package live wakes the readers that wait at the tails of streams.
//
// The invariant it keeps: one append wakes every reader of its stream, costs
// one encode whatever their number, and never waits for any of them. A reader
// that falls behind the small window of recent events is sent to the store, so
// a slow one pins nothing. Every buffer is bounded in bytes, per stream and
// for the node, and an encoded event stays charged until its last reader has
// let it go.
//
// Order that must hold: a reader registers its watch first, then reads the
// stream's record and bytes, then waits. What was published before the watch
// is in the store; what is published after is in the watch.
package live

// Package stream is the deterministic state machine of one group's streams.
//
// Commands go in; mutations and results come out; state is read through a
// Loader. The invariant it keeps: the outcome of a command is a function of
// the command, its leader's stamp and the logical state. No clock, no I/O, no
// randomness, no map order, no cache residency and no batch boundary can change
// it, so every replica that applies the same log holds the same state.
//
// Rules that hold for every command:
//
//   - Group time is the largest stamp applied so far, and every decision about
//     time uses it. It moves also with a command that is refused.
//   - A refused write changes nothing of its stream. A write that succeeds, a
//     repeat included, renews a sliding TTL.
//   - Expiry is public only by an applied command. A command that addresses a
//     stream whose deadline has passed by group time removes it and then finds
//     it absent: a create makes a new incarnation, an append or a delete answers
//     not found, a touch does not revive it.
//   - The work is bounded by what the command names. Nothing is enumerated.
package stream

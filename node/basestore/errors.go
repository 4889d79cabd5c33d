package basestore

import "errors"

var (
	// ErrNoReplica says that the node holds no replica of the group, or another
	// one than the caller named.
	ErrNoReplica = errors.New("no such replica on this node")
	// ErrTombstoned says that the replica was destroyed, or is older than one
	// that was: its id must never be used again on this node.
	ErrTombstoned = errors.New("replica was destroyed on this node")
	// ErrBorn says that the replica, or another one of its group, was already
	// created on this node. A born replica is never created again, even when its
	// data is missing.
	ErrBorn = errors.New("replica was already born on this node")
	// ErrGone says that the asked bytes of a stream are not in the store: the
	// stream was deleted, or the range reaches past its tail.
	ErrGone = errors.New("stream bytes are gone")
	// ErrFormat says that the directory was written in a format that this
	// program can't read.
	ErrFormat = errors.New("base store format not supported")
	// ErrCorrupt says that stored data contradicts itself.
	ErrCorrupt = errors.New("base store is corrupt")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("base store is closed")
	// ErrFailed says that an earlier I/O error stopped all writing. The cause is
	// wrapped beside it.
	ErrFailed = errors.New("base store failed")

	errBatchDone = errors.New("batch was already committed or discarded")
)

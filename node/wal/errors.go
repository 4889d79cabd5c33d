package wal

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed ends Writes that were queued or enqueued at or after Close.
	ErrClosed = errors.New("wal: closed")
	// ErrFailed is wrapped by every error after the first failed write or sync.
	// The process must stop.
	ErrFailed = errors.New("wal: failed")
	// ErrInvalidWrite refuses one Write that would leave a gap or touch what was
	// cut. Nothing of it is in the log; the log goes on.
	ErrInvalidWrite = errors.New("wal: invalid write")
	// ErrGone answers a read whose segment was released.
	ErrGone = errors.New("wal: entry is gone")
)

// DamageError refuses a log, or a read, whose durable bytes are not what was
// written.
type DamageError struct {
	File   string
	Offset int64
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("wal: %s is damaged at offset %d: %s; restore the file, or remove this node's data and let the cluster replace it",
		e.File, e.Offset, e.Reason)
}

// VersionError refuses a segment of a newer format.
type VersionError struct {
	File      string
	Found     uint32
	Supported uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("wal: %s has format version %d, this binary reads up to version %d; run the newer version",
		e.File, e.Found, e.Supported)
}

// ClusterError refuses the data of another cluster.
type ClusterError struct {
	File            string
	Found, Expected uint64
}

func (e *ClusterError) Error() string {
	return fmt.Sprintf("wal: %s belongs to the cluster with fingerprint %016x, this node to %016x; check the data directory",
		e.File, e.Found, e.Expected)
}

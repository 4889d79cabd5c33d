package wal

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

// Replica names one replica: its group and its raft id. Ids are never reused.
type Replica struct {
	Group uint32
	ID    uint64
}

// Mark is a position in a replica's log: the index and term of an entry that
// is no longer, or never was, in it.
type Mark struct{ Index, Term uint64 }

// Ref says where one entry lies. Size is the length of the entry's data in
// bytes. A Ref stays good until the entry is cut, overwritten or forgotten.
type Ref struct {
	Index, Term uint64
	Segment     uint64
	Offset      int64
	Size        uint32
}

// Write is one replica's change. The caller fills it and must not touch it,
// nor the entries' data, until Done. Its parts take effect together, in the
// order Reset, Entries, State, Applied.
type Write struct {
	Replica Replica
	// State is the replica's hard state; nil leaves it unchanged.
	State *raftpb.HardState
	// Entries are contiguous. They replace whatever was at or above the first
	// one's index, which lies in (mark, last+1].
	Entries []raftpb.Entry
	// Reset drops the replica's whole log, which goes on after the mark.
	Reset *Mark
	// Applied is the durable C for the segment table; 0 leaves it unchanged.
	Applied uint64
	// Done is called once, after the sync or the failure, by the goroutine that
	// flushes or closes the log (by the caller of Enqueue when the log is
	// closed). It must not block and must not call Flush or Close.
	Done func(*Write)

	// Refs are set before Done, one for each entry; the slice is reused.
	Refs []Ref
	// Err is set before Done. After an error that wraps ErrFailed or ErrClosed
	// it is unknown whether the write is in the log.
	Err error

	bytes int64
}

// Defaults and limits of Options. Sizes are in bytes.
const (
	DefaultSegmentBytes  = 64 << 20
	DefaultMaxWriteBytes = 1 << 20
	MinSegmentBytes      = 16 << 10
	MinMaxWriteBytes     = 4 << 10
	// MaxEntryBytes bounds the data of one entry.
	MaxEntryBytes = 1 << 30
)

// Options configure a Log.
type Options struct {
	FS  vfs.FS
	Dir string
	// Cluster is the fingerprint of the cluster's id; 0 while it is unknown.
	Cluster uint64
	// SegmentBytes is where a segment ends, 64 MiB when 0.
	SegmentBytes int64
	// Recycle bounds the spare segments that are kept for reuse.
	Recycle int
	// MaxWriteBytes bounds one round and what one Write contributes to it,
	// 1 MiB when 0. A larger Write is split over several rounds.
	MaxWriteBytes int64
	// BallastBytes is the size of the ballast file; 0 keeps none.
	BallastBytes int64
	Logger       *slog.Logger
	// Live says whether a replica has a live local record. Replicas for which
	// it is false are dropped in recovery. nil keeps all.
	Live func(Replica) bool
	// Salt draws the random value that binds batches to their segment. nil uses
	// the system's randomness; a simulation may pass its own source.
	Salt func() uint64
}

// Recovery is what Open found.
type Recovery struct {
	// Cluster is the fingerprint that the log carries; 0 when it has none.
	Cluster  uint64
	Replicas []Recovered // ordered by group and id
	Dropped  []Replica   // not Live; ordered by group and id
	// Torn says that an unfinished batch was cut at Offset of Segment.
	Torn    bool
	Segment uint64
	Offset  int64
}

// Recovered is one replica's durable state. The log starts after Snapshot.
type Recovered struct {
	Replica
	State    raftpb.HardState
	Snapshot Mark
	Applied  uint64
	Refs     []Ref // contiguous, from Snapshot.Index+1
}

// Last returns the index and term of the last entry, or the snapshot's.
func (r *Recovered) Last() Mark {
	if n := len(r.Refs); n > 0 {
		return Mark{Index: r.Refs[n-1].Index, Term: r.Refs[n-1].Term}
	}
	return r.Snapshot
}

// SyncBounds are the upper bounds of the buckets of Stats.SyncBuckets; the last
// bucket has none.
var SyncBounds = [...]time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 400 * time.Microsecond, 800 * time.Microsecond,
	1600 * time.Microsecond, 3200 * time.Microsecond, 6400 * time.Microsecond, 12800 * time.Microsecond,
	25600 * time.Microsecond, 51200 * time.Microsecond, 102400 * time.Microsecond, 204800 * time.Microsecond,
	409600 * time.Microsecond, 819200 * time.Microsecond,
}

// Stats are counters since Open, and sizes in bytes.
type Stats struct {
	Segments     int   // in use
	Spares       int   // kept for reuse
	Bytes        int64 // of the segments in use
	QueueBytes   int64 // accepted and not yet completed
	QueueWrites  int64
	Rounds       uint64 // batches written and synced
	Writes       uint64 // completed in rounds
	WrittenBytes uint64 // in batches
	Rotations    uint64
	BufferBytes  int64 // memory of the write buffer
	BallastBytes int64
	// SyncTime is the sum over all rounds, SyncBuckets their count by duration.
	SyncTime    time.Duration
	SyncBuckets [len(SyncBounds) + 1]uint64
}

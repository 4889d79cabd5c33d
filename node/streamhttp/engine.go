package streamhttp

import (
	"context"
	"errors"
	"time"

	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/stream"
)

// ErrGone is what Engine.Read answers when the stream vanished, or its bytes
// were let go, between the lookup and the read.
var ErrGone = errors.New("stream is gone")

// ErrDiskPressure is what Engine.Propose answers when the node's disk is too
// full for a write that needs room; nothing was proposed.
var ErrDiskPressure = errors.New("the disk is nearly full")

// Engine is what the client plane needs of the node it runs in. All methods
// are safe for concurrent use.
//
// Every context passed carries a deadline, which bounds the call; its Done
// channel may be nil, so waits go by the deadline. Strings of keys and commands
// are parts of a whole request head: what keeps one clones it.
type Engine interface {
	// ClusterID names the deployment (extensions section 10): 1 to 64
	// characters of A-Z, a-z, 0-9, '.', '_' and '-'. Fixed for the process.
	ClusterID() string
	// Now is the node's wall clock.
	Now() time.Time
	// Locate says where a stream's group is. It reads published state only: no
	// lock that apply holds, no waiting.
	Locate(key stream.Key) Location
	// Propose replicates one command and returns its result once applied here.
	// The error is raftgroup.ErrNotLeader, ErrNoReplica, ErrBusy, ErrApplyStopped
	// or ErrDiskPressure, each of which proves that nothing was proposed, or
	// anything else, of which ErrOutcomeUnknown is one: the command may apply
	// or have applied.
	//
	// c itself is encoded before the call returns and never kept. c.Payload may
	// be read until the command's outcome is settled: the caller may reuse it
	// after a nil error or one of these refusals, and never otherwise.
	Propose(ctx context.Context, group uint32, c *stream.Command) (stream.Result, error)
	// Confirm returns nil when this node led the group during the call and its
	// applied state covers everything committed before it (ReadIndex).
	Confirm(ctx context.Context, group uint32) error
	// Lookup returns the stream's applied record, nil when there is none. The
	// record is shared and must not be changed.
	Lookup(group uint32, key stream.Key) (*stream.Stream, error)
	// Read appends the applied bytes [from, to) of a stream to dst. ErrGone when
	// the stream vanished; never fewer bytes without an error.
	Read(dst []byte, group uint32, id stream.ID, from, to uint64) ([]byte, error)
	// Watch registers a reader for what happens to a stream. The caller closes
	// the watch. Events published after Watch returns are seen by it.
	Watch(group uint32, id stream.ID) *live.Watch
	// Touch renews a sliding TTL through the group's shared touch command and
	// returns when that has applied. Errors as Propose's.
	Touch(ctx context.Context, group uint32, id stream.ID) error
	// Expire removes one stream by an applied command, which checks again by
	// group time that it has expired. Errors as Propose's.
	Expire(ctx context.Context, group uint32, id stream.ID) error
}

// Location says who serves a stream, as this node knows it now.
type Location struct {
	// Group is the id of the stream's group.
	Group uint32
	// Hosted says that this node holds a replica of it, Leads that the replica
	// leads it in Term.
	Hosted bool
	Leads  bool
	// LeaderID is the leader's replica id, 0 when none is known, LeaderURL its
	// node's client base URL without a trailing slash, "" when unknown, and Term
	// the term it leads in, 0 when unknown.
	LeaderID  uint64
	LeaderURL string
	Term      uint64
	// AnyURL is the client base URL of a node that hosts a replica; set when
	// this node hosts none, "" when none is known.
	AnyURL string
}

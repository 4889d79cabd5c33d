package stream

// ID is the internal id of a stream: unique within its group for ever, never
// reused by a recreate. Bytes and producers are keyed by it, so a deleted
// stream's leftovers can't be read by its successor.
type ID uint64

// Key is a stream's name: what clients address.
type Key struct {
	Bucket string
	Stream string
}

// String returns the key as it is hashed and logged: bucket, a slash, stream.
func (k Key) String() string { return k.Bucket + "/" + k.Stream }

// Group is the record a group keeps about itself.
type Group struct {
	// Time is the group's time in milliseconds since the Unix epoch: the
	// largest leader stamp applied so far. It never goes back.
	Time uint64
	// LastCreated is the creation stamp of the newest stream, in milliseconds.
	// Creation stamps rise strictly, so two incarnations never share a token.
	LastCreated uint64
	// LastID is the highest internal id handed out.
	LastID ID
	// Histories are the group's history ids, oldest first; the last is
	// current. Records name a history by its index here.
	Histories []uint64
}

// Stream is the replicated record of one stream.
type Stream struct {
	ID  ID
	Key Key
	// ContentType is the value given at creation, verbatim.
	ContentType string
	// Created is the strict creation stamp, in milliseconds.
	Created uint64
	// Tail is the offset after the last byte; Retained the earliest readable one.
	Tail     uint64
	Retained uint64
	Closed   bool
	Expiry   Expiry
	// Touched is the group time of the last replicated write or renewal, in
	// milliseconds. A sliding TTL runs from it.
	Touched uint64
	// Seq is the last accepted Stream-Seq; empty when none was.
	Seq string
	// Written is the index of the history in which the bytes last changed.
	Written uint32
	// Predecessor is set at the first write after a history rewrite.
	Predecessor *Predecessor
	// Floor is the epoch floor (extensions 5.4); valid when HasFloor.
	Floor    uint64
	HasFloor bool
	// Producers counts the stream's producer records.
	Producers uint32
}

// Expiry is a stream's lifetime: none, a sliding TTL or an absolute deadline.
type Expiry struct {
	// TTL is the sliding window in seconds; valid when HasTTL.
	TTL    uint64
	HasTTL bool
	// At is the absolute deadline in milliseconds since the epoch and AtText
	// the header value it was parsed from; set when AtText is not empty.
	At     uint64
	AtText string
}

// Predecessor names the history before the one in which a stream was last
// written, and the tail it had there.
type Predecessor struct {
	History uint32
	Tail    uint64
}

// Producer is the replicated record of one producer of one stream.
type Producer struct {
	Epoch uint64
	// Seq is the highest applied sequence number of Epoch.
	Seq uint64
	// Newest is the receipt and identity of the newest applied write.
	Newest Receipt
	// Claim is the identity of the write that opened Epoch.
	Claim Digest
	// ClaimHistory is the index of the history Epoch was claimed in.
	ClaimHistory uint32
	// ClosedEpoch and ClosedSeq name the epoch that the current claim closed
	// and its highest applied seq; valid when HasClosed.
	ClosedEpoch uint64
	ClosedSeq   uint64
	HasClosed   bool
	// OpenedBelowFloor marks state that a write without a token opened at or
	// below the stream's epoch floor (extensions 5.4).
	OpenedBelowFloor bool
	// LastWrite is the group time of the newest write, in milliseconds.
	LastWrite uint64
}

// Receipt describes one applied producer write.
type Receipt struct {
	Start  uint64
	End    uint64
	Closed bool
	Digest Digest
}

// Digest is an optional BLAKE3-256 body digest; part of a write's identity.
type Digest struct {
	Sum   [32]byte
	Given bool
}

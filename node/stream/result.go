package stream

// Outcome is what applying a command did, or why it did nothing.
type Outcome uint8

const (
	// Applied or already so.
	Created   Outcome = iota + 1 // a create made the stream
	Exists                       // a create found it with the same configuration
	Appended                     // an append or close applied
	Duplicate                    // a producer write that had already applied
	Deleted
	Touched // a touch or expire command: see Result.Count

	// Refused: nothing applied.
	NotFound
	ConfigConflict  // a create found another configuration
	StreamClosed    // the stream is closed
	TypeMismatch    // another media type than the stream's
	SeqConflict     // Stream-Seq not above the last accepted one
	ProducerGap     // seq above the next expected one: 409
	EpochNotClaimed // a newer epoch that does not start at seq 0: 400
	EpochStale      // an older epoch: 403
	ContentFault    // Result.Fault says which
	OutOfRange      // the stream's offsets, or the group's creation stamps, are used up
	KeyConflict     // the producer key holds a write with another identity: 403
)

// Result is the answer to one command.
type Result struct {
	Outcome Outcome
	Fault   Fault
	// Stream is the record after the command (before it, for a refusal); nil
	// when there is none. It must not be changed.
	Stream *Stream
	// Start and End are the range an append's bytes took; for a duplicate, the
	// range of the original write when Receipt is true.
	Start, End uint64
	Receipt    bool
	// ClosedByWrite says that this write, or the one it repeats, closed the stream.
	ClosedByWrite bool
	// Producer is the producer's record after the command (before it, for a
	// refusal); nil when there is none. It must not be changed.
	Producer *Producer
	// ExpectedSeq is set with ProducerGap and EpochNotClaimed.
	ExpectedSeq uint64
	// Count is how many of a touch's or an expire's ids it changed.
	Count int
}

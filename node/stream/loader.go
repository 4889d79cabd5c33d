package stream

// Loader reads a group's applied state. Results depend on the logical state
// alone, never on what happens to be in memory. Returned records are shared:
// callers copy before they change. An error stops the group's apply.
type Loader interface {
	// Group returns the group's record.
	Group() (*Group, error)
	// Lookup returns the record of the stream named key, nil when there is none.
	Lookup(key Key) (*Stream, error)
	// Stream returns the record of the stream with the internal id, nil when there is none.
	Stream(id ID) (*Stream, error)
	// Producer returns a stream's producer record, nil when there is none.
	Producer(id ID, producer string) (*Producer, error)
}

// Mutations are what a run of commands changed, in an order that depends on
// the commands alone: written to the base store as one atomic batch.
type Mutations struct {
	// Group is set when the group's record changed.
	Group *Group
	// Removed are streams that existed before the run and are gone after it:
	// their name (unless Put re-uses it), record, producers and bytes go.
	Removed []*Stream
	// Put are created or changed stream records, each once, in its final state.
	Put []*Stream
	// Producers are created or changed producer records, each once.
	Producers []ProducerPut
	// Appends are new bytes in the order they were applied. Bytes of streams
	// removed again within the run are left out.
	Appends []Append
}

// ProducerPut is one producer record to write.
type ProducerPut struct {
	Stream   ID
	ID       string
	Producer *Producer
}

// Append is bytes that a stream gained at Offset. Data aliases the command.
type Append struct {
	Stream ID
	Offset uint64
	Data   []byte
}

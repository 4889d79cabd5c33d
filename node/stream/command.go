package stream

// Kind names what a command does. Values are part of the log format.
type Kind uint8

const (
	KindCreate Kind = 1
	KindAppend Kind = 2 // an append, a close, or both
	KindDelete Kind = 3
	KindTouch  Kind = 4 // renews the sliding TTL of the named streams
	KindExpire Kind = 5 // removes the named streams, each re-checked by group time
)

// Fault is a content fault that the proposer found in a producer write
// (extensions 5.3, step 5). Such a write is proposed without its payload, so
// that the producer rules, decided in apply, come first.
type Fault uint8

const (
	FaultNone               Fault = 0
	FaultMissingContentType Fault = 1
	FaultEmptyBody          Fault = 2
	FaultInvalidJSON        Fault = 3
	FaultDigestMismatch     Fault = 4
)

// MaxIDs is how many streams one touch or expire names at most. Proposers cut
// longer lists, so that the work of one command is bounded.
const MaxIDs = 1024

// Command is one change to one group, as it stands in the log. Fields that its
// Kind does not have are not stored.
type Command struct {
	Kind Kind
	// Key is the addressed stream (create, append, delete).
	Key Key
	// IDs are the named streams of a touch or an expire.
	IDs []ID

	// ContentType is a create's Content-Type, verbatim; the proposer fills in
	// the default. Expiry is the lifetime that a create asks for.
	ContentType string
	Expiry      Expiry

	// MediaType is the normalized media type of an append's Content-Type: lower
	// case, without parameters. Empty when the request had none.
	MediaType string
	// Close closes the stream: Stream-Closed: true on a create or an append.
	Close bool
	// Seq is the request's Stream-Seq; empty means none.
	Seq string
	// Producer is nil for a write without producer headers.
	Producer *ProducerKey
	// Fault is found in the request alone (its JSON is judged by its own media
	// type, not by the stream's), so it stays true whatever applies before it.
	Fault Fault
	// Messages counts the JSON messages in Payload; 0 for other types.
	Messages uint32

	// Payload is the stream's new bytes, already in stored form. Decode
	// returns it as a slice of its input.
	Payload []byte
}

// ProducerKey is the key of a producer write (extensions 5.1) with the
// identity its Producer-Digest gives it.
type ProducerKey struct {
	ID     string
	Epoch  uint64
	Seq    uint64
	Digest Digest
}

// ProducerRef names a producer of the stream that has the key when the command
// is applied.
type ProducerRef struct {
	Key Key
	ID  string
}

// Keys returns what state the command reads: stream names, producers and
// internal ids. A shard loads them before it applies; the lists are complete,
// so that apply then finds everything resident.
func (c *Command) Keys() ([]Key, []ProducerRef, []ID) {
	switch c.Kind {
	case KindCreate, KindDelete:
		return []Key{c.Key}, nil, nil
	case KindAppend:
		if c.Producer == nil {
			return []Key{c.Key}, nil, nil
		}
		return []Key{c.Key}, []ProducerRef{{Key: c.Key, ID: c.Producer.ID}}, nil
	case KindTouch, KindExpire:
		return nil, nil, c.IDs
	default:
		return nil, nil, nil
	}
}

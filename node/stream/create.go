package stream

import "runnel.dev/runnel/node/protocol"

const (
	// maxCreated bounds creation stamps, in milliseconds: incarnation tokens
	// are a bijection of them within 52 bits (extensions 2.4).
	maxCreated = 1<<52 - 1
	// MaxOffset is the largest tail a stream reaches: every offset and byte
	// count is exact in a double.
	MaxOffset = 1<<53 - 1
)

func (t *Tx) create(c *Command, now uint64) (Result, error) {
	e, err := t.live(c.Key, now)
	if err != nil {
		return Result{}, err
	}
	if e.cur != nil {
		if !sameConfig(e.cur, c) {
			return Result{Outcome: ConfigConflict, Stream: e.cur}, nil
		}
		t.renew(e, now)
		return Result{Outcome: Exists, Stream: e.cur}, nil
	}
	// Strictly above every earlier one: a recreate within one millisecond, or
	// under a slower clock, must not get its predecessor's token.
	created := max(t.group.LastCreated+1, now)
	if created > maxCreated || uint64(len(c.Payload)) > MaxOffset {
		return Result{Outcome: OutOfRange}, nil
	}
	g := t.ownGroup()
	g.LastCreated = created
	g.LastID++
	s := &Stream{
		ID:          g.LastID,
		Key:         c.Key,
		ContentType: c.ContentType,
		Created:     created,
		Tail:        uint64(len(c.Payload)),
		Closed:      c.Close,
		Expiry:      c.Expiry,
		Touched:     now,
		Written:     t.history(),
	}
	t.insert(s)
	if len(c.Payload) > 0 {
		t.appends = append(t.appends, Append{Stream: s.ID, Data: c.Payload})
	}
	return Result{Outcome: Created, Stream: s, End: s.Tail, ClosedByWrite: s.Closed}, nil
}

// sameConfig compares what a create configures with what the stream is now;
// the closed flag is the current one, and the body takes no part.
func sameConfig(s *Stream, c *Command) bool {
	return sameType(s.ContentType, c.ContentType) &&
		s.Closed == c.Close &&
		sameExpiry(s.Expiry, c.Expiry)
}

// sameExpiry compares deadlines as instants, however they are written.
func sameExpiry(a, b Expiry) bool {
	if a.HasTTL != b.HasTTL || (a.AtText == "") != (b.AtText == "") {
		return false
	}
	return (!a.HasTTL || a.TTL == b.TTL) && (a.AtText == "" || a.At == b.At)
}

// sameType compares two content types by media type, and by their text when
// that names none.
func sameType(a, b string) bool {
	if a == b {
		return true
	}
	m := protocol.MediaType(a)
	return m != "" && m == protocol.MediaType(b)
}

func (t *Tx) delete(c *Command, now uint64) (Result, error) {
	e, err := t.live(c.Key, now)
	if err != nil {
		return Result{}, err
	}
	if e.cur == nil {
		return Result{Outcome: NotFound}, nil
	}
	t.remove(e)
	return Result{Outcome: Deleted}, nil
}

package streamhttp

import (
	"errors"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/stream"
)

// read answers a GET.
func (h *Handler) read(x http1.Exchange, req *http1.Request, key stream.Key) {
	q, err := parseReadQuery(req.RawQuery)
	if err != nil {
		h.refuse(x, err)
		return
	}
	l := lookup{h: h, x: x, key: key, loc: h.engine.Locate(key), touch: true}
	switch q.live {
	case protocol.LongPoll:
		h.longPoll(&l, &q)
	case protocol.SSE:
		h.sse(&l, &q)
	default:
		h.catchUp(&l, &q)
	}
}

// catchUp answers a read of what is there now. Bytes come from any replica
// that has applied them; consistency=leader is confirmed first.
func (h *Handler) catchUp(l *lookup, q *readQuery) {
	switch {
	case !l.loc.Hosted:
		h.sendAway(l.x, l.loc)
		return
	case q.consistency == protocol.LeaderRead && !l.confirm():
		return
	}
	for range lookupTries {
		st := l.find()
		if st == nil {
			return
		}
		from, ok, again := l.locate(st, q.position)
		if again {
			continue
		}
		if !ok || h.answerRead(l, st, from, q, "") {
			return
		}
	}
	h.noLeader(l.x, l.loc.Group)
}

// readFloor is what a read is given when the budget is used up.
const readFloor = 16 << 10

// answerRead answers with the bytes from a position of st on. It returns
// false, and has not answered, when st is gone. cursor is set for live answers.
func (h *Handler) answerRead(l *lookup, st *stream.Stream, from uint64, q *readQuery, cursor string) bool {
	granted := h.reads.grant(int64(min(st.Tail-from, q.maxBytes)), readFloor)
	defer h.reads.free(granted)
	r := readRange{from: from, to: from + uint64(granted)}
	r.ends = r.to == st.Tail
	r.closed = r.ends && st.Closed
	r.noTag = q.position.Anchor == protocol.FromNow && q.live == protocol.NotLive
	if granted > 0 && !h.unchanged(l.x, st, &r) {
		b := getBuffer(int(granted))
		defer putBuffer(b)
		var err error
		if b.b, err = h.engine.Read(b.b, l.loc.Group, st.ID, r.from, r.to); err != nil {
			if errors.Is(err, ErrGone) {
				return false
			}
			h.failRead(l.x, l.key, err)
			return true
		}
		r.body = b.b
	}
	h.answerRange(l, st, r, cursor)
	return true
}

// readRange is what an answer to a read carries.
type readRange struct {
	from, to uint64
	// ends says that to is the tail, closed that it is the stream's end.
	ends, closed bool
	// noTag leaves the ETag out: the answer to offset=now is not repeatable.
	noTag bool
	body  []byte
}

func (r *readRange) tag(st *stream.Stream) string {
	return string(protocol.AppendETag(nil, st.Created, protocol.Offset(r.from), protocol.Offset(r.to), r.closed))
}

// unchanged says that the client named the answer it already has.
func (h *Handler) unchanged(x http1.Exchange, st *stream.Stream, r *readRange) bool {
	if r.noTag {
		return false
	}
	known := x.Request().Header.Values(protocol.HeaderIfNoneMatch)
	return len(known) > 0 && protocol.MatchETag(known, r.tag(st))
}

// answerRange answers 200 with r, or 304 when the client has it.
func (h *Handler) answerRange(l *lookup, st *stream.Stream, r readRange, cursor string) {
	status := 200
	if h.unchanged(l.x, st, &r) {
		status, r.body = 304, nil
	}
	if !r.noTag {
		l.x.SetHeader(protocol.HeaderETag, r.tag(st))
	}
	l.x.SetHeader(protocol.HeaderContentType, protocol.ReadType(st.ContentType))
	var s scratch
	setPosition(l.x, &s, r.to, r.ends, r.closed, cursor)
	h.answer(l.x, status, r.body)
}

// setPosition says where an answer ends. Only an answer that reaches the tail
// is up to date, and only one that reaches the end of a closed stream closes.
func setPosition(x http1.Exchange, s *scratch, next uint64, upToDate, closed bool, cursor string) {
	s.setOffset(x, protocol.HeaderStreamNextOffset, next)
	if upToDate {
		setTrue(x, protocol.HeaderStreamUpToDate)
	}
	if closed {
		setTrue(x, protocol.HeaderStreamClosed)
	} else if cursor != "" {
		x.SetHeader(protocol.HeaderStreamCursor, cursor)
	}
}

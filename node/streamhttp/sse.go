package streamhttp

import (
	"errors"
	"time"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/stream"
)

const (
	// storeEvent bounds the bytes of an event that a reader takes from the
	// store: what one slow reader can hold.
	storeEvent = 256 << 10
	// flushBytes is how much of a burst of events goes into one flush.
	flushBytes = 32 << 10
	// minTextBytes lets a text event hold any UTF-8 character.
	minTextBytes = 4
)

// events is a running SSE answer.
type events struct {
	*reader
	out    http1.StreamWriter
	format live.Format
	max    uint64
	// pos is the reader's position. It is behind the tail it has seen only
	// while the text there ends inside a character.
	pos      uint64
	unsent   int
	deadline time.Time
	buf      [192]byte
}

// sse answers a live=sse read. Faults before the first event are plain answers.
func (h *Handler) sse(l *lookup, q *readQuery) {
	if !h.admit(l) {
		return
	}
	defer h.leave()
	r, st, from := h.open(l, q)
	if r == nil {
		return
	}
	defer r.close()
	e := &events{reader: r, max: q.maxBytes, pos: from}
	x := l.x
	x.AddBlock(h.events)
	x.SetHeader(protocol.HeaderContentType, protocol.TypeEventStream)
	x.SetHeader(protocol.HeaderStreamDataContentType, protocol.ReadType(st.ContentType))
	if mt := protocol.MediaType(st.ContentType); protocol.IsJSON(mt) || protocol.IsText(mt) {
		e.max = max(e.max, minTextBytes)
	} else {
		e.format = live.Base64
		x.SetHeader(protocol.HeaderStreamSSEDataEncoding, protocol.ValueBase64)
	}
	e.out = x.Stream(200)
	e.run(st, x.Done())
}

// run sends events until the stream or the watch ends, or the client is gone.
// It alternates between the store, until it has reached the tail, and the
// watch, until it falls behind.
func (e *events) run(st *stream.Stream, done <-chan struct{}) {
	for first := true; ; first = false {
		caughtUp := e.catchUp(st, first)
		if !caughtUp {
			return
		}
		reason, ok := e.follow(st.Tail, done)
		if !ok {
			return
		}
		if reason != 0 {
			e.fail(endCode(reason))
			return
		}
		next, err := e.refresh()
		switch {
		case err != nil:
			e.fail(protocol.CodeInternal)
			return
		case next == nil:
			e.fail(protocol.CodeStreamNotFound)
			return
		}
		st = next
	}
}

// catchUp sends what the store holds from the reader's position to the tail.
// With first, or at the end of a closed stream, it says at least where the
// reader is. It returns false when the answer is over.
func (e *events) catchUp(st *stream.Stream, first bool) bool {
	said := !first
	for e.pos < st.Tail {
		n, err := e.sendStored(st)
		if errors.Is(err, ErrGone) {
			e.fail(protocol.CodeStreamNotFound)
			return false
		}
		if err != nil {
			e.fail(protocol.CodeInternal)
			return false
		}
		if n == 0 {
			break // the rest of a character has yet to come
		}
		said = true
		atEnd := st.Closed && e.pos == st.Tail
		if !e.flush() || atEnd {
			return false
		}
	}
	if st.Closed {
		// The tail is reached, and no event has said that it is the end.
		e.control(true, true)
		e.flush()
		return false
	}
	if !said {
		e.control(e.pos == st.Tail, false)
	}
	return e.flush()
}

// sendStored writes one data event from the store, and its control event.
// n is 0 when the bytes there are the beginning of a character.
func (e *events) sendStored(st *stream.Stream) (n int, err error) {
	h := e.h
	want := min(st.Tail-e.pos, e.max, storeEvent)
	granted := h.reads.grant(int64(want), readFloor)
	defer h.reads.free(granted)
	b := getBuffer(int(granted))
	defer putBuffer(b)
	if b.b, err = h.engine.Read(b.b, e.loc.Group, e.id, e.pos, e.pos+uint64(granted)); err != nil {
		return 0, err
	}
	data := b.b
	atTail := e.pos+uint64(granted) == st.Tail
	if e.format == live.Text && !(atTail && st.Closed) {
		data = wholeText(data, atTail)
	}
	if len(data) == 0 {
		return 0, nil
	}
	frame := getBuffer(live.DataSize(e.format, data))
	defer putBuffer(frame)
	frame.b = live.AppendData(frame.b, e.format, data)
	e.pos += uint64(len(data))
	e.write(frame.b)
	ends := e.pos == st.Tail
	e.control(ends, ends && st.Closed)
	return len(data), nil
}

// wholeText cuts text where a reader may pause: not inside a character, and,
// when more follows at once, not between CR and LF.
func wholeText(data []byte, atTail bool) []byte {
	data = data[:live.TextBoundary(data)]
	if n := len(data); !atTail && n > 1 && data[n-1] == '\r' {
		data = data[:n-1]
	}
	return data
}

// follow sends events as they are published, from a reader that has seen the
// stream up to seen. It returns when the reader has to look at the store, with
// a reason when the watch is over, and ok false when the answer is.
func (e *events) follow(seen uint64, done <-chan struct{}) (reason live.Reason, ok bool) {
	for {
		u, have := e.watch.Poll(seen)
		if !have || e.unsent >= flushBytes {
			if !e.flush() {
				release(&u)
				return 0, false
			}
		}
		if !have {
			u = e.next(seen, time.Time{}, done)
		}
		switch u.State {
		case live.Ready:
			sent := e.pos == seen && e.sendShared(&u)
			closed := u.Closed
			release(&u)
			if !sent {
				return 0, e.flush()
			}
			seen = e.pos
			if closed {
				e.flush()
				return 0, false
			}
		case live.Ended:
			return u.Reason, e.flush()
		case live.Done:
			return 0, false
		default:
			return 0, e.flush()
		}
	}
}

func release(u *live.Update) {
	if u.Chunk != nil {
		u.Chunk.Release()
	}
}

// sendShared writes an event that all readers at this position share.
func (e *events) sendShared(u *live.Update) bool {
	c := u.Chunk
	if c.To-c.From > e.max {
		return false
	}
	frame, ok := c.Frame(e.format)
	if !ok {
		return false
	}
	e.pos = c.To
	e.write(frame)
	e.control(u.UpToDate, u.Closed)
	return true
}

func (e *events) control(upToDate, closed bool) {
	e.write(live.AppendControl(e.buf[:0], live.Control{Next: e.pos, Cursor: e.nextCursor(), UpToDate: upToDate, Closed: closed}))
}

// fail ends the answer with an error event.
func (e *events) fail(code protocol.Code) {
	e.write(live.AppendError(e.buf[:0], protocol.AppendErrorBody(nil, code, "")))
	e.flush()
}

func endCode(reason live.Reason) protocol.Code {
	if reason == live.Deleted {
		return protocol.CodeStreamNotFound
	}
	return protocol.CodeNoLeader
}

// write buffers a part of an event. Its error, if any, is the flush's.
func (e *events) write(p []byte) {
	if e.unsent == 0 {
		e.hold()
	}
	e.unsent += len(p)
	_, _ = e.out.Write(p)
}

// flush sends what is buffered; false when the client went away or does not read.
func (e *events) flush() bool {
	if e.unsent == 0 {
		return true
	}
	e.hold()
	e.unsent = 0
	return e.out.Flush() == nil
}

// hold keeps the write deadline between half and all of the flush timeout
// away, so that a busy reader does not set it with every event.
func (e *events) hold() {
	timeout := e.h.config.FlushTimeout
	if now := time.Now(); e.deadline.Sub(now) < timeout/2 {
		e.deadline = now.Add(timeout)
		_ = e.out.SetWriteDeadline(e.deadline)
	}
}

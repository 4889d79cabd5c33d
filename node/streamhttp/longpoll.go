package streamhttp

import (
	"strconv"
	"time"

	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/stream"
)

// longPoll answers a live=long-poll read: what is there, or what comes within
// the timeout, or 204.
func (h *Handler) longPoll(l *lookup, q *readQuery) {
	if !h.admit(l) {
		return
	}
	defer h.leave()
	until := time.Now().Add(q.timeout)
	r, st, from := h.open(l, q)
	if r == nil {
		return
	}
	defer r.close()
	for {
		if from < st.Tail {
			if !h.answerRead(l, st, from, q, r.cursorText()) {
				h.endPoll(l, live.Deleted, from)
			}
			return
		}
		if st.Closed {
			h.answerPoll(l, from, true, "")
			return
		}
		u := r.next(from, until, l.x.Done())
		switch u.State {
		case live.Ready:
			answered := h.answerEvent(l, st, q, &u, r.cursorText())
			u.Chunk.Release()
			if answered {
				return
			}
		case live.TimedOut, live.Done:
			h.answerPoll(l, from, false, r.cursorText())
			return
		case live.Ended:
			h.endPoll(l, u.Reason, from)
			return
		}
		next, err := r.refresh()
		if err != nil {
			h.failRead(l.x, l.key, err)
			return
		}
		if next == nil {
			h.endPoll(l, live.Deleted, from)
			return
		}
		st = next
	}
}

// answerEvent answers with the event that woke the reader, without a look at
// the store, when it is all there is.
func (h *Handler) answerEvent(l *lookup, st *stream.Stream, q *readQuery, u *live.Update, cursor string) bool {
	c := u.Chunk
	if !u.UpToDate || uint64(len(c.Data())) > q.maxBytes {
		return false
	}
	h.answerRange(l, st, readRange{from: c.From, to: c.To, ends: true, closed: u.Closed, body: c.Data()}, cursor)
	return true
}

// answerPoll answers a long-poll that found nothing.
func (h *Handler) answerPoll(l *lookup, tail uint64, closed bool, cursor string) {
	var s scratch
	setPosition(l.x, &s, tail, true, closed, cursor)
	h.answer(l.x, 204, nil)
}

// endPoll answers a long-poll whose watch ended. The stream may have been made
// anew meanwhile: the position then says nothing about it.
func (h *Handler) endPoll(l *lookup, reason live.Reason, from uint64) {
	if reason != live.Deleted {
		h.refuseRead(l.x, l.key, raftgroup.ErrNotLeader)
		return
	}
	l.confirmed = false
	if !l.confirm() {
		return
	}
	st := l.find()
	if st == nil {
		return
	}
	if from > st.Tail {
		l.locate(st, protocol.Position{Anchor: protocol.FromOffset, Offset: protocol.Offset(from)})
		return
	}
	h.refuse(l.x, faultNotFound)
}

func (r *reader) cursorText() string { return strconv.FormatUint(r.nextCursor(), 10) }

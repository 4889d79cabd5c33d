package streamhttp

import (
	"context"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/stream"
)

// lookupTries bounds how often a read starts over because the stream expired,
// was renewed or was replaced while it looked.
const lookupTries = 4

// lookup finds the stream a read is about. What only the leader may say is
// confirmed by it, at most once.
type lookup struct {
	h   *Handler
	x   http1.Exchange
	key stream.Key
	loc Location
	// touch is set while the read has still to renew a sliding TTL.
	touch     bool
	confirmed bool
}

// confirm makes sure that this node leads and has applied what was committed
// before the request. It answers and returns false otherwise.
func (l *lookup) confirm() bool {
	l.confirmed = l.confirmed || l.asLeader(l.h.engine.Confirm)
	return l.confirmed
}

// asLeader does what only the leader does. A node that does not lead sends the
// request there. An applied touch or expire confirms nothing: it may have joined
// a command that was proposed before this request came.
func (l *lookup) asLeader(round func(ctx context.Context, group uint32) error) bool {
	if !l.loc.Leads {
		l.h.sendAway(l.x, l.loc)
		return false
	}
	ctx, cancel := l.h.bounded()
	defer cancel()
	if err := round(ctx, l.loc.Group); err != nil {
		l.h.refuseRead(l.x, l.key, err)
		return false
	}
	return true
}

func (l *lookup) expire(id stream.ID) bool {
	return l.asLeader(func(ctx context.Context, group uint32) error { return l.h.engine.Expire(ctx, group, id) })
}

func (l *lookup) renew(id stream.ID) bool {
	l.touch = false
	return l.asLeader(func(ctx context.Context, group uint32) error { return l.h.engine.Touch(ctx, group, id) })
}

// find returns the stream's record; nil when the request was answered. That
// the stream is absent is said only once it is confirmed; that it has expired
// only once an expire has applied, so that two leaders' clocks never disagree
// in public; and a read that renews a sliding TTL waits until that is
// replicated, so that no failover forgets it.
func (l *lookup) find() *stream.Stream {
	for range lookupTries {
		st, err := l.h.engine.Lookup(l.loc.Group, l.key)
		if err != nil {
			l.h.failRead(l.x, l.key, err)
			return nil
		}
		if st == nil {
			if l.confirmed {
				l.h.refuse(l.x, faultNotFound)
				return nil
			}
			if !l.confirm() {
				return nil
			}
			continue
		}
		now := uint64(l.h.engine.Now().UnixMilli())
		switch {
		case st.ExpiredAt(now):
			if !l.expire(st.ID) {
				return nil
			}
		case l.touch && st.NeedsTouch(now):
			if !l.renew(st.ID) {
				return nil
			}
		default:
			return st
		}
	}
	// The stream changed under every look: somebody else's requests won.
	l.h.noLeader(l.x, l.loc.Group)
	return nil
}

// locate returns the position a read starts at within st. ok is false when it
// was answered, again true is to look once more, now confirmed.
func (l *lookup) locate(st *stream.Stream, p protocol.Position) (from uint64, ok, again bool) {
	switch p.Anchor {
	case protocol.FromNow:
		return st.Tail, true, false
	case protocol.FromOffset:
		from = uint64(p.Offset)
	}
	if from >= st.Retained && from <= st.Tail {
		return from, true, false
	}
	if !l.confirmed {
		return 0, false, l.confirm()
	}
	var s scratch
	if from > st.Tail {
		s.setOffset(l.x, protocol.HeaderStreamNextOffset, st.Tail)
		l.h.refuse(l.x, &protocol.Error{Code: protocol.CodeOffsetOutOfRange})
	} else {
		s.setOffset(l.x, protocol.HeaderStreamNextOffset, st.Retained)
		l.h.refuse(l.x, &protocol.Error{Code: protocol.CodeStreamGone})
	}
	return 0, false, false
}

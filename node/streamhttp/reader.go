package streamhttp

import (
	"errors"
	"math/rand/v2"
	"time"

	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/stream"
)

// reader is an open live read. It lives on the leader, in one term and one
// incarnation of the stream: a watch that ends means that this is over.
type reader struct {
	h      *Handler
	key    stream.Key
	loc    Location
	watch  *live.Watch
	id     stream.ID
	expiry stream.Expiry
	cursor string // the request's
	timer  *time.Timer
	tendAt time.Time // when to look after the stream's lifetime next
}

// open registers a live reader and returns the confirmed record of its stream
// and the position it starts at. r is nil when the request was answered.
//
// The order must hold: watch, then confirm, then look. What applied before the
// look is in the record, what applies after the watch wakes it, and a change
// of term after the confirmation ends it.
func (h *Handler) open(l *lookup, q *readQuery) (r *reader, st *stream.Stream, from uint64) {
	for range lookupTries {
		if st = l.find(); st == nil {
			return nil, nil, 0
		}
		id, w := st.ID, h.engine.Watch(l.loc.Group, st.ID)
		// What find may have confirmed was before the watch.
		l.confirmed = false
		if l.confirm() {
			st = l.find()
		} else {
			st = nil
		}
		if st == nil {
			w.Close()
			return nil, nil, 0
		}
		if st.ID != id {
			w.Close()
			continue
		}
		from, ok, _ := l.locate(st, q.position)
		if !ok {
			w.Close()
			return nil, nil, 0
		}
		return &reader{h: h, key: l.key, loc: l.loc, watch: w, id: id, expiry: st.Expiry, cursor: q.cursor}, st, from
	}
	h.noLeader(l.x, l.loc.Group)
	return nil, nil, 0
}

// admit takes one of the node's live readers; leave gives it back.
func (h *Handler) admit(l *lookup) bool {
	if !l.loc.Leads {
		h.sendAway(l.x, l.loc)
		return false
	}
	if h.live.Add(1) > h.config.LiveReaders {
		h.leave()
		h.refuse(l.x, faultLiveReaders)
		return false
	}
	if err := discardBody(l.x); err != nil {
		h.leave()
		h.refuseBody(l.x, err)
		return false
	}
	return true
}

func (h *Handler) leave() { h.live.Add(-1) }

func (r *reader) close() {
	r.watch.Close()
	if r.timer != nil {
		r.timer.Stop()
	}
}

// next waits for something to do at pos, at most until the given instant; the
// zero time is for ever. An open reader keeps its stream alive meanwhile: it
// renews a sliding TTL in time, and it sees to it that a deadline is kept.
func (r *reader) next(pos uint64, until time.Time, done <-chan struct{}) live.Update {
	for {
		now := time.Now()
		if !until.IsZero() && !now.Before(until) {
			if u, ok := r.watch.Poll(pos); ok {
				return u
			}
			return live.Update{State: live.TimedOut}
		}
		wake := until
		if r.expiry.HasTTL || r.expiry.AtText != "" {
			if !r.tend(now) {
				return live.Update{State: live.Ended, Reason: live.Moved}
			}
			if wake.IsZero() || r.tendAt.Before(wake) {
				wake = r.tendAt
			}
		}
		if u := r.watch.Next(pos, done, r.alarm(now, wake)); u.State != live.TimedOut {
			return u
		}
	}
}

// alarm returns a channel that fires at an instant, nil for the zero time.
func (r *reader) alarm(now, at time.Time) <-chan time.Time {
	switch {
	case at.IsZero():
		return nil
	case r.timer == nil:
		r.timer = time.NewTimer(at.Sub(now))
	default:
		r.timer.Reset(at.Sub(now))
	}
	return r.timer.C
}

const (
	// minTend and maxTend bound how often a reader looks after its stream.
	minTend = 100 * time.Millisecond
	maxTend = time.Hour
)

// tend renews or expires the stream when it is time to. It returns false when
// this node no longer can.
func (r *reader) tend(now time.Time) bool {
	if now.Before(r.tendAt) {
		return true
	}
	r.tendAt = now.Add(minTend)
	st, err := r.h.engine.Lookup(r.loc.Group, r.key)
	if err != nil {
		return false
	}
	if st == nil || st.ID != r.id {
		return true // removed: the end of the watch is on its way
	}
	clock := uint64(r.h.engine.Now().UnixMilli())
	renewal := renewalAt(st)
	ctx, cancel := r.h.bounded()
	defer cancel()
	switch {
	case st.ExpiredAt(clock):
		err = r.h.engine.Expire(ctx, r.loc.Group, r.id)
	case clock >= renewal:
		err = r.h.engine.Touch(ctx, r.loc.Group, r.id)
	default:
		deadline, _ := st.Deadline()
		wait := min(renewal, deadline) - clock
		r.tendAt = now.Add(max(minTend, time.Duration(min(wait, uint64(maxTend/time.Millisecond)))*time.Millisecond))
	}
	return err == nil || !errors.Is(err, raftgroup.ErrNotLeader) && !errors.Is(err, raftgroup.ErrNoReplica) && !errors.Is(err, raftgroup.ErrApplyStopped)
}

// renewalAt is the group time from which an open reader renews a sliding TTL:
// a quarter of the window after the last renewal.
func renewalAt(st *stream.Stream) uint64 {
	const never = 1<<64 - 1
	if !st.Expiry.HasTTL || st.Expiry.TTL > never/1000 {
		return never
	}
	quarter := st.Expiry.TTL * 1000 / 4
	if quarter > never-st.Touched {
		return never
	}
	return st.Touched + quarter
}

// refresh returns the stream's record as of now; nil when the incarnation the
// reader follows is gone.
func (r *reader) refresh() (*stream.Stream, error) {
	st, err := r.h.engine.Lookup(r.loc.Group, r.key)
	if err != nil || st == nil || st.ID != r.id {
		return nil, err
	}
	return st, nil
}

// nextCursor is the cursor of the next live answer.
func (r *reader) nextCursor() uint64 {
	return protocol.Cursor(r.h.engine.Now(), r.cursor, rand.IntN)
}

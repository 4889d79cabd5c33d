package stream

import "math"

const (
	millisPerSecond = 1000
	// graceFromTTL is the TTL, in seconds, from which reads may leave up to a
	// quarter of the window unreplicated. Expiry allows for that quarter.
	graceFromTTL = 60
	// quarter is a quarter of a second, in milliseconds: TTL * quarter is a
	// quarter of the window, exactly.
	quarter = millisPerSecond / 4
)

// Deadline returns the group time, in milliseconds, at which the stream
// expires unless it is touched before; ok is false when it never does. A
// sliding TTL of 60 s or more ends a quarter of the window late, because a read
// renews it only once a quarter of it is gone (NeedsTouch); a shorter one, which
// every read renews, ends exactly.
func (s *Stream) Deadline() (millis uint64, ok bool) {
	millis = math.MaxUint64
	if s.Expiry.HasTTL {
		window := mul(s.Expiry.TTL, millisPerSecond)
		if s.Expiry.TTL >= graceFromTTL {
			window = add(window, mul(s.Expiry.TTL, quarter))
		}
		millis = add(s.Touched, window)
	}
	if s.Expiry.AtText != "" {
		millis = min(millis, s.Expiry.At)
	}
	return millis, millis != math.MaxUint64
}

// ExpiredAt reports that the stream's lifetime is over at nowMillis, a clock
// reading or a group time. A reader that sees it waits for an applied expire
// before it answers 404: the clock alone makes nothing public.
func (s *Stream) ExpiredAt(nowMillis uint64) bool {
	deadline, ok := s.Deadline()
	// Touched is a group time, so a clock behind it is late.
	return ok && max(nowMillis, s.Touched) >= deadline
}

// NeedsTouch reports that a read at nowMillis waits for a replicated touch
// before it is answered: the last one is older than a quarter of the TTL, or
// the TTL is under 60 s, where every read renews.
func (s *Stream) NeedsTouch(nowMillis uint64) bool {
	if !s.Expiry.HasTTL {
		return false
	}
	if s.Expiry.TTL < graceFromTTL {
		return true
	}
	return nowMillis > add(s.Touched, mul(s.Expiry.TTL, quarter))
}

// touch renews the named streams' sliding TTLs. A stream whose deadline has
// passed by group time is not revived but removed, so that the reader that
// asked finds it gone.
func (t *Tx) touch(c *Command, now uint64) (Result, error) {
	r := Result{Outcome: Touched}
	for _, id := range c.IDs {
		e, err := t.byID(id)
		if err != nil {
			return Result{}, err
		}
		if e.cur == nil || t.expire(e, now) {
			continue
		}
		if t.renew(e, now) {
			r.Count++
		}
	}
	return r, nil
}

// expireNamed removes those named streams whose deadline has passed by group
// time. The proposer's clock chose them; the group's time decides.
func (t *Tx) expireNamed(c *Command, now uint64) (Result, error) {
	r := Result{Outcome: Touched}
	for _, id := range c.IDs {
		e, err := t.byID(id)
		if err != nil {
			return Result{}, err
		}
		if e.cur != nil && t.expire(e, now) {
			r.Count++
		}
	}
	return r, nil
}

// expire removes e's stream when its lifetime is over by group time.
func (t *Tx) expire(e *entry, now uint64) bool {
	if !e.cur.ExpiredAt(now) {
		return false
	}
	t.remove(e)
	return true
}

// renew moves the start of a sliding TTL forward to now, never back.
func (t *Tx) renew(e *entry, now uint64) bool {
	if !e.cur.Expiry.HasTTL || e.cur.Touched >= now {
		return false
	}
	s := *e.cur
	s.Touched = now
	t.put(e, &s)
	return true
}

// add and mul saturate: a lifetime too long to count never ends.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

func mul(a, b uint64) uint64 {
	if a > math.MaxUint64/b {
		return math.MaxUint64
	}
	return a * b
}

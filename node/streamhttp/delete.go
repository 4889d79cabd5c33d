package streamhttp

import (
	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/stream"
)

// delete answers a DELETE. A body, if there is one, means nothing.
func (h *Handler) delete(x http1.Exchange, key stream.Key) {
	loc, ok := h.leaderFor(x, key)
	if !ok {
		return
	}
	w := newWrite(stream.KindDelete, key)
	defer w.recycle()
	r, ok := h.propose(x, w, loc.Group)
	if !ok {
		return
	}
	if r.Outcome != stream.Deleted {
		h.refuseApplied(x, w, &r)
		return
	}
	h.answer(x, 204, nil)
}

package streamhttp

import (
	"sync"
	"time"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/jsontext"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/stream"
)

// write is one write on its way through the handler. It is pooled: an append
// allocates nothing that it does not keep.
type write struct {
	scratch
	deadline deadline
	cmd      stream.Command
	producer stream.ProducerKey
	// body holds cmd.Payload.
	body *buffer
	// unsettled says that the engine may still look at the write.
	unsettled bool
}

var writes = sync.Pool{New: func() any { return new(write) }}

func newWrite(kind stream.Kind, key stream.Key) *write {
	w := writes.Get().(*write)
	w.cmd.Kind, w.cmd.Key = kind, key
	return w
}

func (w *write) recycle() {
	if w.unsettled {
		return
	}
	w.cmd, w.producer, w.body = stream.Command{}, stream.ProducerKey{}, nil
	writes.Put(w)
}

// deadline is a context that has a deadline and nothing else. The proposal's
// own bound ends the wait, so no timer is needed for it.
type deadline struct{ at time.Time }

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }
func (d *deadline) Done() <-chan struct{}       { return nil }
func (d *deadline) Err() error                  { return nil }
func (d *deadline) Value(any) any               { return nil }

// propose replicates the write. ok is false when it was answered, for want of a
// result; the body's memory is used again only when its outcome is settled.
func (h *Handler) propose(x http1.Exchange, w *write, group uint32) (r stream.Result, ok bool) {
	w.deadline.at = time.Now().Add(h.config.WriteTimeout)
	r, err := h.engine.Propose(&w.deadline, group, &w.cmd)
	w.unsettled = err != nil && !refused(err)
	h.releaseBody(w.body, !w.unsettled)
	w.body = nil
	if err != nil {
		h.refuseWrite(x, group, err)
		return r, false
	}
	return r, true
}

// normalize puts the body's JSON messages in its place, in stored form.
func (h *Handler) normalize(w *write) error {
	out := getBuffer(len(w.body.b) + 1)
	var n int
	var err error
	out.b, n, err = jsontext.Normalize(out.b, w.body.b)
	out.reserved, w.body.reserved = w.body.reserved, 0
	putBuffer(w.body)
	w.body = out
	if err != nil {
		return err
	}
	w.cmd.Messages = uint32(n)
	return nil
}

// dropBody forgets a body that is not proposed.
func (h *Handler) dropBody(w *write) {
	h.releaseBody(w.body, true)
	w.body, w.cmd.Payload = nil, nil
}

// invalidJSON says where the text went wrong: the position is the scanner's,
// the words are fixed.
func invalidJSON(err error) error {
	return &protocol.Error{Code: protocol.CodeInvalidRequest, Message: err.Error()}
}

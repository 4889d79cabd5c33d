package streamhttp

import (
	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/stream"
)

// append answers a POST: an append, a close, or both.
func (h *Handler) append(x http1.Exchange, req *http1.Request, key stream.Key) {
	w := newWrite(stream.KindAppend, key)
	defer w.recycle()
	contentType, err := w.readAppendHeaders(req)
	if err != nil {
		h.refuse(x, err)
		return
	}
	loc, ok := h.leaderFor(x, key)
	if !ok {
		return
	}
	if w.body, err = h.readBody(x); err != nil {
		h.refuseBody(x, err)
		return
	}
	if fault, err := h.readContent(w, contentType); fault != stream.FaultNone {
		h.dropBody(w)
		if w.cmd.Producer == nil {
			h.refuse(x, err)
			return
		}
		// The producer rules come before the content (extensions 5.3), and only
		// apply can decide them: a repeat of an applied write gets its answer
		// whatever its body is.
		w.cmd.Fault = fault
	}
	r, ok := h.propose(x, w, loc.Group)
	if !ok {
		return
	}
	h.answerAppend(x, w, &r)
}

// readAppendHeaders puts what the headers say into the command.
func (w *write) readAppendHeaders(req *http1.Request) (contentType string, err error) {
	hd := collectWriteHeaders(req.Header)
	if contentType, err = protocol.ParseContentType(hd.contentType.values()); err != nil {
		return "", err
	}
	id, epoch, seq, present, err := protocol.ParseProducer(hd.producerID.values(), hd.producerEpoch.values(), hd.producerSeq.values())
	if err != nil {
		return "", err
	}
	if present {
		w.producer = stream.ProducerKey{ID: id, Epoch: epoch, Seq: seq}
		w.cmd.Producer = &w.producer
	}
	if w.cmd.Seq, err = protocol.ParseStreamSeq(hd.seq.values()); err != nil {
		return "", err
	}
	w.cmd.Close = protocol.ParseClosed(hd.closed.values())
	return contentType, nil
}

// readContent looks at an append's content and puts it into the command. With
// a fault, err is the answer to it.
func (h *Handler) readContent(w *write, contentType string) (stream.Fault, error) {
	if w.body == nil {
		if w.cmd.Close {
			// A close alone: its Content-Type, even a wrong one, does not matter.
			return stream.FaultNone, nil
		}
		w.cmd.MediaType = comparable(contentType)
		return stream.FaultEmptyBody, contentFault(stream.FaultEmptyBody)
	}
	if contentType == "" {
		return stream.FaultMissingContentType, contentFault(stream.FaultMissingContentType)
	}
	w.cmd.MediaType = comparable(contentType)
	if protocol.IsJSON(w.cmd.MediaType) {
		if err := h.normalize(w); err != nil {
			return stream.FaultInvalidJSON, invalidJSON(err)
		}
		if len(w.body.b) == 0 {
			return stream.FaultEmptyBody, contentFault(stream.FaultEmptyBody)
		}
	}
	w.cmd.Payload = w.body.b
	return stream.FaultNone, nil
}

// comparable is what a stream's type is compared with: the media type, or the
// value itself when it names none, which then equals no stream's.
func comparable(contentType string) string {
	if mt := protocol.MediaType(contentType); mt != "" {
		return mt
	}
	return contentType
}

// answerAppend answers what apply decided. A producer's write is 200 when it
// applied now and 204 when it had applied before; one that only closes is 204
// either way.
func (h *Handler) answerAppend(x http1.Exchange, w *write, r *stream.Result) {
	switch r.Outcome {
	case stream.Appended:
		w.setOffset(x, protocol.HeaderStreamNextOffset, r.Stream.Tail)
	case stream.Duplicate:
		if r.Receipt {
			w.setOffset(x, protocol.HeaderStreamNextOffset, r.End)
		}
	default:
		h.refuseApplied(x, w, r)
		return
	}
	if r.ClosedByWrite {
		setTrue(x, protocol.HeaderStreamClosed)
	}
	status := 204
	if r.Producer != nil {
		x.SetHeaderInt(protocol.HeaderProducerEpoch, int64(r.Producer.Epoch))
		x.SetHeaderInt(protocol.HeaderProducerSeq, int64(r.Producer.Seq))
		if r.Outcome == stream.Appended && r.End > r.Start {
			status = 200
		}
	}
	h.answer(x, status, nil)
}

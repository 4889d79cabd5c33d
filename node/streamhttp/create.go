package streamhttp

import (
	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/stream"
)

// create answers a PUT.
func (h *Handler) create(x http1.Exchange, req *http1.Request, key stream.Key) {
	w := newWrite(stream.KindCreate, key)
	defer w.recycle()
	if err := w.readCreateHeaders(req); err != nil {
		h.refuse(x, err)
		return
	}
	loc, ok := h.leaderFor(x, key)
	if !ok {
		return
	}
	var err error
	if w.body, err = h.readBody(x); err != nil {
		h.refuseBody(x, err)
		return
	}
	if w.body != nil {
		if protocol.IsJSON(protocol.MediaType(w.cmd.ContentType)) {
			if err := h.normalize(w); err != nil {
				h.dropBody(w)
				h.refuse(x, invalidJSON(err))
				return
			}
		}
		w.cmd.Payload = w.body.b
	}
	r, ok := h.propose(x, w, loc.Group)
	if !ok {
		return
	}
	h.answerCreate(x, w, &r)
}

func (w *write) readCreateHeaders(req *http1.Request) error {
	hd := collectWriteHeaders(req.Header)
	contentType, err := protocol.ParseContentType(hd.contentType.values())
	if err != nil {
		return err
	}
	if protocol.MediaType(contentType) == "" {
		contentType = protocol.TypeOctetStream
	}
	if hd.producerID.n+hd.producerEpoch.n+hd.producerSeq.n > 0 {
		return faultCreateProducer
	}
	for _, name := range [...]string{protocol.HeaderStreamForkedFrom, protocol.HeaderStreamForkOffset, protocol.HeaderStreamForkSubOffset} {
		// Ignored, such a request would make an ordinary, empty stream.
		if req.Header.Has(name) {
			return faultFork
		}
	}
	life, err := protocol.ParseLifetime(hd.ttl.values(), hd.expiresAt.values())
	if err != nil {
		return err
	}
	w.cmd.ContentType = contentType
	w.cmd.Expiry = stream.Expiry{TTL: life.TTL, HasTTL: life.HasTTL}
	if life.HasAt {
		w.cmd.Expiry.At, w.cmd.Expiry.AtText = life.At, hd.expiresAt.v[0]
	}
	w.cmd.Close = protocol.ParseClosed(hd.closed.values())
	return nil
}

func (h *Handler) answerCreate(x http1.Exchange, w *write, r *stream.Result) {
	status := 200
	switch r.Outcome {
	case stream.Created:
		status = 201
		x.SetHeader(protocol.HeaderLocation, location(x.Request()))
	case stream.Exists:
	default:
		h.refuseApplied(x, w, r)
		return
	}
	x.SetHeader(protocol.HeaderContentType, r.Stream.ContentType)
	w.setOffset(x, protocol.HeaderStreamNextOffset, r.Stream.Tail)
	if r.Stream.Closed {
		setTrue(x, protocol.HeaderStreamClosed)
	}
	h.answer(x, status, nil)
}

// location is the absolute URL of the created stream, as the client named it.
// What proxies say about the scheme is not believed.
func location(req *http1.Request) string {
	if req.Host == "" {
		return req.Target
	}
	if req.Secure {
		return "https://" + req.Host + req.Target
	}
	return "http://" + req.Host + req.Target
}

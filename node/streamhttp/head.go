package streamhttp

import (
	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/stream"
)

// head answers a HEAD. It is linearizable and renews nothing.
func (h *Handler) head(x http1.Exchange, key stream.Key) {
	l := lookup{h: h, x: x, key: key, loc: h.engine.Locate(key)}
	if !l.confirm() {
		return
	}
	st := l.find()
	if st == nil {
		return
	}
	var s scratch
	x.SetHeader(protocol.HeaderContentType, st.ContentType)
	s.setOffset(x, protocol.HeaderStreamNextOffset, st.Tail)
	if st.Closed {
		setTrue(x, protocol.HeaderStreamClosed)
	}
	if st.Expiry.HasTTL {
		x.SetHeaderInt(protocol.HeaderStreamTTL, int64(st.Expiry.TTL))
	}
	if st.Expiry.AtText != "" {
		x.SetHeader(protocol.HeaderStreamExpiresAt, st.Expiry.AtText)
	}
	x.SetHeaderInt(protocol.HeaderMaxRequestBytes, protocol.MaxRequestBytes)
	h.answer(x, 200, nil)
}

package streamhttp

import (
	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
)

// requestHeaders are the headers that the protocol's requests use.
const requestHeaders = "authorization, content-type, if-none-match, stream-ttl, stream-expires-at, " +
	"stream-closed, stream-seq, producer-id, producer-epoch, producer-seq"

// options says what a URL takes, whether or not a stream is there.
func (h *Handler) options(x http1.Exchange, methods string) {
	x.SetHeader(protocol.HeaderAllow, methods)
	x.SetHeader(protocol.HeaderAllowMethods, methods)
	x.SetHeader(protocol.HeaderAllowHeaders, requestHeaders)
	h.answer(x, 204, nil)
}

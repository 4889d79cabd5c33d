package streamhttp

import (
	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
)

// answer sends a whole answer with what goes on all of them.
func (h *Handler) answer(x http1.Exchange, status int, body []byte) {
	x.AddBlock(h.common)
	if x.Request().Method == methodHead {
		x.AddBlock(h.identity)
	}
	x.Respond(status, body)
}

// scratch formats header values without a string each. It is part of a pooled
// value, because what an interface method gets escapes.
type scratch [128]byte

func (s *scratch) setOffset(x http1.Exchange, name string, offset uint64) {
	x.SetHeaderBytes(name, protocol.AppendOffset(s[:0], protocol.Offset(offset)))
}

func setTrue(x http1.Exchange, name string) { x.SetHeader(name, protocol.ValueTrue) }

package streamhttp

import (
	"sync/atomic"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/stream"
)

// Handler serves the client plane.
type Handler struct {
	engine Engine
	config Config
	bodies budget
	reads  budget
	live   atomic.Int64

	// common goes on every answer but an SSE stream, events on those; identity
	// goes on every answer to a HEAD.
	common, events, identity *http1.Block
}

var _ http1.Handler = (*Handler)(nil)

// New returns a handler over e.
func New(e Engine, c Config) *Handler {
	c = c.withDefaults()
	security := []http1.Field{
		{Name: protocol.HeaderContentTypeOptions, Value: protocol.ValueNoSniff},
		{Name: protocol.HeaderResourcePolicy, Value: protocol.ValueCrossOrigin},
	}
	with := func(cacheControl string) *http1.Block {
		return http1.NewBlock(append(security[:2:2], http1.Field{Name: protocol.HeaderCacheControl, Value: cacheControl})...)
	}
	return &Handler{
		engine: e,
		config: c,
		bodies: budget{limit: c.BodyBytes},
		reads:  budget{limit: c.ReadBytes},
		common: with(protocol.ValueNoStore),
		events: with("no-store, no-cache"),
		identity: http1.NewBlock(
			http1.Field{Name: protocol.HeaderProtocol, Value: protocol.Version},
			http1.Field{Name: protocol.HeaderClusterID, Value: e.ClusterID()},
		),
	}
}

// Stats counts what the handler holds for clients.
type Stats struct {
	LiveReaders          int64
	BodyBytes, ReadBytes int64
}

// Stats returns the current counts.
func (h *Handler) Stats() Stats {
	return Stats{LiveReaders: h.live.Load(), BodyBytes: h.bodies.used.Load(), ReadBytes: h.reads.used.Load()}
}

const (
	methodGet     = "GET"
	methodHead    = "HEAD"
	methodPut     = "PUT"
	methodPost    = "POST"
	methodDelete  = "DELETE"
	methodOptions = "OPTIONS"
)

// Serve answers one request.
func (h *Handler) Serve(x http1.Exchange) {
	req := x.Request()
	if req.ContentLength > protocol.MaxRequestBytes {
		h.tooLarge(x)
		return
	}
	r, err := parseTarget(req.Target)
	if err != nil {
		h.refuse(x, err)
		return
	}
	switch r.kind {
	case routeStream:
		h.serveStream(x, req, r.key)
	case routeBucket:
		h.serveBucket(x, req)
	case routeServer:
		if req.Method == methodOptions {
			h.options(x, streamMethods)
			return
		}
		h.refuse(x, errNoRoute)
	default:
		h.refuse(x, errNoRoute)
	}
}

const (
	streamMethods = "GET, HEAD, PUT, POST, DELETE, OPTIONS"
	bucketMethods = "PUT, OPTIONS"
)

func (h *Handler) serveStream(x http1.Exchange, req *http1.Request, key stream.Key) {
	switch req.Method {
	case methodPost:
		h.append(x, req, key)
	case methodGet:
		h.read(x, req, key)
	case methodPut:
		h.create(x, req, key)
	case methodHead:
		h.head(x, key)
	case methodDelete:
		h.delete(x, key)
	case methodOptions:
		h.options(x, streamMethods)
	default:
		h.methodNotAllowed(x, streamMethods)
	}
}

// serveBucket answers for a bucket alone. Buckets are implicit: a create
// validates the id and changes nothing (extensions 1.2).
func (h *Handler) serveBucket(x http1.Exchange, req *http1.Request) {
	switch req.Method {
	case methodPut:
		h.answer(x, 201, nil)
	case methodOptions:
		h.options(x, bucketMethods)
	default:
		h.methodNotAllowed(x, bucketMethods)
	}
}

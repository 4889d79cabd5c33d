package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"runnel.dev/runnel/node/adminapi"
)

const (
	statusTimeout = 5 * time.Second
	// changeTimeout leaves the client's own deadline room for the way back.
	changeTimeout = 12 * time.Second
	// maxRequests bounds the requests under way.
	maxRequests = 32
)

// Node is what the plane acts on. Its methods are called concurrently and end
// with their context. An *adminapi.Error is answered as it is; any other error
// as INTERNAL, with its text in the log only.
type Node interface {
	Status(context.Context) (adminapi.Status, error)
	// Init is called with a request whose form is right; whether the cluster
	// can be made of it (group count, factor, nodes) is the node's to say.
	Init(context.Context, adminapi.InitRequest) (adminapi.InitResponse, error)
	Join(context.Context, adminapi.JoinRequest) (adminapi.JoinResponse, error)
	Born(context.Context, adminapi.BornRequest) (adminapi.BornResponse, error)
}

// NewHandler returns the plane's handler. logger may be nil.
func NewHandler(n Node, logger *slog.Logger) http.Handler {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	h := &handler{log: logger, slots: make(chan struct{}, maxRequests)}
	h.routes = map[string]route{
		adminapi.PathStatus: {http.MethodGet, statusTimeout, func(ctx context.Context, _ []byte) (any, error) {
			s, err := n.Status(ctx)
			bound(&s)
			return s, err
		}},
		adminapi.PathInit: change(n.Init),
		adminapi.PathJoin: change(n.Join),
		adminapi.PathBorn: change(n.Born),
	}
	return h
}

type handler struct {
	log    *slog.Logger
	routes map[string]route
	slots  chan struct{}
}

type route struct {
	method  string
	timeout time.Duration
	serve   func(ctx context.Context, body []byte) (any, error)
}

// change is the route of a request with a body, of type In.
func change[In, Out any, P interface {
	*In
	Validate() *adminapi.Error
}](act func(context.Context, In) (Out, error)) route {
	return route{http.MethodPost, changeTimeout, func(ctx context.Context, body []byte) (any, error) {
		var r In
		if err := decode(body, P(&r)); err != nil {
			return nil, err
		}
		return act(ctx, r)
	}}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := h.answer(w, r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.write(w, http.StatusOK, out)
}

func (h *handler) answer(w http.ResponseWriter, r *http.Request) (any, error) {
	rt, ok := h.routes[r.URL.Path]
	if !ok {
		return nil, adminapi.Refuse(adminapi.CodeNotFound, "the admin plane has no path %.100q", r.URL.Path).Try("check that caller and node have the same version")
	}
	if r.Method != rt.method {
		w.Header().Set("Allow", rt.method)
		return nil, adminapi.Refuse(adminapi.CodeMethodNotAllowed, "%s takes no %.20q", r.URL.Path, r.Method).Try("use " + rt.method)
	}
	// Browsers send an Origin with every request that could change something,
	// and a page may have been pointed at loopback.
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return nil, adminapi.Refuse(adminapi.CodeForbidden, "the admin plane answers no web page")
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return nil, adminapi.Refuse(adminapi.CodeUnavailable, "%d admin requests are under way", maxRequests).Try("try again")
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), rt.timeout)
	defer cancel()
	return rt.serve(ctx, body)
}

// bound keeps a status small whatever the node puts into it.
func bound(s *adminapi.Status) {
	const maxText = 256
	cut := func(t string) string {
		if len(t) > maxText {
			return strings.ToValidUTF8(t[:maxText], "")
		}
		return t
	}
	s.Message = cut(s.Message)
	s.Peers = slices.Clone(s.Peers[:min(len(s.Peers), adminapi.MaxPeers)])
	for i := range s.Peers {
		s.Peers[i].Error = cut(s.Peers[i].Error)
	}
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Method == http.MethodGet {
		return nil, nil
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, adminapi.Refuse(adminapi.CodeUnsupportedMedia, "the body has the media type %.100q", r.Header.Get("Content-Type")).Try("send application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, adminapi.MaxRequestBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, adminapi.Refuse(adminapi.CodeTooLarge, "the body exceeds %d bytes", adminapi.MaxRequestBytes)
	case err != nil:
		return nil, adminapi.Refuse(adminapi.CodeBadRequest, "the body ended early").Try("send it again")
	}
	return body, nil
}

// decode reads exactly one JSON object of known fields and checks its form.
func decode(body []byte, into interface{ Validate() *adminapi.Error }) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return adminapi.Refuse(adminapi.CodeBadRequest, "the body is not the JSON that this path takes: %.200s", err).Try("check that caller and node have the same version")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return adminapi.Refuse(adminapi.CodeBadRequest, "the body goes on behind its JSON object")
	}
	if e := into.Validate(); e != nil {
		return e
	}
	return nil
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var e *adminapi.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// The node gave no verdict of its own in time.
		e = adminapi.Refuse(adminapi.CodeOutcomeUnknown, "the node did not finish in time").Try("try again with the same token")
	default:
		h.log.Error("admin request failed", "path", r.URL.Path, "err", err)
		e = adminapi.Refuse(adminapi.CodeInternal, "the node failed").Try("see its log")
	}
	h.write(w, e.Code.HTTPStatus(), e)
}

func (h *handler) write(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil || len(b) >= adminapi.MaxResponseBytes {
		h.log.Error("admin answer can't be sent", "bytes", len(b), "err", err)
		status, b = http.StatusInternalServerError, []byte(`{"code":"INTERNAL","message":"the answer can't be sent","remedy":"see the node's log"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the caller is gone when this fails
}

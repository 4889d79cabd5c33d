package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnel.dev/runnel/node/adminapi"
)

// fakeNode answers with what a test gives it.
type fakeNode struct {
	status func(context.Context) (adminapi.Status, error)
	init   func(context.Context, adminapi.InitRequest) (adminapi.InitResponse, error)
	join   func(context.Context, adminapi.JoinRequest) (adminapi.JoinResponse, error)

	mu    sync.Mutex
	calls int
	born  adminapi.BornRequest
}

func (f *fakeNode) called() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
}

func (f *fakeNode) Status(ctx context.Context) (adminapi.Status, error) {
	f.called()
	return f.status(ctx)
}

func (f *fakeNode) Init(ctx context.Context, r adminapi.InitRequest) (adminapi.InitResponse, error) {
	f.called()
	return f.init(ctx, r)
}

func (f *fakeNode) Join(ctx context.Context, r adminapi.JoinRequest) (adminapi.JoinResponse, error) {
	f.called()
	return f.join(ctx, r)
}

func (f *fakeNode) Born(_ context.Context, r adminapi.BornRequest) (adminapi.BornResponse, error) {
	f.called()
	f.born = r
	return adminapi.BornResponse{}, nil
}

func good() *fakeNode {
	return &fakeNode{
		status: func(context.Context) (adminapi.Status, error) {
			return adminapi.Status{State: adminapi.StateEmpty, Version: "1"}, nil
		},
		init: func(_ context.Context, r adminapi.InitRequest) (adminapi.InitResponse, error) {
			return adminapi.InitResponse{ClusterID: r.ClusterID, NodeID: 1}, nil
		},
		join: func(_ context.Context, r adminapi.JoinRequest) (adminapi.JoinResponse, error) {
			return adminapi.JoinResponse{ClusterID: "c", NodeID: 2, Members: []adminapi.Member{{NodeID: 1, Addresses: r.Addresses}}}, nil
		},
	}
}

const (
	initBody = `{"clusterID":"c","token":"t","groups":16,"replicationFactor":3,"nodes":3}`
	bornBody = `{"replicas":[{"group":3,"replica":9}]}`
	joinBody = `{"token":"t","client":"http://n:4437","admin":"n:4438","peer":"n:4439","zone":"a"}`
)

func request(method, path, body string, header ...string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func do(n Node, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	NewHandler(n, nil).ServeHTTP(w, r)
	return w
}

func TestRequestsReachTheNode(t *testing.T) {
	n := good()
	var got []any
	n.init = func(_ context.Context, r adminapi.InitRequest) (adminapi.InitResponse, error) {
		got = append(got, r)
		return adminapi.InitResponse{ClusterID: "c", NodeID: 1}, nil
	}
	n.join = func(_ context.Context, r adminapi.JoinRequest) (adminapi.JoinResponse, error) {
		got = append(got, r)
		return adminapi.JoinResponse{ClusterID: "c", NodeID: 2, MetaReplica: 7, Groups: 16, ReplicationFactor: 3}, nil
	}
	for _, c := range []struct{ method, path, body, answer string }{
		{http.MethodGet, adminapi.PathStatus, "", `{"state":"empty","version":"1","groups":0,"replicas":0,"leading":0,"leaderless":0,"stopped":0}`},
		{http.MethodPost, adminapi.PathInit, initBody, `{"clusterID":"c","nodeID":1}`},
		{http.MethodPost, adminapi.PathJoin, joinBody, `{"clusterID":"c","nodeID":2,"metaReplica":7,"groups":16,"replicationFactor":3,"members":null}`},
		{http.MethodPost, adminapi.PathBorn, bornBody, `{}`},
	} {
		w := do(n, request(c.method, c.path, c.body))
		if w.Code != http.StatusOK || w.Body.String() != c.answer+"\n" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
	want := []any{
		adminapi.InitRequest{ClusterID: "c", Token: "t", Groups: 16, ReplicationFactor: 3, Nodes: 3},
		adminapi.JoinRequest{Token: "t", Zone: "a", Addresses: adminapi.Addresses{Client: "http://n:4437", Admin: "n:4438", Peer: "n:4439"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(adminapi.BornRequest{Replicas: []adminapi.BornReplica{{Group: 3, Replica: 9}}}, n.born); diff != "" {
		t.Error(diff)
	}
}

func TestTheLargestReportOfBirthsFits(t *testing.T) {
	var r adminapi.BornRequest
	for range adminapi.MaxBorn {
		r.Replicas = append(r.Replicas, adminapi.BornReplica{Group: math.MaxUint32, Replica: math.MaxUint64})
	}
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	n := good()
	if w := do(n, request(http.MethodPost, adminapi.PathBorn, string(body))); w.Code != http.StatusOK || len(n.born.Replicas) != adminapi.MaxBorn {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestBadRequestsNeverReachTheNode(t *testing.T) {
	post := http.MethodPost
	long := strings.Repeat("x", 500)
	for _, c := range []struct {
		name string
		req  *http.Request
		code adminapi.Code
	}{
		{"an unknown path", request("GET", "/admin/v2/status", ""), adminapi.CodeNotFound},
		{"a path below a known one", request("GET", adminapi.PathStatus+"/x", ""), adminapi.CodeNotFound},
		{"a status that is posted", request(post, adminapi.PathStatus, "{}"), adminapi.CodeMethodNotAllowed},
		{"an init that is read", request("GET", adminapi.PathInit, ""), adminapi.CodeMethodNotAllowed},
		{"a method that does not exist", request("BREW", adminapi.PathJoin, joinBody), adminapi.CodeMethodNotAllowed},
		{"a form", request(post, adminapi.PathInit, initBody, "Content-Type", "text/plain"), adminapi.CodeUnsupportedMedia},
		{"no media type", request(post, adminapi.PathInit, initBody, "Content-Type", ""), adminapi.CodeUnsupportedMedia},
		{"a web page", request(post, adminapi.PathInit, initBody, "Origin", "http://evil.example"), adminapi.CodeForbidden},
		{"a web page that reads", request("GET", adminapi.PathStatus, "", "Sec-Fetch-Site", "cross-site"), adminapi.CodeForbidden},
		{"a body beyond the bound", request(post, adminapi.PathInit, `{"token":"`+strings.Repeat("x", adminapi.MaxRequestBytes)+`"}`), adminapi.CodeTooLarge},
		{"an empty body", request(post, adminapi.PathInit, ""), adminapi.CodeBadRequest},
		{"no JSON", request(post, adminapi.PathInit, "groups: 3"), adminapi.CodeBadRequest},
		{"truncated JSON", request(post, adminapi.PathInit, initBody[:20]), adminapi.CodeBadRequest},
		{"two objects", request(post, adminapi.PathInit, initBody+initBody), adminapi.CodeBadRequest},
		{"an unknown field", request(post, adminapi.PathInit, `{"clusterID":"c","token":"t","force":true}`), adminapi.CodeBadRequest},
		{"a negative count", request(post, adminapi.PathInit, `{"clusterID":"c","token":"t","groups":-1}`), adminapi.CodeBadRequest},
		{"a count that is no number", request(post, adminapi.PathInit, `{"clusterID":"c","token":"t","groups":"16"}`), adminapi.CodeBadRequest},
		{"no cluster id", request(post, adminapi.PathInit, `{"token":"t"}`), adminapi.CodeBadRequest},
		{"no token", request(post, adminapi.PathInit, `{"clusterID":"c"}`), adminapi.CodeBadRequest},
		{"a long cluster id", request(post, adminapi.PathInit, `{"clusterID":"`+long+`","token":"t"}`), adminapi.CodeBadRequest},
		{"a token with a line break", request(post, adminapi.PathInit, `{"clusterID":"c","token":"a\nb"}`), adminapi.CodeBadRequest},
		{"no births", request(post, adminapi.PathBorn, `{"replicas":[]}`), adminapi.CodeBadRequest},
		{"a join without addresses", request(post, adminapi.PathJoin, `{"token":"t"}`), adminapi.CodeBadRequest},
		{"a client URL without a scheme", request(post, adminapi.PathJoin, strings.Replace(joinBody, "http://n:4437", "n:4437", 1)), adminapi.CodeBadRequest},
		{"a client URL with a query", request(post, adminapi.PathJoin, strings.Replace(joinBody, "http://n:4437", "http://n:4437?x", 1)), adminapi.CodeBadRequest},
		{"a peer address without a port", request(post, adminapi.PathJoin, strings.Replace(joinBody, "n:4439", "n", 1)), adminapi.CodeBadRequest},
		{"a peer address of all interfaces", request(post, adminapi.PathJoin, strings.Replace(joinBody, "n:4439", "0.0.0.0:4439", 1)), adminapi.CodeBadRequest},
		{"a zone that is too long", request(post, adminapi.PathJoin, strings.Replace(joinBody, `"a"`, `"`+long+`"`, 1)), adminapi.CodeBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := good()
			w := do(n, c.req)
			var e adminapi.Error
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
				t.Fatalf("%d %s: %v", w.Code, w.Body, err)
			}
			if e.Code != c.code || w.Code != c.code.HTTPStatus() || w.Code < 400 || w.Code > 499 || e.Message == "" {
				t.Errorf("%d %+v, want %s", w.Code, e, c.code)
			}
			if n.calls != 0 {
				t.Error("the node was called")
			}
			if e.Code == adminapi.CodeMethodNotAllowed && w.Header().Get("Allow") == "" {
				t.Error("no Allow header")
			}
		})
	}
}

func TestTheNodesErrorsAreAnswered(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	leader := adminapi.Refuse(adminapi.CodeNotLeader, "node 3 leads").Try("ask it")
	leader.Leader = "n3:4438"
	for _, c := range []struct {
		name   string
		err    error
		status int
		body   string
	}{
		{"its own refusals as they are", leader, 421, `{"code":"NOT_LEADER","message":"node 3 leads","remedy":"ask it","leader":"n3:4438"}`},
		{"wrapped ones too", errors.Join(adminapi.Refuse(adminapi.CodeAlreadyInitialized, "taken")), 409, `{"code":"ALREADY_INITIALIZED","message":"taken"}`},
		{"a deadline as unknown", context.DeadlineExceeded, 503, `{"code":"OUTCOME_UNKNOWN","message":"the node did not finish in time","remedy":"try again with the same token"}`},
		{"others without their text", errors.New("secret path /data"), 500, `{"code":"INTERNAL","message":"the node failed","remedy":"see its log"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := good()
			n.join = func(context.Context, adminapi.JoinRequest) (adminapi.JoinResponse, error) {
				return adminapi.JoinResponse{}, c.err
			}
			w := httptest.NewRecorder()
			NewHandler(n, logger).ServeHTTP(w, request(http.MethodPost, adminapi.PathJoin, joinBody))
			if w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.body {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	if !strings.Contains(log.String(), "secret path") {
		t.Error("the log does not say what failed")
	}
}

func TestEveryCodeHasAStatus(t *testing.T) {
	for _, c := range []adminapi.Code{
		adminapi.CodeBadRequest, adminapi.CodeNotFound, adminapi.CodeMethodNotAllowed, adminapi.CodeUnsupportedMedia,
		adminapi.CodeTooLarge, adminapi.CodeForbidden, adminapi.CodeNotInitialized, adminapi.CodeAlreadyInitialized,
		adminapi.CodeClusterFull, adminapi.CodeNotLeader, adminapi.CodeUnavailable, adminapi.CodeOutcomeUnknown,
	} {
		if s := c.HTTPStatus(); s < 400 || s == http.StatusInternalServerError {
			t.Errorf("%s has status %d", c, s)
		}
	}
}

func TestAStatusIsBoundedWhateverTheNodeSays(t *testing.T) {
	n := good()
	n.status = func(context.Context) (adminapi.Status, error) {
		s := adminapi.Status{State: adminapi.StateServing, Message: strings.Repeat("é", 5000)}
		for i := range 10_000 {
			s.Peers = append(s.Peers, adminapi.PeerStatus{NodeID: uint64(i), Error: strings.Repeat("x", 5000)})
		}
		return s, nil
	}
	w := do(n, request(http.MethodGet, adminapi.PathStatus, ""))
	var s adminapi.Status
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Body.Len() > 64<<10 {
		t.Fatalf("%d bytes, %v", w.Body.Len(), err)
	}
	if len(s.Peers) != adminapi.MaxPeers || s.Peers[3].NodeID != 3 {
		t.Errorf("%d peers", len(s.Peers))
	}
}

func TestAnAnswerBeyondTheBoundIsAnError(t *testing.T) {
	n := good()
	n.join = func(context.Context, adminapi.JoinRequest) (adminapi.JoinResponse, error) {
		return adminapi.JoinResponse{ClusterID: strings.Repeat("x", adminapi.MaxResponseBytes)}, nil
	}
	w := do(n, request(http.MethodPost, adminapi.PathJoin, joinBody))
	if w.Code != http.StatusInternalServerError || w.Body.Len() > 1000 {
		t.Errorf("%d with %d bytes", w.Code, w.Body.Len())
	}
}

func TestRequestsUnderWayAreBounded(t *testing.T) {
	n := good()
	entered, leave := make(chan struct{}, maxRequests), make(chan struct{})
	n.status = func(context.Context) (adminapi.Status, error) {
		entered <- struct{}{}
		<-leave
		return adminapi.Status{}, nil
	}
	h := NewHandler(n, nil)
	var wg sync.WaitGroup
	for range maxRequests {
		wg.Go(func() { h.ServeHTTP(httptest.NewRecorder(), request(http.MethodGet, adminapi.PathStatus, "")) })
		<-entered
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(http.MethodGet, adminapi.PathStatus, ""))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"UNAVAILABLE"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	close(leave)
	wg.Wait()
	w = httptest.NewRecorder()
	h.ServeHTTP(w, request(http.MethodGet, adminapi.PathStatus, ""))
	if w.Code != http.StatusOK {
		t.Errorf("%d afterwards", w.Code)
	}
}

func TestTheNodeIsGivenADeadline(t *testing.T) {
	n := good()
	var left time.Duration
	n.init = func(ctx context.Context, _ adminapi.InitRequest) (adminapi.InitResponse, error) {
		if d, ok := ctx.Deadline(); ok {
			left = time.Until(d)
		}
		return adminapi.InitResponse{}, nil
	}
	do(n, request(http.MethodPost, adminapi.PathInit, initBody))
	if left <= 0 || left > adminapi.DefaultTimeout {
		t.Errorf("%v left; the client waits %v", left, adminapi.DefaultTimeout)
	}
}

func FuzzRequestBody(f *testing.F) {
	f.Add(adminapi.PathInit, []byte(initBody))
	f.Add(adminapi.PathJoin, []byte(joinBody))
	f.Add(adminapi.PathBorn, []byte(bornBody))
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if path != adminapi.PathInit && path != adminapi.PathBorn {
			path = adminapi.PathJoin
		}
		w := do(good(), request(http.MethodPost, path, string(body)))
		if w.Code == http.StatusOK {
			return
		}
		var e adminapi.Error
		b, _ := io.ReadAll(w.Body)
		if err := json.Unmarshal(b, &e); err != nil || w.Code > 499 || e.Code.HTTPStatus() != w.Code {
			t.Fatalf("%d %s", w.Code, b)
		}
	})
}

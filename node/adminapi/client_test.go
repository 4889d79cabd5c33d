package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// serve runs a fake admin plane and returns its address.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func newClient(t *testing.T, addr string) *Client {
	t.Helper()
	c := NewClient(addr, Options{Timeout: 10 * time.Second})
	t.Cleanup(c.Close)
	return c
}

func answer(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

var joinRequest = JoinRequest{Token: "t", Addresses: Addresses{Client: "http://n:4437", Admin: "n:4438", Peer: "n:4439"}}

func TestAnswersAreDecodedAndNewFieldsIgnored(t *testing.T) {
	offset := int64(-7)
	want := Status{
		State: StateServing, ClusterID: "c", NodeID: 3, Version: "1", Groups: 16, Leading: 5, MetaLeader: 3,
		Peers: []PeerStatus{{NodeID: 1, Addresses: Addresses{Admin: "n1:4438"}, Connected: true, ClockOffsetMillis: &offset}},
	}
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := json.Marshal(want)
		_, _ = w.Write([]byte(`{"fromTheFuture":1,` + string(b[1:])))
	})
	got, err := newClient(t, addr).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRequestsAreSentAsTheServerTakesThem(t *testing.T) {
	var method, path, media string
	var got InitRequest
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		method, path, media = r.Method, r.URL.Path, r.Header.Get("Content-Type")
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil {
			t.Error(err)
		}
		answer(w, 200, InitResponse{ClusterID: "c", NodeID: 1})
	})
	want := InitRequest{ClusterID: "c", Token: "t", Groups: 16, ReplicationFactor: 3, Nodes: 3}
	out, err := newClient(t, addr).Init(t.Context(), want)
	if err != nil || out.NodeID != 1 {
		t.Fatal(out, err)
	}
	if method != http.MethodPost || path != PathInit || media != "application/json" || got != want {
		t.Errorf("%s %s %s %+v", method, path, media, got)
	}
}

func TestARefusalIsTyped(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, 409, Refuse(CodeAlreadyInitialized, "belongs to %s", "x").Try("use its token"))
	})
	_, err := newClient(t, addr).Init(t.Context(), InitRequest{ClusterID: "c", Token: "t"})
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeAlreadyInitialized || e.Error() != "ALREADY_INITIALIZED: belongs to x: use its token" {
		t.Errorf("err = %v", err)
	}
}

func TestAnAnswerOfSomethingElseIsNoRefusal(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a page of a proxy": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<h1>Bad gateway</h1>", http.StatusBadGateway)
		},
		"JSON of a stranger": func(w http.ResponseWriter, _ *http.Request) { answer(w, 403, map[string]string{"error": "no"}) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) },
		"a flood": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2*MaxResponseBytes)) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newClient(t, serve(t, h)).Status(t.Context())
			var e *Error
			if err == nil || errors.As(err, &e) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestJoinFollowsTheLeader(t *testing.T) {
	leader := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, JoinResponse{ClusterID: "c", NodeID: 4})
	})
	calls := 0
	follower := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		e := Refuse(CodeNotLeader, "not the leader")
		e.Leader = leader
		answer(w, 421, e)
	})
	out, err := newClient(t, follower).Join(t.Context(), joinRequest)
	if err != nil || out.NodeID != 4 || calls != 1 {
		t.Errorf("%+v, %v after %d calls of the follower", out, err, calls)
	}
}

func TestJoinDoesNotRunInCircles(t *testing.T) {
	calls := 0
	var addr string
	addr = serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		e := Refuse(CodeNotLeader, "not the leader")
		e.Leader = addr
		answer(w, 421, e)
	})
	_, err := newClient(t, addr).Join(t.Context(), joinRequest)
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeNotLeader || calls != maxHops+1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestAnUnknownLeaderIsTheCallersToAwait(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, 421, Refuse(CodeNotLeader, "an election runs"))
	})
	_, err := newClient(t, addr).Join(t.Context(), joinRequest)
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeNotLeader {
		t.Errorf("err = %v", err)
	}
}

func TestACallEndsByItsDeadline(t *testing.T) {
	release := make(chan struct{})
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-release })
	defer close(release)
	c := NewClient(addr, Options{Timeout: 50 * time.Millisecond})
	defer c.Close()
	if _, err := c.Status(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

func TestPlainCallsStayOnLoopback(t *testing.T) {
	for _, addr := range []string{"192.0.2.1:4438", "0.0.0.0:4438"} {
		if _, err := newClient(t, addr).Status(t.Context()); !errors.Is(err, ErrPlainAddress) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestRequestsOfTheWrongFormAreNotSent(t *testing.T) {
	addr := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("sent") })
	c := newClient(t, addr)
	var e *Error
	if _, err := c.Init(t.Context(), InitRequest{}); !errors.As(err, &e) || e.Code != CodeBadRequest || e.Remedy == "" {
		t.Errorf("err = %v", err)
	}
	if _, err := c.Join(t.Context(), JoinRequest{Token: "t"}); !errors.As(err, &e) || e.Code != CodeBadRequest {
		t.Errorf("err = %v", err)
	}
}

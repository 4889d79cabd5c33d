package cluster

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"runnel.dev/runnel/node/protocol"
)

// leaderOf returns the index of the node that leads a stream's group.
func leaderOf(t *testing.T, c *Cluster, stream string) int {
	t.Helper()
	leader := -1
	Eventually(t, "a node leads "+stream, func() bool {
		leader = currentLeader(c, stream)
		return leader >= 0
	})
	return leader
}

func TestNoAcknowledgedAppendIsLostWhileLeadersAreCutOffAndHealed(t *testing.T) {
	rng := Seed(t)
	c := Form(t, 3, 3, 4)
	l := StartLoad(t, c.URLs(), 3)
	l.AwaitProgress(t, 20)
	for round := range Rounds(4) {
		leader := leaderOf(t, c, l.Streams[round%3].Stream)
		fault := []Fault{Refuse, Hold}[rng.IntN(2)]
		other := (leader + 1 + rng.IntN(2)) % 3
		l.Gap()
		switch rng.IntN(4) {
		case 0:
			t.Logf("round %d: node %d no longer reaches node %d (fault %d)", round, leader, other, fault)
			c.Net.Set(leader, other, fault)
		case 1:
			t.Logf("round %d: node %d hears nobody", round, leader)
			c.Net.Set(other, leader, Hold)
			c.Net.Set(3-leader-other, leader, Hold)
			c.Net.Delay(leader, other, 20*time.Millisecond)
		default:
			t.Logf("round %d: node %d is cut off (fault %d)", round, leader, fault)
			c.Net.Isolate(leader, 3, fault)
		}
		l.AwaitProgress(t, 20)
		c.Net.Heal()
		l.AwaitProgress(t, 20)
		t.Logf("round %d: longest time without an acknowledgement %v", round, l.Gap())
	}
	c.AwaitReady()
	l.Check(t)
}

// A deposed leader that doesn't know it yet must not answer from its own state
// what only the leader may say (U3), and its live readers must end (P3).
func TestTrapP3_ADeposedLeaderAnswersNoConfirmedReadAndEndsItsTails(t *testing.T) {
	c := Form(t, 3, 3, 1)
	const stream = "/deposed/stream"
	ctx, cancel := context.WithTimeout(t.Context(), 2*Patience)
	defer cancel()
	all := NewClient(c.URLs())
	defer all.Close()
	if err := all.Create(ctx, stream); err != nil {
		t.Fatal(err)
	}
	old := leaderOf(t, c, stream)
	oldURL := c.Nodes[old].URL()

	type end struct {
		code string
		err  error
	}
	ended := make(chan end, 1)
	opened := make(chan struct{}, 100)
	tailer := NewClient([]string{oldURL})
	defer tailer.Close()
	go func() {
		_, code, err := tailer.Tail(ctx, oldURL, stream, 0, func(int64, []byte) { opened <- struct{}{} })
		ended <- end{code, err}
	}()
	<-opened
	c.Net.Isolate(old, 3, Hold)
	cut := time.Now()
	// At once, while it takes itself for the leader and can't prove it.
	askDeposed(t, c, tailer, oldURL, stream)

	var others []string
	for i, n := range c.Nodes {
		if i != old {
			others = append(others, n.URL())
		}
	}
	rest := NewClient(others)
	defer rest.Close()
	// The others may still send writers to the old leader.
	p := &Producer{client: rest, stream: stream, id: "after"}
	if a, err := p.Append(ctx, []byte("acknowledged by the new leader")); a == nil || err != nil {
		t.Fatalf("append after the cut: %v, %v", a, err)
	}
	t.Logf("the new leader acknowledged %v after the cut", time.Since(cut))

	askDeposed(t, c, tailer, oldURL, stream)
	select {
	case e := <-ended:
		t.Logf("the live tail ended %v after the cut: %q, %v", time.Since(cut), e.code, e.err)
	case <-time.After(20 * time.Second):
		t.Error("the deposed leader's live tail goes on")
	}
	c.Net.Heal()
	Eventually(t, "the old leader holds what the new one acknowledged", func() bool {
		a, err := tailer.Once(ctx, http.MethodGet, oldURL+stream+"?offset=-1", nil, nil)
		return err == nil && a.Status == 200 && string(a.Body) == "acknowledged by the new leader"
	})
}

// askDeposed asks a node that is cut off for what only the leader may say.
func askDeposed(t *testing.T, c *Cluster, client *Client, url, stream string) {
	t.Helper()
	var asked sync.WaitGroup
	for _, q := range []struct{ what, method, target string }{
		{"confirmed read", http.MethodGet, stream + "?offset=-1&consistency=leader"},
		{"HEAD", http.MethodHead, stream},
		{"long-poll", http.MethodGet, stream + "?offset=0&live=long-poll&timeout_ms=100"},
		{"absent stream", http.MethodGet, "/deposed/absent?offset=-1"},
		{"position above its tail", http.MethodGet, stream + "?offset=10"},
	} {
		asked.Go(func() {
			began := time.Now()
			a, err := client.Once(t.Context(), q.method, url+q.target, nil, nil)
			if err != nil {
				t.Errorf("%s: %v", q.what, err)
				return
			}
			switch a.Status {
			case 307:
				checkRedirect(t, c, a, true)
			case 503:
				if a.Header.Get("Retry-After") == "" || (q.method == http.MethodGet && a.Code != protocol.CodeNoLeader) {
					t.Errorf("%s: %v with Retry-After %q, want NO_LEADER with one", q.what, a, a.Header.Get("Retry-After"))
				}
			default:
				t.Errorf("%s: the deposed leader answered %v", q.what, a)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s: answered after %v", q.what, took)
			}
		})
	}
	asked.Wait()
}

// U28, U27: neither a group without a majority nor a peer that is silent without
// closing its connections keeps a client waiting.
func TestTrapU28_AnAppendWithoutAMajorityEndsWithATypedAnswer(t *testing.T) {
	c := Form(t, 3, 3, 1)
	const stream = "/bounded/stream"
	client := NewClient(c.URLs())
	defer client.Close()
	if err := client.Create(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	leader := leaderOf(t, c, stream)
	url := c.Nodes[leader].URL() + stream
	for i, n := range c.Nodes {
		if i != leader {
			n.Stop()
		}
	}
	sawUnknown := false
	for i := range 3 {
		began := time.Now()
		a, err := client.Once(t.Context(), http.MethodPost, url, headers("Content-Type", "text/plain"), []byte("x"))
		if err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
		took := time.Since(began)
		t.Logf("append %d: %v after %v", i, a, took)
		if a.Status != 503 || (a.Code != protocol.CodeOutcomeUnknown && a.Code != protocol.CodeNoLeader) || a.Header.Get("Retry-After") == "" {
			t.Errorf("append %d: %v with Retry-After %q, want 503 OUTCOME_UNKNOWN or NO_LEADER", i, a, a.Header.Get("Retry-After"))
		}
		if a.Code == protocol.CodeNoLeader && a.Header.Get(protocol.HeaderRaftGroup) == "" {
			t.Errorf("append %d: NO_LEADER without the group", i)
		}
		sawUnknown = sawUnknown || a.Code == protocol.CodeOutcomeUnknown
		if took > 15*time.Second {
			t.Errorf("append %d: answered after %v", i, took)
		}
	}
	for i, n := range c.Nodes {
		if i != leader {
			n.Start()
		}
	}
	c.AwaitReady()
	a := client.Until(t.Context(), http.MethodPost, stream, headers("Content-Type", "text/plain"), []byte("y"), true)
	if a == nil || a.Status != 204 {
		t.Fatalf("append after the followers are back: %v", a)
	}
	t.Logf("an unknown outcome was seen: %v", sawUnknown)
}

func TestAFrozenPeerCostsSeconds(t *testing.T) {
	c := Form(t, 3, 3, 3)
	l := StartLoad(t, c.URLs(), 2)
	l.AwaitProgress(t, 10)
	leader := leaderOf(t, c, l.Streams[0].Stream)
	l.Gap()
	// Nobody closes anything: bytes to and from the leader's node just stop.
	c.Net.Isolate(leader, 3, Hold)
	l.AwaitProgress(t, 10)
	gap := l.Gap()
	t.Logf("longest time without an acknowledgement: %v", gap)
	// The writers' own requests to the frozen node are answered by their bounds.
	if gap > 20*time.Second {
		t.Errorf("writers stood still for %v", gap)
	}
	c.Net.Heal()
	c.AwaitReady()
	l.Check(t)
}

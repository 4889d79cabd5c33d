package cluster

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// ttlStreams are a sliding TTL and an absolute expiry, both an hour away, in
// each group of the cluster.
func ttlStreams(t *testing.T, c *Client) (streams []string) {
	t.Helper()
	for _, s := range []string{"/clock/ttl-0", "/clock/ttl-1", "/clock/ttl-2", "/clock/ttl-3"} {
		if err := c.Create(t.Context(), s, "Stream-TTL", "3600"); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	for _, s := range []string{"/clock/at-0", "/clock/at-1", "/clock/at-2", "/clock/at-3"} {
		if err := c.Create(t.Context(), s, "Stream-Expires-At", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	return streams
}

func checkAlive(t *testing.T, c *Client, streams []string) {
	t.Helper()
	for _, s := range streams {
		ctx, cancel := context.WithTimeout(t.Context(), Patience)
		a := c.Until(ctx, http.MethodHead, s, nil, nil, true)
		cancel()
		if a == nil || a.Status != 200 {
			t.Errorf("%s, which lives for an hour: %v", s, a)
			continue
		}
		// A write is held against the group's time, not against anybody's clock.
		ctx, cancel = context.WithTimeout(t.Context(), Patience)
		a = c.Until(ctx, http.MethodPost, s, headers("Content-Type", "text/plain"), []byte("x"), true)
		cancel()
		if a == nil || a.Status != 204 {
			t.Errorf("append to %s, which lives for an hour: %v", s, a)
		}
	}
}

// awaitDistrust returns when the node leads nothing and says why.
func awaitDistrust(t *testing.T, n *Node) {
	t.Helper()
	if !EventuallyWithin(Patience, func() bool {
		s := n.Status()
		return s.ClockSuspect && s.Leading == 0
	}) {
		t.Fatalf("the node with the wrong clock goes on to lead: %+v", n.Status())
	}
}

// D1: a node whose clock goes wrong stamps nothing that can't be taken back,
// also not in the moment before its peers tell it.
func TestTrapD1_AClockAYearAheadExpiresNothingAndLeadsNothing(t *testing.T) {
	for _, skew := range []struct {
		name string
		by   time.Duration
	}{{"a year ahead", 365 * 24 * time.Hour}, {"ten minutes behind", -10 * time.Minute}} {
		t.Run(skew.name, func(t *testing.T) {
			c := Form(t, 3, 3, 4)
			client := NewClient(c.URLs())
			defer client.Close()
			streams := ttlStreams(t, client)
			l := StartLoad(t, c.URLs(), 2)
			l.AwaitProgress(t, 10)
			wrong := c.Nodes[leaderOf(t, c, l.Streams[0].Stream)]
			l.Gap()
			wrong.Skew(skew.by)
			// Requests that would expire what the wrong clock says has expired.
			for range 20 {
				for _, s := range streams {
					a, err := client.Once(t.Context(), http.MethodGet, wrong.URL()+s+"?offset=-1", nil, nil)
					if err == nil && a.Status == 404 {
						t.Fatalf("%s: %v from the node with the wrong clock", s, a)
					}
				}
			}
			awaitDistrust(t, wrong)
			l.AwaitProgress(t, 10)
			t.Logf("longest time without an acknowledgement: %v", l.Gap())
			checkAlive(t, client, streams)
			wrong.Skew(0)
			Eventually(t, "the node's clock is trusted again", func() bool { return !wrong.Status().ClockSuspect })
			c.AwaitReady()
			checkAlive(t, client, streams)
			l.Check(t)
		})
	}
}

// A node that starts with a wrong clock knows its peers' before it can lead.
func TestTrapD1_ANodeThatStartsWithAWrongClockExpiresNothing(t *testing.T) {
	c := Form(t, 3, 3, 4)
	client := NewClient(c.URLs())
	defer client.Close()
	streams := ttlStreams(t, client)
	for _, n := range c.Nodes {
		n.Stop()
	}
	wrong := c.Nodes[1]
	wrong.Skew(365 * 24 * time.Hour)
	// Of three nodes one stays away: the one peer that is there must do.
	wrong.Start()
	c.Nodes[2].Start()
	checkAlive(t, client, streams)
	c.Nodes[0].Start()
	awaitDistrust(t, wrong)
	checkAlive(t, client, streams)
	wrong.Skew(0)
}

// P2: the promise of a sliding TTL: it ends, and not while somebody reads.
func TestTrapP2_ATTLEndsOnlyWhenNobodyReads(t *testing.T) {
	c := Form(t, 3, 3, 2)
	client := NewClient(c.URLs())
	defer client.Close()
	const read, idle = "/clock/read-often", "/clock/idle"
	for _, s := range []string{read, idle} {
		if err := client.Create(t.Context(), s, "Stream-TTL", "3"); err != nil {
			t.Fatal(err)
		}
	}
	gone := time.Now()
	Eventually(t, "the idle stream ends", func() bool {
		// Any node's reads count, and no failover forgets them.
		for _, url := range c.URLs() {
			a, err := client.Follow(t.Context(), http.MethodGet, url, read+"?offset=-1", nil, nil)
			if err == nil && a.Status == 404 {
				t.Fatalf("the stream that is read ended: %v", a)
			}
		}
		if a, err := client.Follow(t.Context(), http.MethodHead, c.URLs()[0], idle, nil, nil); err != nil || a.Status != 404 {
			return false
		}
		return time.Since(gone) > 4*time.Second
	})
	leader := c.Nodes[leaderOf(t, c, read)]
	leader.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if a := client.Until(ctx, http.MethodHead, idle, nil, nil, true); a == nil || a.Status != 404 {
		t.Errorf("the ended stream is back after a failover: %v", a)
	}
}

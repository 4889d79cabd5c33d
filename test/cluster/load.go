package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel.dev/runnel/node/protocol"
)

// Load is a running workload: for each stream a producer, a plain writer, a
// confirmed reader, a local reader of every node and a live tail.
type Load struct {
	Streams []*History
	urls    []string
	cancel  context.CancelFunc
	work    sync.WaitGroup
}

// pace is the time between two requests of one actor: the machine has to run
// the cluster as well.
const pace = 15 * time.Millisecond

// StartLoad creates the streams and starts the workload.
func StartLoad(t testing.TB, urls []string, streams int) *Load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{urls: urls, cancel: cancel}
	setup := NewClient(urls)
	defer setup.Close()
	within, done := context.WithTimeout(ctx, Patience)
	defer done()
	for i := range streams {
		h := NewHistory(fmt.Sprintf("/load/stream-%d", i))
		if err := setup.Create(within, h.Stream); err != nil {
			t.Fatal(err)
		}
		l.Streams = append(l.Streams, h)
		l.work.Go(func() { l.produce(ctx, h) })
		l.work.Go(func() { l.write(ctx, h) })
		l.work.Go(func() { l.readConfirmed(ctx, h) })
		l.work.Go(func() { l.tail(ctx, h) })
		for k, url := range urls {
			l.work.Go(func() { l.readLocal(ctx, h, fmt.Sprintf("local read of node %d", k), url) })
		}
	}
	return l
}

// every calls f at the pace until ctx ends.
func every(ctx context.Context, f func()) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Gap returns the longest time that a stream's writers went without an
// acknowledgement since the last call.
func (l *Load) Gap() (gap time.Duration) {
	for _, h := range l.Streams {
		gap = max(gap, h.Gap())
	}
	return gap
}

// AwaitProgress returns when each stream has taken more appends.
func (l *Load) AwaitProgress(t testing.TB, more int) {
	t.Helper()
	var from []int
	for _, h := range l.Streams {
		n, _ := h.Counts()
		from = append(from, n)
	}
	Eventually(t, "writers get on", func() bool {
		for i, h := range l.Streams {
			if n, _ := h.Counts(); n < from[i]+more {
				return false
			}
		}
		return true
	})
}

// rotated returns the URLs in an order that begins elsewhere.
func (l *Load) rotated(by int) []string {
	by %= len(l.urls)
	return append(append([]string{}, l.urls[by:]...), l.urls[:by]...)
}

func (l *Load) produce(ctx context.Context, h *History) {
	c := NewClient(l.urls)
	defer c.Close()
	p := &Producer{client: c, stream: h.Stream, id: "producer"}
	for i := 0; ctx.Err() == nil; i++ {
		body := []byte(fmt.Sprintf("[p%07d]", i))
		r, floor := h.BeginAppend("producer", body, true)
		a, err := p.Append(ctx, body)
		switch {
		case err != nil:
			h.Fault("%v", err)
			return
		case a == nil:
			h.Lost()
			return // the session ends with its last write unknown
		}
		h.Acked(r, floor, a.Next())
		pause(ctx)
	}
}

func pause(ctx context.Context) {
	timer := time.NewTimer(pace)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (l *Load) write(ctx context.Context, h *History) {
	c := NewClient(l.rotated(1))
	defer c.Close()
	i := 0
	every(ctx, func() {
		i++
		body := []byte(fmt.Sprintf("[w%07d]", i))
		r, floor := h.BeginAppend("writer", body, false)
		a := c.Until(ctx, http.MethodPost, h.Stream, headers("Content-Type", "text/plain"), body, false)
		switch {
		case a == nil:
			h.Lost()
		case a.Outcome() == Applied:
			h.Acked(r, floor, a.Next())
		case a.Outcome() == Refused:
			h.Refuse("writer", r)
			h.Fault("append %q: %v %s", body, a, a.Body)
		default:
			h.Lost()
		}
	})
}

// readConfirmed reads from a position that had been answered, so that a node
// with an older state has nothing right to say.
func (l *Load) readConfirmed(ctx context.Context, h *History) {
	c := NewClient(l.rotated(2))
	defer c.Close()
	i := 0
	every(ctx, func() {
		i++
		floor := h.BeginRead()
		from := max(floor-20, 0)
		target := h.Stream + "?consistency=leader&offset=" + protocol.Offset(from).String()
		a, err := c.Follow(ctx, http.MethodGet, l.urls[i%len(l.urls)], target, nil, nil)
		switch {
		case err != nil || a.Status == 503 || a.Status == 307:
		case a.Status == 200:
			h.Confirmed(floor, from, a.Body, a.Header.Get(protocol.HeaderStreamUpToDate) == "true")
		default:
			h.Fault("confirmed read from %d: %v", from, a)
		}
	})
}

// readLocal reads on with one node's own state, wherever a redirect leads.
func (l *Load) readLocal(ctx context.Context, h *History, who, url string) {
	c := NewClient([]string{url})
	defer c.Close()
	from := int64(0)
	every(ctx, func() {
		a, err := c.Follow(ctx, http.MethodGet, url, h.Stream+"?offset="+protocol.Offset(from).String(), nil, nil)
		switch {
		case err != nil || a.Status == 503 || a.Status == 307:
		case a.Status == 200:
			h.Saw(who, from, a.Body)
			if next := a.Next(); next != from+int64(len(a.Body)) {
				h.Fault("%s: %d bytes from %d, next %d", who, len(a.Body), from, next)
			} else {
				from = next
			}
		default:
			// 416 is only given after a confirmation: this position was read.
			h.Fault("%s from %d: %v", who, from, a)
		}
	})
}

// tail follows the stream live and resumes where each answer ended.
func (l *Load) tail(ctx context.Context, h *History) {
	c := NewClient(l.urls)
	defer c.Close()
	from := int64(0)
	i := 0
	every(ctx, func() {
		i++
		next, code, err := c.Tail(ctx, l.urls[i%len(l.urls)], h.Stream, from, func(at int64, data []byte) {
			h.Saw("live tail", at, data)
		})
		switch {
		case errors.Is(err, errTail):
			h.Fault("%v", err)
		case code != "" && code != "503" && code != "307" && !strings.Contains(code, string(protocol.CodeNoLeader)):
			h.Fault("live tail at %d ended with %s: %v", from, code, err)
		}
		from = next
	})
}

// Stop ends the workload.
func (l *Load) Stop() {
	l.cancel()
	l.work.Wait()
}

// Check stops the workload and holds every history against what every node
// holds. The cluster must be healthy.
func (l *Load) Check(t testing.TB) {
	t.Helper()
	l.Stop()
	c := NewClient(l.urls)
	defer c.Close()
	for _, h := range l.Streams {
		var a *Answer
		var differs string
		// A write that the end of the workload cut off may still apply, after a
		// linearizable read too: leader and replicas are read until they agree.
		agreed := EventuallyWithin(Patience, func() bool {
			a, differs = l.compare(c, h.Stream)
			return differs == ""
		})
		if !agreed {
			t.Errorf("%s: %s", h.Stream, differs)
		}
		if a == nil {
			continue
		}
		h.Verify(t, a.Body)
		acked, unknown := h.Counts()
		t.Logf("%s: %d bytes, %d appends acknowledged, %d unknown, %d pieces read", h.Stream, len(a.Body), acked, unknown, len(h.pieces))
	}
}

// compare reads a stream from its leader and from every node, and says which of
// them differs.
func (l *Load) compare(c *Client, stream string) (leader *Answer, differs string) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	a := c.Until(ctx, http.MethodGet, stream+"?offset=-1&consistency=leader", nil, nil, true)
	if a == nil || a.Status != 200 {
		return nil, fmt.Sprintf("final read: %v", a)
	}
	for k, url := range l.urls {
		got, err := c.Follow(ctx, http.MethodGet, url, stream+"?offset=-1", nil, nil)
		if err != nil || got.Status != 200 || string(got.Body) != string(a.Body) {
			return a, fmt.Sprintf("node %d holds other bytes than the leader: %v %v", k, got, err)
		}
	}
	return a, ""
}

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"runnel.dev/runnel/node/protocol"
)

// Outcome is what an answer proves about a write (extensions 11.1).
type Outcome int

const (
	Unknown Outcome = iota
	Applied
	Refused
)

// Answer is one answer of a node.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Code   protocol.Code
}

// Next is the answer's Stream-Next-Offset, -1 when it has none.
func (a *Answer) Next() int64 {
	n, err := strconv.ParseInt(a.Header.Get(protocol.HeaderStreamNextOffset), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (a *Answer) String() string {
	return fmt.Sprintf("%d %s %s next=%d", a.Status, a.Code, a.Header.Get("Location"), a.Next())
}

// Client sends requests to any node and follows what the answers say.
type Client struct {
	http *http.Client
	urls []string
}

// attempt bounds one request: more than the node's own bounds, so that an
// answer is awaited that a node owes.
const attempt = 20 * time.Second

// NewClient returns a client with connections of its own.
func NewClient(urls []string) *Client {
	return &Client{
		urls: urls,
		http: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 5 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close ends the client's connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Once sends one request to one URL and checks what every answer must have.
func (c *Client) Once(ctx context.Context, method, url string, h http.Header, body []byte) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range h {
		req.Header[k] = v
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	a := &Answer{Status: resp.StatusCode, Header: resp.Header, Body: b}
	var e struct {
		Error struct {
			Code protocol.Code `json:"code"`
		} `json:"error"`
		Code protocol.Code `json:"code"`
	}
	if resp.StatusCode >= 400 && json.Unmarshal(b, &e) == nil {
		if a.Code = e.Code; a.Code == "" {
			a.Code = e.Error.Code
		}
	}
	return a, nil
}

// Outcome says what the answer proves about a write.
func (a *Answer) Outcome() Outcome {
	switch {
	case a == nil:
		return Unknown
	case a.Status >= 200 && a.Status < 300:
		return Applied
	case a.Status == 307, a.Status >= 400 && a.Status < 500 && a.Status != 408:
		return Refused
	}
	switch a.Code {
	case protocol.CodeNoLeader, protocol.CodeRaftUncommittedBackpressure, protocol.CodeApplyStopped, protocol.CodeIngressBodyBytesLimitReached:
		return Refused
	}
	return Unknown
}

// retriable says that the same request may get another answer later.
func (a *Answer) retriable() bool { return a.Status == 503 }

// maxHops bounds how many redirects one request follows.
const maxHops = 5

// Follow sends a request to the node at start and follows redirects. An error
// is a request without an answer.
func (c *Client) Follow(ctx context.Context, method, start, target string, h http.Header, body []byte) (*Answer, error) {
	url := start + target
	for hop := 0; ; hop++ {
		a, err := c.Once(ctx, method, url, h, body)
		if err != nil {
			return nil, err
		}
		if a.Status != 307 || hop == maxHops {
			return a, nil
		}
		url = a.Header.Get("Location")
	}
}

// Until repeats a request over all nodes until an answer is final: neither a
// redirect nor a 503 nor, when repeatable, an unknown outcome. It is nil when
// ctx ended first, or when an outcome that can't be repeated is unknown.
func (c *Client) Until(ctx context.Context, method, target string, h http.Header, body []byte, repeatable bool) *Answer {
	wait := 5 * time.Millisecond
	for i := 0; ctx.Err() == nil; i++ {
		a, err := c.Follow(ctx, method, c.urls[i%len(c.urls)], target, h, body)
		switch {
		case err != nil && !repeatable:
			return nil
		case err == nil && a.Status != 307 && !a.retriable():
			return a
		case err == nil && a.Outcome() == Unknown && !repeatable:
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		wait = min(2*wait, 200*time.Millisecond)
	}
	return nil
}

// Create makes a text stream; more headers may be given as pairs.
func (c *Client) Create(ctx context.Context, stream string, pairs ...string) error {
	h := headers(append([]string{"Content-Type", "text/plain"}, pairs...)...)
	a := c.Until(ctx, http.MethodPut, stream, h, nil, true)
	if a == nil {
		return fmt.Errorf("create %s: no answer", stream)
	}
	if a.Status != 200 && a.Status != 201 {
		return fmt.Errorf("create %s: %v", stream, a)
	}
	return nil
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// Producer is a session of an idempotent producer: one write at a time, each
// repeated under its key until it is known to have applied.
type Producer struct {
	client *Client
	stream string
	id     string
	seq    int64
}

// Append returns the answer that says the write has applied, nil when ctx ended
// before, and an error for an answer that a correct session never gets.
func (p *Producer) Append(ctx context.Context, body []byte) (*Answer, error) {
	h := headers("Content-Type", "text/plain", protocol.HeaderProducerID, p.id,
		protocol.HeaderProducerEpoch, "0", protocol.HeaderProducerSeq, strconv.FormatInt(p.seq, 10))
	a := p.client.Until(ctx, http.MethodPost, p.stream, h, body, true)
	if a == nil {
		return nil, nil
	}
	if a.Status != 200 && a.Status != 204 {
		return nil, fmt.Errorf("producer %s seq %d: %v %s", p.id, p.seq, a, a.Body)
	}
	p.seq++
	return a, nil
}

// Tail reads a stream live from a position until the answer or ctx ends. It
// returns the bytes, the position to go on from and the error event's code.
func (c *Client) Tail(ctx context.Context, base, stream string, from int64, sink func(from int64, data []byte)) (next int64, code string, err error) {
	next = from
	url := base + stream + "?live=sse&offset=" + protocol.Offset(from).String()
	var resp *http.Response
	for hop := 0; ; hop++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return next, "", err
		}
		if resp, err = c.http.Do(req); err != nil {
			return next, "", err
		}
		if resp.StatusCode != 307 || hop == maxHops {
			break
		}
		url = resp.Header.Get("Location")
		_ = resp.Body.Close()
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		b, _ := io.ReadAll(resp.Body)
		return next, strconv.Itoa(resp.StatusCode), fmt.Errorf("tail: %d %s", resp.StatusCode, b)
	}
	return readEvents(resp.Body, from, sink)
}

// readEvents parses server-sent events. Data counts once its control event has
// said where it ends.
func readEvents(r io.Reader, from int64, sink func(int64, []byte)) (next int64, code string, err error) {
	next = from
	var event string
	var data, pending []byte
	lines := newLines(r)
	for {
		line, err := lines.next()
		if err != nil {
			return next, "", err
		}
		switch {
		case strings.HasPrefix(line, "event: "):
			event, data = line[len("event: "):], nil
		case strings.HasPrefix(line, "data:"):
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, line[len("data:"):]...)
		case line == "" && event == "data":
			pending = append(pending, data...)
			event = ""
		case line == "" && event == "error":
			return next, string(data), nil
		case line == "" && event == "control":
			event = ""
			var c struct{ StreamNextOffset string }
			if err := json.Unmarshal(data, &c); err != nil {
				return next, "", fmt.Errorf("control event %q: %w", data, err)
			}
			to, err := strconv.ParseInt(c.StreamNextOffset, 10, 64)
			if err != nil {
				return next, "", fmt.Errorf("control event %q: %w", data, err)
			}
			if to != next+int64(len(pending)) {
				return next, "", fmt.Errorf("%w: %d bytes from %d end at %d", errTail, len(pending), next, to)
			}
			sink(next, pending)
			next, pending = to, nil
		}
	}
}

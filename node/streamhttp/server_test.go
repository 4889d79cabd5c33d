package streamhttp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"runnel.dev/runnel/node/http1"
)

// front is one way to serve the handler; every wire test runs on all of them.
type front struct {
	name  string
	serve func(t *testing.T, h http1.Handler) (url string)
}

var fronts = []front{
	{"lean", func(t *testing.T, h http1.Handler) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http1.Server{Handler: h}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = s.Shutdown(ctx)
			_ = s.Close()
			<-done
		})
		return "http://" + l.Addr().String()
	}},
	{"nethttp", func(t *testing.T, h http1.Handler) string {
		s := httptest.NewServer(http1.Adapter(h, http1.Limits{}))
		t.Cleanup(s.Close)
		return s.URL
	}},
}

// node is a served fake with a client.
type node struct {
	*fake
	t      *testing.T
	h      *Handler
	url    string
	client *http.Client
}

func onFronts(t *testing.T, c Config, run func(t *testing.T, n *node)) {
	t.Helper()
	for _, f := range fronts {
		t.Run(f.name, func(t *testing.T) { run(t, serveFake(t, f, c)) })
	}
}

func serveFake(t *testing.T, f front, c Config) *node {
	eng := newFake()
	h := New(eng, c)
	tr := &http.Transport{MaxIdleConnsPerHost: 64}
	n := &node{fake: eng, t: t, h: h, url: f.serve(t, h), client: &http.Client{
		Transport:     tr,
		Timeout:       20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return n
}

type reply struct {
	status int
	header http.Header
	body   string
}

// do sends "METHOD /target" with headers as "Name: value" lines.
func (n *node) do(line, headers, body string) reply {
	n.t.Helper()
	resp, err := n.client.Do(n.request(line, headers, body))
	if err != nil {
		n.t.Fatalf("%s: %v", line, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatalf("%s: read the answer: %v", line, err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func (n *node) request(line, headers, body string) *http.Request {
	n.t.Helper()
	method, target, _ := strings.Cut(line, " ")
	req, err := http.NewRequest(method, n.url, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	path, query, has := strings.Cut(target, "?")
	req.URL.Opaque, req.URL.RawQuery, req.URL.ForceQuery = "//"+req.URL.Host+path, query, has && query == ""
	for _, l := range strings.Split(headers, "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(l), ":"); ok {
			req.Header.Add(name, strings.TrimSpace(value))
		}
	}
	return req
}

// step is one request of a scripted case and what its answer must be.
type step struct {
	do      string // "METHOD /target"
	send    string // header lines
	body    string
	status  int
	code    string // of the error body
	want    string // header lines; a value of - means absent
	content *string
	before  func(*node)
}

func text(s string) *string { return &s }

func (n *node) run(steps []step) {
	n.t.Helper()
	for i, s := range steps {
		if s.before != nil {
			s.before(n)
		}
		n.check(fmt.Sprintf("step %d, %s", i+1, s.do), s, n.do(s.do, s.send, s.body))
	}
}

func (n *node) check(what string, s step, r reply) {
	t := n.t
	t.Helper()
	if r.status != s.status {
		t.Fatalf("%s: status %d, want %d; body %.200q", what, r.status, s.status, r.body)
	}
	wantSecurity(t, what, r.header)
	for _, l := range strings.Split(s.want, "\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(l), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		got, present := r.header.Get(name), len(r.header.Values(name)) > 0
		if value == "-" && present {
			t.Errorf("%s: %s: %s, want none", what, name, got)
		} else if value != "-" && (!present || got != value) {
			t.Errorf("%s: %s: %q, want %q", what, name, got, value)
		}
	}
	if s.content != nil && r.body != *s.content {
		t.Errorf("%s: body %.300q, want %.300q", what, r.body, *s.content)
	}
	isHead := strings.HasPrefix(s.do, "HEAD ")
	if isHead && (r.header.Get("Ursula-Protocol") != "2" || r.header.Get("Ursula-Cluster-Id") != "cluster-1") {
		t.Errorf("%s: answer to HEAD without identity: %v", what, r.header)
	}
	if s.status >= 400 {
		wantError(t, what, s.code, isHead, r)
	} else if s.code != "" {
		t.Errorf("%s: the case asks for a code on a %d", what, s.status)
	}
}

func wantSecurity(t *testing.T, what string, h http.Header) {
	t.Helper()
	if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "cross-origin" {
		t.Errorf("%s: security headers missing: %v", what, h)
	}
	if !strings.Contains(h.Get("Cache-Control"), "no-store") {
		t.Errorf("%s: Cache-Control %q, want no-store", what, h.Get("Cache-Control"))
	}
}

func wantError(t *testing.T, what, code string, isHead bool, r reply) {
	t.Helper()
	if r.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: Content-Type %q of an error", what, r.header.Get("Content-Type"))
	}
	if isHead {
		if r.body != "" {
			t.Errorf("%s: body %q on HEAD", what, r.body)
		}
	} else if !strings.HasPrefix(r.body, `{"error":{"code":"`+code+`","message":"`) || !strings.HasSuffix(r.body, `"}}`) {
		t.Errorf("%s: error body %q, want code %s", what, r.body, code)
	}
	if (r.status == 503) != (r.header.Get("Retry-After") != "") {
		t.Errorf("%s: status %d with Retry-After %q", what, r.status, r.header.Get("Retry-After"))
	}
}

// o is an offset on the wire.
func o(n int) string { return fmt.Sprintf("%020d", n) }

// events is an open SSE answer.
type sseClient struct {
	t      *testing.T
	header http.Header
	body   io.ReadCloser
	in     *bufio.Reader
	cancel context.CancelFunc
}

func (n *node) openSSE(target string) *sseClient {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	resp, err := n.client.Do(n.request("GET "+target, "", "").WithContext(ctx))
	if err != nil {
		cancel()
		n.t.Fatalf("open %s: %v", target, err)
	}
	c := &sseClient{n.t, resp.Header, resp.Body, bufio.NewReader(resp.Body), cancel}
	n.t.Cleanup(c.close)
	if resp.StatusCode != 200 {
		n.t.Fatalf("open %s: status %d", target, resp.StatusCode)
	}
	wantSecurity(n.t, target, resp.Header)
	return c
}

func (c *sseClient) close() {
	c.cancel()
	c.body.Close()
}

// event reads one event as it stands, without its blank line; "" at the end.
func (c *sseClient) event() string {
	c.t.Helper()
	var b bytes.Buffer
	for {
		line, err := c.in.ReadString('\n')
		if err == io.EOF && line == "" && b.Len() == 0 {
			return ""
		}
		if err != nil {
			c.t.Fatalf("read an event: %v after %q", err, b.String()+line)
		}
		if line == "\n" {
			return strings.TrimSuffix(b.String(), "\n")
		}
		b.WriteString(line)
	}
}

// want reads events and compares them; a cursor in a control event is compared
// as C.
func (c *sseClient) want(events ...string) {
	c.t.Helper()
	for _, w := range events {
		got := c.event()
		if i := strings.Index(got, `"streamCursor":"`); i >= 0 {
			start := i + len(`"streamCursor":"`)
			end := start + strings.IndexByte(got[start:], '"')
			if strings.Trim(got[start:end], "0123456789") != "" || end == start {
				c.t.Fatalf("cursor %q is not decimal", got[start:end])
			}
			got = got[:start] + "C" + got[end:]
		}
		if got != w {
			c.t.Fatalf("event %q, want %q", got, w)
		}
	}
}

func control(next int, rest string) string {
	return `event: control` + "\n" + `data:{"streamNextOffset":"` + o(next) + `"` + rest + `}`
}

const (
	open     = `,"streamCursor":"C"`
	upToDate = `,"streamCursor":"C","upToDate":true`
	atEnd    = `,"upToDate":true,"streamClosed":true`
)

// eventually polls a condition until it holds, within a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

package bench

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// Options are common to all scenarios.
type Options struct {
	// Targets are base URLs, http or https. Streams are spread over them in turn.
	Targets []string
	// PathPrefix comes before "{bucket}/{stream}" ["/"]. "/v1/stream/" reaches
	// servers of the base protocol.
	PathPrefix string
	// Bucket of the streams ["bench"]; "-" leaves the bucket out of the path.
	Bucket string
	// Run names this run's streams [the time], so that runs don't meet.
	Run string
	// ContentType of the streams ["text/plain"].
	ContentType string
	// Timeout bounds one request [30 s].
	Timeout time.Duration
	// Insecure accepts any certificate.
	Insecure bool
	// PIDs are processes of the server on this machine whose CPU and memory
	// are reported.
	PIDs []int
}

func (o Options) withDefaults() Options {
	if o.PathPrefix == "" {
		o.PathPrefix = "/"
	}
	if o.Bucket == "" {
		o.Bucket = "bench"
	}
	if o.Run == "" {
		o.Run = strconv.FormatInt(time.Now().UnixMilli(), 36)
	}
	if o.ContentType == "" {
		o.ContentType = "text/plain"
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	return o
}

func (o Options) parsedTargets() ([]target, error) {
	if len(o.Targets) == 0 {
		return nil, fmt.Errorf("no target: give the base url of a server")
	}
	ts := make([]target, len(o.Targets))
	for i, raw := range o.Targets {
		t, err := parseTarget(raw)
		if err != nil {
			return nil, err
		}
		ts[i] = t
	}
	return ts, nil
}

// path of the i-th stream of the run.
func (o *Options) path(i int) string {
	p := o.PathPrefix
	if o.Bucket != "-" {
		p += o.Bucket + "/"
	}
	return p + o.Run + "-" + strconv.Itoa(i)
}

// session talks about one stream over one connection. It follows the server's
// redirects and stays where they lead.
type session struct {
	opts *Options
	t    target
	path string
	buf  int // size of the read buffer, 0 for the default
	c    *conn
}

func (s *session) close() {
	if s.c != nil {
		s.c.close()
		s.c = nil
	}
}

// render writes a request. fields are whole lines.
func render(method, path, host, fields string, body []byte) []byte {
	req := method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + fields
	if body != nil {
		req += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return append([]byte(req+"\r\n"), body...)
}

// open sends a request and reads the head of its answer, following one
// redirect. The body is the caller's to read.
func (s *session) open(ctx context.Context, method, path, fields string, body []byte) (response, error) {
	for hops := 0; ; hops++ {
		req := render(method, path, s.t.host, fields, body)
		res, err := s.exchange(ctx, method, req)
		if err != nil || res.status != 307 || hops == maxRedirect {
			return res, err
		}
		if path, err = s.follow(res.get("Location"), path); err != nil {
			return res, err
		}
	}
}

func (s *session) connect(ctx context.Context) error {
	if s.c != nil {
		return nil
	}
	c, err := connect(ctx, s.t, s.opts.Insecure)
	if err != nil {
		return err
	}
	if s.buf > 0 {
		c.buf = make([]byte, s.buf)
	}
	s.c = c
	return nil
}

// exchange sends one rendered request to the current target.
func (s *session) exchange(ctx context.Context, method string, req []byte) (response, error) {
	if err := s.connect(ctx); err != nil {
		return response{}, err
	}
	err := s.c.send(req, s.opts.Timeout)
	var res response
	if err == nil {
		res, err = s.c.readHead(method)
	}
	if err != nil {
		s.close()
	}
	return res, err
}

// follow turns the session to where a redirect leads and returns the path.
func (s *session) follow(location, path string) (string, error) {
	if _, err := s.finish(); err != nil {
		return "", err
	}
	u, err := url.Parse(location)
	if err != nil || location == "" {
		return "", fmt.Errorf("redirect to %q", location)
	}
	if u.Host != "" {
		t, err := parseTarget(u.Scheme + "://" + u.Host)
		if err != nil {
			return "", fmt.Errorf("redirect: %w", err)
		}
		if t != s.t {
			s.close()
			s.t = t
		}
	}
	if u.Path != "" {
		path = u.RequestURI()
	}
	return path, nil
}

// finish reads the rest of the answer, so that the connection can go on. It
// returns the number of body bytes.
func (s *session) finish() (int64, error) {
	if s.c == nil {
		return 0, nil
	}
	n, err := s.c.discard()
	if err != nil || s.c.closes {
		s.close()
	}
	return n, err
}

// do is open and finish.
func (s *session) do(ctx context.Context, method, path, fields string, body []byte) (int, error) {
	res, err := s.open(ctx, method, path, fields, body)
	if err != nil {
		return 0, err
	}
	status := res.status
	_, err = s.finish()
	return status, err
}

// create creates the stream, again while the server answers 503 or 307.
func (s *session) create(ctx context.Context, body []byte) error {
	fields := "Content-Type: " + s.opts.ContentType + "\r\n"
	deadline := time.Now().Add(s.opts.Timeout)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		status, err := s.do(ctx, "PUT", s.path, fields, nonNil(body))
		if err == nil && (status == 200 || status == 201 || status == 204) {
			return nil
		}
		if err == nil && status != 503 && status != 307 || time.Now().After(deadline) {
			return fmt.Errorf("create %s at %s: status %d: %w", s.path, s.t.host, status, orNil(err))
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

var errRefused = fmt.Errorf("refused by the server")

func orNil(err error) error {
	if err == nil {
		return errRefused
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

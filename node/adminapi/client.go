package adminapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// DefaultTimeout bounds a call whose context has no earlier deadline.
const DefaultTimeout = 15 * time.Second

// maxHops bounds how often Join follows NOT_LEADER.
const maxHops = 3

// ErrPlainAddress is a call without TLS to an address other than loopback.
var ErrPlainAddress = errors.New("the admin plane without TLS is reached on loopback only")

// Client calls the admin plane of one node. It is safe for concurrent use.
type Client struct {
	addr    string
	scheme  string
	timeout time.Duration
	http    *http.Client
}

// Options of NewClient.
type Options struct {
	// TLS holds our certificate and the CA of the nodes. Nil: plain HTTP, to
	// loopback only.
	TLS *tls.Config
	// Timeout of each call; 0 takes DefaultTimeout.
	Timeout time.Duration
}

// NewClient returns a client of the node at addr (host:port).
func NewClient(addr string, o Options) *Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxIdleConns:           4,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 16 << 10,
	}
	c := &Client{addr: addr, scheme: "https", timeout: o.Timeout}
	if o.TLS == nil {
		c.scheme = "http"
		dialer.Control = loopbackOnly
	}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	c.http = &http.Client{
		Transport: transport,
		// The plane never redirects; a leader is named in the body.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// loopbackOnly sees the resolved address before the first packet leaves.
func loopbackOnly(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("address %s: %w", address, ErrPlainAddress)
	}
	return nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status reads the node's status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, c.addr, http.MethodGet, PathStatus, nil)
}

// Init makes a cluster of the node. It may be repeated with the same request.
func (c *Client) Init(ctx context.Context, r InitRequest) (InitResponse, error) {
	if e := r.Validate(); e != nil {
		return InitResponse{}, e
	}
	return call[InitResponse](ctx, c, c.addr, http.MethodPost, PathInit, r)
}

// Join asks for a place in the node's cluster, and asks the leader that the
// node names instead. It may be repeated with the same token.
func (c *Client) Join(ctx context.Context, r JoinRequest) (JoinResponse, error) {
	if e := r.Validate(); e != nil {
		return JoinResponse{}, e
	}
	addr := c.addr
	for hop := 0; ; hop++ {
		out, err := call[JoinResponse](ctx, c, addr, http.MethodPost, PathJoin, r)
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != CodeNotLeader || refused.Leader == "" || hop == maxHops {
			return out, err
		}
		addr = refused.Leader
	}
}

func call[Out any](ctx context.Context, c *Client, addr, method, path string, in any) (out Out, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return out, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.scheme+"://"+addr+path, body)
	if err != nil {
		return out, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return out, fmt.Errorf("admin call: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, MaxResponseBytes+1))
	switch {
	case err != nil:
		return out, fmt.Errorf("admin call %s %s: read answer: %w", addr, path, err)
	case len(b) > MaxResponseBytes:
		return out, fmt.Errorf("admin call %s %s: the answer exceeds %d bytes", addr, path, MaxResponseBytes)
	case resp.StatusCode != http.StatusOK:
		return out, refusal(addr, path, resp, b)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, fmt.Errorf("admin call %s %s: %w", addr, path, err)
	}
	return out, nil
}

// refusal is the node's own error, or says that something else answered.
func refusal(addr, path string, resp *http.Response, body []byte) error {
	var e Error
	if err := json.Unmarshal(body, &e); err != nil || e.Code == "" {
		return fmt.Errorf("admin call %s %s: %s without an error body; is this the admin plane of a node?", addr, path, resp.Status)
	}
	return &e
}

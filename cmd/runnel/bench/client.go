package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	clientBuf   = 4 << 10
	maxHead     = 64 << 10
	maxRedirect = 1 // 307s a request follows
)

// target is a server's base URL, taken apart.
type target struct {
	secure bool
	addr   string // host:port to connect to
	host   string // Host field
}

func parseTarget(raw string) (target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return target{}, fmt.Errorf("base url: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return target{}, fmt.Errorf("base url %q: want http://host[:port] or https://host[:port]", raw)
	}
	t := target{secure: u.Scheme == "https", addr: u.Host, host: u.Host}
	if u.Port() == "" {
		port := "80"
		if t.secure {
			port = "443"
		}
		t.addr = net.JoinHostPort(u.Hostname(), port)
	}
	return t, nil
}

// conn is one keep-alive connection. It is not safe for concurrent use.
type conn struct {
	nc    net.Conn
	stop  func() bool // ends the watch over the context
	t     target
	buf   []byte
	r, w  int
	armed time.Time
	// state of the body being read
	left    int64 // bytes left of the body or of the chunk; -1: until the end of the connection
	chunked bool
	ended   bool
	closes  bool // the server ends the connection with this answer
}

// connect opens a connection that is closed when ctx ends.
func connect(ctx context.Context, t target, insecure bool) (*conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	nc, err := d.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	if t.secure {
		host, _, _ := net.SplitHostPort(t.addr)
		nc = tls.Client(nc, &tls.Config{ServerName: host, InsecureSkipVerify: insecure})
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	return &conn{nc: nc, stop: stop, t: t, buf: make([]byte, clientBuf)}, nil
}

func (c *conn) close() {
	c.stop()
	c.nc.Close()
}

// response is the head of an answer. head is valid until the next read.
type response struct {
	status int
	head   []byte
}

var errBadAnswer = errors.New("malformed answer")

// send writes a request. timeout bounds the whole exchange, rounded up by half:
// setting a deadline for each request would cost more than its parsing.
func (c *conn) send(req []byte, timeout time.Duration) error {
	now := time.Now()
	if c.armed.Sub(now) < timeout {
		c.armed = now.Add(timeout + timeout/2)
		c.nc.SetDeadline(c.armed)
	}
	_, err := c.nc.Write(req)
	return err
}

// readHead reads the head of the answer to a request of the given method.
func (c *conn) readHead(method string) (response, error) {
	for {
		window := c.buf[c.r:c.w]
		if i := bytes.Index(window, []byte("\r\n\r\n")); i >= 0 {
			head := window[:i+2]
			c.r += i + 4
			if len(head) < len("HTTP/1.1 200") || !bytes.HasPrefix(head, []byte("HTTP/1.")) {
				return response{}, errBadAnswer
			}
			status, err := strconv.Atoi(string(head[9:12]))
			if err != nil {
				return response{}, errBadAnswer
			}
			if status == 100 {
				continue
			}
			res := response{status, head}
			return res, c.frame(res, method)
		}
		if len(window) > maxHead {
			return response{}, errBadAnswer
		}
		if err := c.fill(); err != nil {
			return response{}, err
		}
	}
}

// frame finds out how the body ends.
func (c *conn) frame(res response, method string) error {
	c.chunked, c.ended, c.left = false, false, -1
	c.closes = strings.EqualFold(res.get("Connection"), "close")
	switch {
	case method == "HEAD" || res.status == 204 || res.status == 304:
		c.ended = true
	case strings.EqualFold(res.get("Transfer-Encoding"), "chunked"):
		c.chunked, c.left = true, 0
	default:
		if v := res.get("Content-Length"); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 0 {
				return errBadAnswer
			}
			c.left, c.ended = n, n == 0
		} else {
			c.closes = true
		}
	}
	return nil
}

// get returns a field of the head. Names compare without regard to case.
func (r response) get(name string) string {
	rest := r.head
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return ""
		}
		rest = rest[i+1:]
		if len(rest) > len(name) && rest[len(name)] == ':' && equalFold(rest[:len(name)], name) {
			v := rest[len(name)+1:]
			if j := bytes.IndexByte(v, '\r'); j >= 0 {
				v = v[:j]
			}
			return string(bytes.TrimSpace(v))
		}
	}
}

// equalFold is for ASCII names.
func equalFold(b []byte, name string) bool {
	for i := range b {
		if b[i]|0x20 != name[i]|0x20 {
			return false
		}
	}
	return true
}

func (c *conn) fill() error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if c.w == len(c.buf) {
		if c.r > 0 {
			c.w = copy(c.buf, c.buf[c.r:c.w])
			c.r = 0
		} else {
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
	}
	n, err := c.nc.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	return err
}

// next returns the next piece of the body, valid until the next read, and
// io.EOF at its end.
func (c *conn) next() ([]byte, error) {
	for {
		if c.ended {
			return nil, io.EOF
		}
		if c.chunked && c.left == 0 {
			if err := c.nextChunk(); err != nil {
				return nil, err
			}
			continue
		}
		if c.r == c.w {
			if err := c.fill(); err != nil {
				if err == io.EOF {
					if c.left < 0 {
						c.ended = true
						continue
					}
					err = io.ErrUnexpectedEOF
				}
				return nil, err
			}
		}
		n := int64(c.w - c.r)
		if c.left >= 0 {
			n = min(n, c.left)
		}
		piece := c.buf[c.r : c.r+int(n)]
		c.r += int(n)
		if c.left >= 0 {
			c.left -= n
			c.ended = c.left == 0 && !c.chunked
		}
		return piece, nil
	}
}

// nextChunk reads a chunk's size line, and at the last chunk the trailers.
func (c *conn) nextChunk() error {
	line, err := c.line()
	if err == nil && len(line) == 0 { // the end of the chunk before
		line, err = c.line()
	}
	if err != nil {
		return err
	}
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 64)
	if err != nil || n < 0 {
		return errBadAnswer
	}
	if c.left = n; n > 0 {
		return nil
	}
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			c.ended = true
			return nil
		}
	}
}

func (c *conn) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(c.buf[c.r:c.w], '\n'); i >= 0 {
			line := bytes.TrimSuffix(c.buf[c.r:c.r+i], []byte("\r"))
			c.r += i + 1
			return line, nil
		}
		if c.w-c.r > maxHead {
			return nil, errBadAnswer
		}
		if err := c.fill(); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// discard reads the body to its end and returns its length.
func (c *conn) discard() (int64, error) {
	var n int64
	for {
		p, err := c.next()
		n += int64(len(p))
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

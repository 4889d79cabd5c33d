package http1

import (
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// preface is the part of the HTTP/2 connection preface that looks like a head
// (RFC 9113 section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\n"

func (c *conn) isPreface(headLen int) bool {
	return !c.served && headLen == len(preface) &&
		strings.HasPrefix(string(c.s.in[c.s.r:c.s.r+headLen]), preface)
}

// handOff gives the connection, its place in the count and what was read of it
// to the HTTP/2 server.
func (c *conn) handOff() bool {
	read := slices.Clone(c.s.in[c.s.r:c.s.w])
	c.nc.SetDeadline(time.Time{}) // those of HTTP/2 are net/http's
	c.srv.offerCounted(c.srv.h2c, &replayConn{Conn: c.nc, read: read})
	return true
}

// replayConn is a connection whose first bytes were read already.
type replayConn struct {
	net.Conn
	read []byte
}

func (c *replayConn) Read(p []byte) (int, error) {
	if len(c.read) > 0 {
		n := copy(p, c.read)
		if c.read = c.read[n:]; len(c.read) == 0 {
			c.read = nil
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// countedConn runs release when it is closed first.
type countedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

func (c *countedConn) Close() error {
	c.once.Do(c.release)
	return c.Conn.Close()
}

// offered is a listener whose connections were accepted elsewhere.
type offered struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newOffered(addr net.Addr) *offered {
	return &offered{conns: make(chan net.Conn), done: make(chan struct{}), addr: addr}
}

// offer hands c over and reports whether it was taken.
func (o *offered) offer(c net.Conn) bool {
	select {
	case o.conns <- c:
		return true
	case <-o.done:
		return false
	}
}

func (o *offered) Accept() (net.Conn, error) {
	select {
	case c := <-o.conns:
		return c, nil
	case <-o.done:
		return nil, net.ErrClosed
	}
}

func (o *offered) Close() error {
	o.once.Do(func() { close(o.done) })
	return nil
}

func (o *offered) Addr() net.Addr { return o.addr }

package http1

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// replayed is a client that sends the same request n times and takes every answer.
type replayed struct {
	memConn
	request string
	left    int
}

func (r *replayed) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	r.left--
	return copy(p, r.request), nil
}

func (r *replayed) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkRequest is what an append costs in this package alone, without the
// system calls.
func BenchmarkRequest(b *testing.B) {
	s := &Server{Logger: quiet, limits: Limits{}.withDefaults()}
	s.Handler = HandlerFunc(func(e Exchange) {
		var buf [1024]byte
		body, err := e.ReadBody(buf[:0], 32<<20)
		if err != nil || len(body) != 256 {
			e.Respond(400, nil)
			return
		}
		e.SetHeader("Stream-Next-Offset", "0000000000000000_0000000000000256")
		e.Respond(204, nil)
	})
	request := "POST /bucket/stream HTTP/1.1\r\nHost: 127.0.0.1:4437\r\nContent-Type: application/octet-stream\r\nUser-Agent: bench\r\n" +
		"Producer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: 12\r\nContent-Length: 256\r\n\r\n" + strings.Repeat("x", 256)
	b.ReportAllocs()
	newConn(s, &replayed{request: request, left: b.N}).serve()
}

// BenchmarkLoopback is the same over a socket, one request at a time.
func BenchmarkLoopback(b *testing.B) {
	_, addr := startServer(b, HandlerFunc(testHandler), Limits{})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Hour))
	request := []byte("POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 256\r\n\r\n" + strings.Repeat("x", 256))
	buf := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

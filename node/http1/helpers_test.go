package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const testWait = 10 * time.Second

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// noLeaks fails the test when goroutines of it outlive it.
func noLeaks(t testing.TB) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(testWait)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<20)
				t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// startServer serves h on loopback until the test ends.
func startServer(t testing.TB, h Handler, lim Limits) (*Server, string) {
	t.Helper()
	noLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Handler: h, Limits: lim, Logger: quiet}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
	return s, l.Addr().String()
}

func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(testWait))
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// exchangeRaw sends raw, ends the sending side, and returns all that comes back
// without the Date fields.
func exchangeRaw(t testing.TB, addr, raw string) string {
	t.Helper()
	c := dial(t, addr)
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	c.CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", got, err)
	}
	return withoutDate(string(got))
}

func withoutDate(s string) string {
	for {
		i := strings.Index(s, "Date: ")
		if i < 0 {
			return s
		}
		s = s[:i] + s[i+strings.Index(s[i:], "\r\n")+2:]
	}
}

func readAnswer(t testing.TB, br *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// testHandler is what most tests serve.
func testHandler(e Exchange) {
	r := e.Request()
	switch r.Target {
	case "/echo":
		body, err := e.ReadBody(nil, 1<<20)
		if err != nil {
			e.Respond(statusOf(err), []byte(err.Error()))
			return
		}
		e.SetHeader("X-Length", strconv.FormatInt(r.ContentLength, 10))
		e.Respond(200, body)
	case "/head":
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s %s %t %q %s %d\n", r.Method, r.Target, r.HasQuery, r.RawQuery, r.Host, r.ContentLength)
		for i := range r.Header.Len() {
			fmt.Fprintf(&b, "%s=%s\n", r.Header.At(i).Name, r.Header.At(i).Value)
		}
		e.Respond(200, b.Bytes())
	case "/unread":
		e.Respond(404, []byte("no"))
	case "/empty":
		e.Respond(204, []byte("dropped"))
	case "/stream":
		w := e.Stream(200)
		io.WriteString(w, "hello ")
		w.Flush()
		io.WriteString(w, "world, this is more than fifteen bytes")
	case "/abort":
		w := e.Stream(200)
		io.WriteString(w, "half")
		w.Flush()
		w.Abort()
	case "/large":
		e.Respond(200, bytes.Repeat([]byte("0123456789abcdef"), 1<<17))
	case "/fields":
		e.SetHeader("X-A", "1")
		e.SetHeader("x-a", "2")
		e.AddHeader("X-B", "1")
		e.AddHeader("X-B", "2")
		e.SetHeaderBytes("X-C", []byte("three"))
		e.SetHeaderInt("X-D", -4)
		e.SetHeader("X-E", "a\r\nX-Evil: b\x00c")
		e.AddBlock(testBlock)
		e.Respond(200, nil)
	case "/nothing":
	case "/panic":
		panic("as the test wants")
	case "/panic-late":
		w := e.Stream(200)
		io.WriteString(w, "half")
		w.Flush()
		panic("as the test wants")
	default:
		e.Respond(200, []byte(r.Target))
	}
}

var testBlock = NewBlock(Field{"X-Block", "one"}, Field{"X-Block-2", "two"})

func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrBodyTooLarge):
		return 413
	case errors.Is(err, ErrBodyTooSlow):
		return 408
	}
	return 400
}

// pipeServer serves over in-memory pipes, for tests under a virtual clock.
func pipeServer(t *testing.T, h HandlerFunc, lim Limits) (s *Server, connect func() net.Conn) {
	t.Helper()
	l := newOffered(&net.TCPAddr{})
	s = &Server{Handler: h, Limits: lim, Logger: quiet}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return s, func() net.Conn {
		client, server := net.Pipe()
		if !l.offer(server) {
			t.Fatal("the server does not accept")
		}
		t.Cleanup(func() { client.Close() })
		return client
	}
}

func shutdownWithin(s *Server, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return s.Shutdown(ctx)
}

func readRest(t testing.TB, c net.Conn) string {
	t.Helper()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", got, err)
	}
	return withoutDate(string(got))
}

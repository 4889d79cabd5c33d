package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTheAnswerOutlivesABodyThatIsNotRead: a client that only reads after it
// sent everything must find the answer, not a reset.
func TestTheAnswerOutlivesABodyThatIsNotRead(t *testing.T) {
	_, addr := startServer(t, HandlerFunc(testHandler), Limits{})
	for _, tt := range []struct {
		name, target string
		body         int
		status       int
		stays        bool
	}{
		{"a small one is drained", "/unread", 100 << 10, 404, true},
		{"one over the drain's bound ends the connection", "/unread", 8 << 20, 404, false},
		{"one over the limit ends the connection", "/echo", 33 << 20, 413, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, addr)
			w := bufio.NewWriter(c)
			io.WriteString(w, "POST "+tt.target+" HTTP/1.1\r\nHost: h\r\nContent-Length: "+strconv.Itoa(tt.body)+"\r\n\r\n")
			if _, err := io.CopyN(w, endless{}, int64(tt.body)); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			br := bufio.NewReader(c)
			resp, _ := readAnswer(t, br, "POST")
			if resp.StatusCode != tt.status || resp.Close == tt.stays {
				t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
			}
			if tt.stays {
				io.WriteString(c, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
				if _, got := readAnswer(t, br, "GET"); got != "/a" {
					t.Errorf("then %q", got)
				}
			}
		})
	}
}

func TestAFlushAfterTheClientLeftFails(t *testing.T) {
	failed := make(chan error, 1)
	_, addr := startServer(t, HandlerFunc(func(e Exchange) {
		w := e.Stream(200)
		w.Flush()
		for {
			w.Write(bytes.Repeat([]byte("x"), 1000))
			if err := w.Flush(); err != nil {
				_, again := w.Write([]byte("x"))
				failed <- errors.Join(err, again)
				return
			}
		}
	}), Limits{})
	c := dial(t, addr)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	io.ReadFull(c, make([]byte, 10))
	c.Close()
	select {
	case err := <-failed:
		if !errors.Is(err, ErrStreamEnded) {
			t.Errorf("got %v", err)
		}
	case <-time.After(testWait):
		t.Fatal("writing to nobody goes on")
	}
}

func TestShutdownWaitsForWhatRunsAndClosesWhatIdles(t *testing.T) {
	for _, sd := range []struct {
		name string
		open func(t *testing.T, addr string) (send func() (int, error))
	}{
		{"lean", func(t *testing.T, addr string) func() (int, error) {
			c := dial(t, addr)
			return func() (int, error) {
				io.WriteString(c, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n")
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					return 0, err
				}
				if !resp.Close {
					t.Error("the last answer does not say so")
				}
				return resp.StatusCode, nil
			}
		}},
		{"h2c", func(t *testing.T, addr string) func() (int, error) {
			var p http.Protocols
			p.SetUnencryptedHTTP2(true)
			tr := &http.Transport{Protocols: &p}
			t.Cleanup(tr.CloseIdleConnections)
			return func() (int, error) {
				resp, err := tr.RoundTrip(mustRequest("http://" + addr + "/wait"))
				if err != nil {
					return 0, err
				}
				resp.Body.Close()
				return resp.StatusCode, nil
			}
		}},
	} {
		t.Run(sd.name, func(t *testing.T) {
			running, release := make(chan struct{}), make(chan struct{})
			s, addr := startServer(t, HandlerFunc(func(e Exchange) {
				close(running)
				<-release
				e.Respond(200, nil)
			}), Limits{})
			idle := dial(t, addr)
			send := sd.open(t, addr)
			status := make(chan int, 1)
			go func() {
				code, err := send()
				if err != nil {
					t.Error(err)
				}
				status <- code
			}()
			<-running
			ended := make(chan error, 1)
			go func() { ended <- shutdownWithin(s, testWait) }()
			if n, err := idle.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the idle connection read %d bytes, %v", n, err)
			}
			if _, err := net.Dial("tcp", addr); err == nil {
				t.Error("a connection was accepted during the shutdown")
			}
			select {
			case err := <-ended:
				t.Fatalf("shutdown ended before the request: %v", err)
			default:
			}
			close(release)
			if got := <-status; got != 200 {
				t.Errorf("the running request got %d", got)
			}
			if err := <-ended; err != nil {
				t.Errorf("shutdown: %v", err)
			}
			if err := s.Serve(&offered{conns: nil, done: make(chan struct{})}); !errors.Is(err, ErrServerClosed) {
				t.Errorf("Serve after Shutdown: %v", err)
			}
		})
	}
}

func mustRequest(url string) *http.Request {
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		panic(err)
	}
	return req
}

func TestShutdownEndsAtItsDeadline(t *testing.T) {
	running := make(chan struct{})
	s, addr := startServer(t, HandlerFunc(func(e Exchange) {
		done := e.Done()
		close(running)
		<-done
	}), Limits{})
	c := dial(t, addr)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	<-running
	if err := shutdownWithin(s, 20*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsBeyondTheLimitAreTurnedAway(t *testing.T) {
	_, addr := startServer(t, HandlerFunc(testHandler), Limits{MaxConns: 2})
	lean := dial(t, addr)
	io.WriteString(lean, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
	readAnswer(t, bufio.NewReader(lean), "GET")
	h2 := dial(t, addr) // a handed-over connection counts too
	io.WriteString(h2, preface+"SM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	io.ReadFull(h2, make([]byte, 9))

	if got := readRest(t, dial(t, addr)); got != turnedAway {
		t.Errorf("the third got %q", got)
	}
	h2.Close()
	deadline := time.Now().Add(testWait)
	for { // the server learns of the close in its own time
		c := dial(t, addr)
		io.WriteString(c, "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		got, _ := io.ReadAll(c)
		if strings.HasSuffix(string(got), "/a") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no place was given back: %q", got)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestAnIdleConnectionHoldsNoBuffers compares the heap with many idle
// connections, each of which has served a request, to the heap without.
func TestAnIdleConnectionHoldsNoBuffers(t *testing.T) {
	if !rawReads {
		t.Log("this system reads with the buffer in hand")
		return
	}
	_, addr := startServer(t, HandlerFunc(testHandler), Limits{})
	const n = 400
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := heap()
	buf := make([]byte, 4096)
	for range n {
		c := dial(t, addr)
		io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
		c.Read(buf)
	}
	// Client and server side together: two descriptors and the server's conn.
	if per := (int64(heap()) - int64(before)) / n; per > 3000 {
		t.Errorf("an idle connection holds %d bytes", per)
	} else {
		t.Logf("%d bytes for an idle connection and its client", per)
	}
}

func TestTheSecondAnswerPanics(t *testing.T) {
	_, addr := startServer(t, HandlerFunc(func(e Exchange) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		e.Respond(200, nil)
		e.Respond(200, nil)
	}), Limits{})
	if got := exchangeRaw(t, addr, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); got != ok("") {
		t.Errorf("got %q", got)
	}
}

func TestConcurrentClientsGetTheirOwnAnswers(t *testing.T) {
	var served atomic.Int64
	_, addr := startServer(t, HandlerFunc(func(e Exchange) {
		served.Add(1)
		testHandler(e)
	}), Limits{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c := dial(t, addr)
			br := bufio.NewReader(c)
			for j := range 50 {
				body := strings.Repeat(strconv.Itoa(i*1000+j), 1+j*20)
				io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if got, _ := io.ReadAll(resp.Body); string(got) != body {
					t.Errorf("client %d, request %d: %d bytes of %d", i, j, len(got), len(body))
				}
			}
		})
	}
	wg.Wait()
	if served.Load() != 800 {
		t.Errorf("served %d", served.Load())
	}
}

func TestTLSWithoutACertificateIsAnError(t *testing.T) {
	noLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Handler: HandlerFunc(testHandler), Logger: quiet}
	defer s.Close()
	if err := s.ServeTLS(l, &tls.Config{}); err == nil || errors.Is(err, ErrServerClosed) {
		t.Errorf("got %v", err)
	}
}

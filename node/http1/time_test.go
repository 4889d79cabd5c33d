package http1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// untilClosed reads to the end of the connection and returns what came and how
// long it took on the virtual clock.
func untilClosed(c net.Conn) (string, time.Duration) {
	begin := time.Now()
	got, _ := io.ReadAll(c)
	return withoutDate(string(got)), time.Since(begin)
}

// background runs a client's sending side; it ends with the test at the latest.
func background(t *testing.T, c net.Conn, send func()) {
	ended := make(chan struct{})
	t.Cleanup(func() {
		c.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		send()
	}()
}

func between(t *testing.T, what string, got, low, high time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s took %v, want %v to %v", what, got, low, high)
	}
}

func TestASlowHeadIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, connect := pipeServer(t, testHandler, Limits{})
		c := connect()
		background(t, c, func() { // one byte a second, for ever
			for i := 0; ; i++ {
				if _, err := io.WriteString(c, "GET /a HTTP/1.1\r\nHost: h\r\nX-A: "[min(i, 31):min(i, 31)+1]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		got, took := untilClosed(c)
		if got != refused("408 Request Timeout") {
			t.Errorf("got %q", got)
		}
		between(t, "the head", took, 9*time.Second, 11*time.Second)
	})
}

func TestAnIdleConnectionIsClosedSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, connect := pipeServer(t, testHandler, Limits{})
		for _, requests := range []int{0, 1, 3} {
			c := connect()
			for range requests {
				time.Sleep(3 * time.Second)
				background(t, c, func() { io.WriteString(c, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n") })
				readAnswer(t, bufio.NewReaderSize(c, 16), "GET")
			}
			got, took := untilClosed(c)
			if got != "" {
				t.Errorf("after %d requests: got %q", requests, got)
			}
			between(t, "idleness", took, 112*time.Second, 121*time.Second)
		}
	})
}

func TestASlowBodyIsCutOff(t *testing.T) {
	for _, tt := range []struct {
		name      string
		every     time.Duration
		low, high time.Duration
	}{
		{"without data for five seconds", time.Hour, 4 * time.Second, 6 * time.Second},
		{"in all, when it drips", time.Second, 29 * time.Second, 32 * time.Second},
	} {
		for _, framing := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
			t.Run(tt.name+", "+framing, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, connect := pipeServer(t, testHandler, Limits{})
					c := connect()
					background(t, c, func() {
						io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: h\r\n"+framing+"\r\n\r\n")
						for {
							if _, err := io.WriteString(c, "1\r\nx\r\n"); err != nil {
								return
							}
							time.Sleep(tt.every)
						}
					})
					got, took := untilClosed(c)
					if !strings.HasPrefix(got, "HTTP/1.1 408 ") {
						t.Errorf("got %q", got)
					}
					between(t, "the body", took, tt.low, tt.high)
				})
			})
		}
	}
}

func TestASteadyBodyIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, connect := pipeServer(t, testHandler, Limits{})
		c := connect()
		body := strings.Repeat("x", 1<<20)
		background(t, c, func() { // 1 MiB at 32 KiB/s takes 32 s: above the grace, within the budget
			io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n")
			for i := 0; i < len(body); i += 32 << 10 {
				time.Sleep(time.Second)
				io.WriteString(c, body[i:i+32<<10])
			}
		})
		resp, got := readAnswer(t, bufio.NewReader(c), "POST")
		if resp.StatusCode != 200 || got != body {
			t.Errorf("status %d, %d bytes", resp.StatusCode, len(got))
		}
	})
}

func TestADeclaredLengthTakesNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grown := make(chan int, 1)
		_, connect := pipeServer(t, func(e Exchange) {
			got, _ := e.ReadBody(nil, 32<<20)
			grown <- cap(got)
			e.Respond(400, nil)
		}, Limits{})
		c := connect()
		background(t, c, func() { io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 33554432\r\n\r\nx") })
		untilClosed(c)
		if n := <-grown; n > 2*readBodyStep {
			t.Errorf("one byte of a declared 32 MiB took %d bytes", n)
		}
	})
}

func TestAnUnreadBodyThatStallsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, connect := pipeServer(t, testHandler, Limits{})
		c := connect()
		background(t, c, func() { io.WriteString(c, "POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nab") })
		got, took := untilClosed(c)
		if got != "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno" {
			t.Errorf("got %q", got)
		}
		between(t, "the drain", took, 2*time.Second, 3*time.Second)
	})
}

func TestAClientThatDoesNotReadIsGivenUp(t *testing.T) {
	for _, target := range []string{"/a", "/large", "/stream"} {
		t.Run(target, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan time.Time, 1)
				_, connect := pipeServer(t, testHandler, Limits{})
				c := connect()
				begin := time.Now()
				background(t, c, func() {
					io.WriteString(c, "GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n")
					for { // the write fails when the server has closed
						if _, err := io.WriteString(c, "x"); err != nil {
							ended <- time.Now()
							return
						}
					}
				})
				between(t, "the write", (<-ended).Sub(begin), 30*time.Second, 61*time.Second)
			})
		})
	}
}

func TestAStreamKeepsItsOwnWriteDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		_, connect := pipeServer(t, func(e Exchange) {
			w := e.Stream(200)
			w.SetWriteDeadline(time.Now().Add(3 * time.Second))
			io.WriteString(w, "x")
			failed <- w.Flush()
		}, Limits{})
		c := connect()
		begin := time.Now()
		background(t, c, func() { io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n") })
		if err := <-failed; err == nil {
			t.Error("a client that reads nothing took the stream")
		}
		between(t, "the flush", time.Since(begin), 3*time.Second, 3*time.Second)
	})
}

func TestAQuietStreamStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, connect := pipeServer(t, func(e Exchange) {
			done := e.Done()
			w := e.Stream(200)
			for range 3 {
				fmt.Fprint(w, "event")
				w.Flush()
				select {
				case <-done:
					return
				case <-time.After(10 * time.Minute):
				}
			}
		}, Limits{})
		c := connect()
		background(t, c, func() { io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n") })
		_, got := readAnswer(t, bufio.NewReader(c), "GET")
		if got != "eventeventevent" {
			t.Errorf("got %q", got)
		}
	})
}

func TestDoneTellsThatTheClientLeft(t *testing.T) {
	for _, tt := range []struct{ name, request string }{
		{"while nothing is sent", "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
		{"after a body that is read later", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"},
		{"behind a pipelined request", "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := make(chan struct{})
				_, connect := pipeServer(t, func(e Exchange) {
					done := e.Done()
					if e.Done() != done {
						t.Error("two calls, two channels")
					}
					e.ReadBody(nil, 10)
					<-done
					close(left)
				}, Limits{})
				c := connect()
				io.WriteString(c, tt.request)
				time.Sleep(time.Minute)
				select {
				case <-left:
					t.Fatal("done before the client left")
				default:
				}
				c.Close()
				<-left
			})
		})
	}
}

func TestDoneEndsAWaitBehindAFullBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waited := make(chan time.Duration, 1)
		_, connect := pipeServer(t, func(e Exchange) {
			begin := time.Now()
			<-e.Done()
			waited <- time.Since(begin)
		}, Limits{IdleTimeout: time.Minute})
		c := connect()
		background(t, c, func() {
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			io.WriteString(c, strings.Repeat("GET /a HTTP/1.1\r\nHost: h\r\n\r\n", 10_000))
		})
		select {
		case took := <-waited:
			between(t, "the wait", took, time.Minute, time.Minute)
		case <-time.After(time.Hour):
			t.Error("the handler still waits for a client that can't be seen to leave")
			c.Close()
		}
	})
}

func TestWaitingHoldsUpNoEarlierAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		_, connect := pipeServer(t, func(e Exchange) {
			if e.Request().Target == "/wait" {
				select {
				case <-e.Done():
				case <-release:
				}
			}
			testHandler(e)
		}, Limits{})
		c := connect()
		background(t, c, func() {
			io.WriteString(c, "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /wait HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n")
		})
		br := bufio.NewReader(c)
		if _, got := readAnswer(t, br, "GET"); got != "/a" {
			t.Errorf("first answer %q", got)
		}
		close(release)
		for _, want := range []string{"/wait", "/b"} {
			if _, got := readAnswer(t, br, "GET"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

func TestExpectContinueIsAnsweredByTheFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, connect := pipeServer(t, testHandler, Limits{})
		c := connect()
		br := bufio.NewReader(c)
		for range 2 { // the connection goes on behind it
			background(t, c, func() {
				io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
			})
			line, err := br.ReadString('\n')
			if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("%q, %v", line, err)
			}
			br.ReadString('\n')
			background(t, c, func() { io.WriteString(c, "xy") })
			if resp, got := readAnswer(t, br, "POST"); resp.StatusCode != 200 || got != "xy" {
				t.Errorf("status %d, body %q", resp.StatusCode, got)
			}
		}
		background(t, c, func() {
			io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")
		})
		rest, _ := untilClosed(readConn{c, br})
		if !strings.HasPrefix(rest, "HTTP/1.1 413 ") {
			t.Errorf("a declared length over the bound got %q", rest)
		}
	})
}

type readConn struct {
	net.Conn
	r io.Reader
}

func (c readConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func TestStreamsAreFlushedInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		payload := bytes.Repeat([]byte("0123456789"), 30_000)
		_, connect := pipeServer(t, func(e Exchange) {
			w := e.Stream(200)
			if n, err := w.Write(payload); n != len(payload) || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
		}, Limits{StreamBufferBytes: 4096})
		c := connect()
		background(t, c, func() { io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n") })
		if _, got := readAnswer(t, bufio.NewReader(c), "GET"); got != string(payload) {
			t.Errorf("%d bytes of %d", len(got), len(payload))
		}
	})
}

func TestAHandedOverConnectionKeepsNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, connect := pipeServer(t, func(e Exchange) {
			if e.Request().Target == "/long" {
				time.Sleep(10 * time.Minute)
			}
			testHandler(e)
		}, Limits{})
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		tr := &http.Transport{Protocols: &p, DialContext: func(context.Context, string, string) (net.Conn, error) { return connect(), nil }}
		defer tr.CloseIdleConnections()
		for _, target := range []string{"/a", "/long", "/b"} {
			resp, err := tr.RoundTrip(mustRequest("http://h" + target))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(resp.Body); string(got) != target || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		}
	})
}

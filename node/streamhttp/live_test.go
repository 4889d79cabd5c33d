package streamhttp

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/protocol"
)

// watching waits until so many live readers are registered.
func (n *node) watching(want int64) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("%d watches", want), func() bool { return n.registry.Stats().Watches == want })
}

// async sends a request and returns its answer on a channel.
func (n *node) async(do string) <-chan reply {
	c := make(chan reply, 1)
	go func() { c <- n.do(do, "", "") }()
	return c
}

func (n *node) await(c <-chan reply) reply {
	n.t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(10 * time.Second):
		n.t.Fatal("no answer in 10 s")
		return reply{}
	}
}

func cursorOf(t *testing.T, r reply) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(r.header.Get("Stream-Cursor"), 10, 64)
	if err != nil {
		t.Fatalf("Stream-Cursor %q is not decimal", r.header.Get("Stream-Cursor"))
	}
	return v
}

func TestLongPollAnswersWhatIsThere(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("abc")})
		r := n.do("GET /demo/s?offset=1&live=long-poll", "", "")
		n.check("data", step{status: 200, content: text("bc"), want: "Stream-Up-To-Date: true\nStream-Next-Offset: " + o(3)}, r)
		cursorOf(t, r)
		n.run([]step{
			{do: "GET /demo/s?offset=0&live=long-poll&max_bytes=2", status: 200, content: text("ab"), want: "Stream-Up-To-Date: -"},
			{do: "GET /demo/s?offset=4&live=long-poll", status: 416, code: "OFFSET_OUT_OF_RANGE", want: "Stream-Next-Offset: " + o(3)}, // row 138
			{do: "GET /demo/none?offset=now&live=long-poll", status: 404, code: "STREAM_NOT_FOUND"},
		})
	})
}

// Rows 134, 135 and 137.
func TestLongPollTimesOut(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("abc")})
		start := time.Now()
		r := n.do("GET /demo/s?offset=now&live=long-poll&timeout_ms=abc", "", "")
		if took := time.Since(start); took < 900*time.Millisecond || took > 4*time.Second {
			t.Errorf("the default wait took %v, want a second", took)
		}
		n.check("timeout", step{status: 204, want: "Stream-Up-To-Date: true\nStream-Closed: -\nStream-Next-Offset: " + o(3)}, r)
		cursor := cursorOf(t, r)
		r = n.do(fmt.Sprintf("GET /demo/s?offset=3&live=long-poll&timeout_ms=0&cursor=%d", cursor), "", "")
		if r.status != 204 || cursorOf(t, r) <= cursor {
			t.Errorf("status %d, cursor %d after %d, want a greater one", r.status, cursorOf(t, r), cursor)
		}
		n.watching(0)
	})
}

func TestLongPollIsWoken(t *testing.T) {
	cases := []struct {
		name string
		act  func(n *node)
		want step
	}{
		{"by an append", func(n *node) { n.do("POST /demo/s", textPlain, "de") },
			step{status: 200, content: text("de"), want: "Stream-Up-To-Date: true\nStream-Closed: -\nStream-Next-Offset: " + o(5)}},
		{"by a close (row 136)", func(n *node) { n.do("POST /demo/s", "Stream-Closed: true", "") },
			step{status: 204, want: "Stream-Closed: true\nStream-Up-To-Date: true\nStream-Cursor: -\nStream-Next-Offset: " + o(3)}},
		{"by an append that closes", func(n *node) { n.do("POST /demo/s", textPlain+"\nStream-Closed: true", "de") },
			step{status: 200, content: text("de"), want: "Stream-Up-To-Date: true\nStream-Closed: true\nStream-Next-Offset: " + o(5)}},
		{"by a delete (row 139)", func(n *node) { n.do("DELETE /demo/s", "", "") },
			step{status: 404, code: "STREAM_NOT_FOUND"}},
		{"by a lost leadership", func(n *node) { n.follow() },
			step{status: 307, want: "X-Ursula-Raft-Leader-Id: 2\nLocation: http://leader.invalid:4437/demo/s?offset=3&live=long-poll&timeout_ms=60000"}},
		{"by a leadership lost to nobody known", func(n *node) {
			n.loc.Store(&Location{Group: testGroup, Hosted: true})
			n.registry.EndGroup(testGroup, live.Moved)
		}, step{status: 503, code: "NO_LEADER"}},
		{"by a new term of the same leader", func(n *node) { n.registry.EndGroup(testGroup, live.Moved) },
			step{status: 503, code: "NO_LEADER"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			onFronts(t, Config{}, func(t *testing.T, n *node) {
				n.run([]step{s("abc")})
				answer := n.async("GET /demo/s?offset=3&live=long-poll&timeout_ms=60000")
				n.watching(1)
				c.act(n)
				n.check(c.name, c.want, n.await(answer))
				n.watching(0)
				eventually(t, "the reader is given back", func() bool { return n.h.Stats().LiveReaders == 0 })
			})
		})
	}
}

// Row 140: the position is above the tail of the new incarnation.
func TestLongPollEndsWhenItsStreamIsMadeAnew(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{{do: "PUT /demo/s", send: "Stream-Expires-At: " + time.Now().Add(time.Minute).UTC().Format(time.RFC3339), body: "abc", status: 201}})
		answer := n.async("GET /demo/s?offset=3&live=long-poll&timeout_ms=60000")
		n.watching(1)
		n.advance(time.Hour)
		n.run([]step{s("")}) // one command removes the expired stream and makes the new one
		n.check("recreated", step{status: 416, code: "OFFSET_OUT_OF_RANGE", want: "Stream-Next-Offset: " + o(0)}, n.await(answer))
	})
}

func TestLongPollAtTheEndOfAClosedStreamDoesNotWait(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{
			{do: "PUT /demo/s", send: textPlain + "\nStream-Closed: true", body: "abc", status: 201},
			{do: "GET /demo/s?offset=3&live=long-poll&timeout_ms=60000", status: 204, want: "Stream-Closed: true\nStream-Up-To-Date: true\nStream-Next-Offset: " + o(3)},
			{do: "GET /demo/s?offset=now&live=long-poll&timeout_ms=60000", status: 204, want: "Stream-Closed: true"},
			{do: "GET /demo/s?offset=0&live=long-poll&timeout_ms=60000", status: 200, content: text("abc"), want: "Stream-Closed: true\nStream-Up-To-Date: true"},
		})
	})
}

func TestSSELayout(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{j(`[{"a":1},{"a":2}]`)})

		c := n.openSSE("/demo/j?offset=-1&live=sse") // row 141
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "Stream-Data-Content-Type": "application/x-ndjson",
			"Stream-Sse-Data-Encoding": "", "Content-Length": "", "Cache-Control": "no-store, no-cache"} {
			if got := c.header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		c.want("event: data\ndata:{\"a\":1}\ndata:{\"a\":2}\ndata:", control(16, upToDate))

		c = n.openSSE("/demo/j?offset=-1&live=sse&max_bytes=10") // row 142
		c.want("event: data\ndata:{\"a\":1}\ndata:{\"", control(10, open), "event: data\ndata:a\":2}\ndata:", control(16, upToDate))

		n.run([]step{{do: "PUT /demo/t", send: "Content-Type: text/plain; charset=utf-8", body: "éü", status: 201}})
		c = n.openSSE("/demo/t?offset=0&live=sse&max_bytes=1") // row 143
		if got := c.header.Get("Stream-Data-Content-Type"); got != "text/plain; charset=utf-8" {
			t.Errorf("Stream-Data-Content-Type %q", got)
		}
		c.want("event: data\ndata:éü", control(4, upToDate))
		n.run([]step{{do: "POST /demo/t", send: textPlain, body: "aé", status: 204}, {do: "POST /demo/t", send: textPlain, body: "€€", status: 204}})
		c = n.openSSE("/demo/t?offset=4&live=sse&max_bytes=4")
		c.want("event: data\ndata:aé", control(7, open), "event: data\ndata:€", control(10, open), "event: data\ndata:€", control(13, upToDate))

		n.run([]step{{do: "PUT /demo/b", body: "\x01\x02\x03", status: 201}})
		c = n.openSSE("/demo/b?offset=-1&live=sse") // row 144
		if c.header.Get("Stream-Sse-Data-Encoding") != "base64" || c.header.Get("Stream-Data-Content-Type") != "application/octet-stream" {
			t.Errorf("binary headers %v", c.header)
		}
		c.want("event: data\ndata:AQID", control(3, upToDate))

		n.run([]step{{do: "PUT /demo/i", send: textPlain, body: "a\r\n\r\nevent: control\rdata:x\n", status: 201}})
		c = n.openSSE("/demo/i?offset=-1&live=sse") // row 145
		c.want("event: data\ndata:a\ndata:\ndata:event: control\ndata:data:x\ndata:", control(27, upToDate))

		n.run([]step{s("")})
		c = n.openSSE("/demo/s?offset=now&live=sse") // row 146
		c.want(control(0, upToDate))
	})
}

func TestSSEClosedStreams(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{{do: "PUT /demo/c", send: textPlain + "\nStream-Closed: true", body: "abc", status: 201}})
		n.openSSE("/demo/c?offset=3&live=sse").want(control(3, atEnd), "") // row 147
		n.openSSE("/demo/c?offset=now&live=sse").want(control(3, atEnd), "")
		n.openSSE("/demo/c?offset=1&live=sse").want("event: data\ndata:bc", control(3, atEnd), "")

		n.run([]step{s("")})
		c := n.openSSE("/demo/s?offset=-1&live=sse") // row 148
		c.want(control(0, upToDate))
		n.run([]step{{do: "POST /demo/s", send: textPlain + "\nStream-Closed: true", body: "end", status: 204}})
		c.want("event: data\ndata:end", control(3, atEnd), "")

		n.run([]step{{do: "PUT /demo/x", send: textPlain, body: "abc", status: 201}})
		c = n.openSSE("/demo/x?offset=now&live=sse")
		c.want(control(3, upToDate))
		n.run([]step{{do: "POST /demo/x", send: "Stream-Closed: true", status: 204}})
		c.want(control(3, atEnd), "")
		n.watching(0)
	})
}

func TestSSEFollowsAppends(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("one")})
		c := n.openSSE("/demo/s?offset=-1&live=sse")
		c.want("event: data\ndata:one", control(3, upToDate))
		n.run([]step{{do: "POST /demo/s", send: textPlain, body: "two", status: 204}})
		c.want("event: data\ndata:two", control(6, upToDate))
		// An event above the reader's bound comes from the store, in pieces.
		small := n.openSSE("/demo/s?offset=6&live=sse&max_bytes=4")
		small.want(control(6, upToDate))
		n.run([]step{{do: "POST /demo/s", send: textPlain, body: "sixsix", status: 204}})
		c.want("event: data\ndata:sixsix", control(12, upToDate))
		small.want("event: data\ndata:sixs", control(10, open), "event: data\ndata:ix", control(12, upToDate))
		// So does one that is too large to be kept.
		n.run([]step{{do: "POST /demo/s", send: textPlain, body: strings.Repeat("x", 300<<10), status: 204}})
		c.want("event: data\ndata:"+strings.Repeat("x", storeEvent), control(12+storeEvent, open),
			"event: data\ndata:"+strings.Repeat("x", 300<<10-storeEvent), control(12+300<<10, upToDate))
	})
}

// A character that an append leaves unfinished is held until it is whole, and
// nothing claims that the reader has it.
func TestSSEHoldsPartsOfCharacters(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		euro := "€"
		n.run([]step{s(euro[:1])})
		c := n.openSSE("/demo/s?offset=-1&live=sse")
		c.want(control(0, open))
		n.run([]step{{do: "POST /demo/s", send: textPlain, body: euro[1:2], status: 204}, {do: "POST /demo/s", send: textPlain, body: euro[2:] + "!", status: 204}})
		c.want("event: data\ndata:€!", control(4, upToDate))
		n.run([]step{{do: "POST /demo/s", send: textPlain, body: "a" + euro[:2], status: 204}})
		c.want("event: data\ndata:a", control(5, open))
		n.run([]step{{do: "POST /demo/s", send: "Stream-Closed: true", status: 204}})
		c.want("event: data\ndata:"+euro[:2], control(7, atEnd), "")
	})
}

func TestTrapP3_LiveReadersEndWithTheirTermAndIncarnation(t *testing.T) {
	cases := []struct {
		name string
		act  func(n *node)
		code string
	}{
		{"the stream is deleted (row 149)", func(n *node) { n.do("DELETE /demo/s", "", "") }, "STREAM_NOT_FOUND"},
		{"the leadership is lost", func(n *node) { n.follow() }, "NO_LEADER"},
		{"a snapshot is ingested", func(n *node) { n.registry.EndGroup(testGroup, live.Moved) }, "NO_LEADER"},
		{"the node stops", func(n *node) { n.registry.EndAll(live.Stopped) }, "NO_LEADER"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			onFronts(t, Config{}, func(t *testing.T, n *node) {
				n.run([]step{s("abc")})
				sse := n.openSSE("/demo/s?offset=now&live=sse")
				sse.want(control(3, upToDate))
				c.act(n)
				code := protocol.Code(c.code)
				sse.want(fmt.Sprintf("event: error\ndata:%s", protocol.AppendErrorBody(nil, code, "")), "")
				n.watching(0)
			})
		})
	}
}

func TestSSEFaultsBeforeTheFirstEventArePlainAnswers(t *testing.T) {
	runCases(t, []surfaceCase{{"rows 150 and 151", []step{
		s("abc"),
		{do: "GET /demo/s?offset=4&live=sse", status: 416, code: "OFFSET_OUT_OF_RANGE", want: "Stream-Next-Offset: " + o(3)},
		{do: "GET /demo/none?offset=-1&live=sse", status: 404, code: "STREAM_NOT_FOUND"},
	}}})
}

func TestLiveReadersAreBounded(t *testing.T) {
	onFronts(t, Config{LiveReaders: 2}, func(t *testing.T, n *node) {
		n.run([]step{s("abc")})
		a, b := n.openSSE("/demo/s?offset=now&live=sse"), n.openSSE("/demo/s?offset=now&live=sse")
		a.want(control(3, upToDate))
		b.want(control(3, upToDate))
		full := step{do: "GET /demo/s?offset=now&live=long-poll", status: 503, code: "LIVE_READ_BACKPRESSURE"}
		n.run([]step{full, {do: "GET /demo/s?offset=now&live=sse", status: 503, code: "LIVE_READ_BACKPRESSURE"}, {do: "GET /demo/s", status: 200}})
		a.close()
		eventually(t, "the place of a closed reader is free", func() bool { return n.h.Stats().LiveReaders == 1 })
		n.run([]step{{do: "GET /demo/s?offset=0&live=long-poll", status: 200}})
	})
}

// LP6: an open reader renews its stream's TTL, and ends when a deadline passes.
func TestOpenReadersTendTheirStreamsLifetime(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{{do: "PUT /demo/s", send: textPlain + "\nStream-TTL: 1", status: 201}})
		sse := n.openSSE("/demo/s?offset=now&live=sse")
		sse.want(control(0, upToDate))
		opened := n.touches.Load()
		eventually(t, "the open reader touches again and again", func() bool { return n.touches.Load() >= opened+4 })
		n.run([]step{{do: "HEAD /demo/s", status: 200}})

		at := time.Now().Add(400 * time.Millisecond).UTC().Format("2006-01-02T15:04:05.000Z07:00")
		n.run([]step{{do: "PUT /demo/e", send: textPlain + "\nStream-Expires-At: " + at, status: 201}})
		gone := n.openSSE("/demo/e?offset=now&live=sse")
		gone.want(control(0, upToDate), fmt.Sprintf("event: error\ndata:%s", protocol.AppendErrorBody(nil, "STREAM_NOT_FOUND", "")), "")
	})
}

func TestSSEOneEncodeForAllReaders(t *testing.T) {
	const readers = 1000
	n := serveFake(t, fronts[0], Config{})
	n.run([]step{s("")})
	var wg sync.WaitGroup
	errs := make(chan error, readers)
	for range readers {
		c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		wg.Go(func() {
			fmt.Fprintf(c, "GET /demo/s?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n")
			buf, got := make([]byte, 1024), ""
			c.SetReadDeadline(time.Now().Add(30 * time.Second))
			for !strings.Contains(got, "\"streamNextOffset\":\""+o(5)+"\"") {
				k, err := c.Read(buf)
				if err != nil {
					errs <- fmt.Errorf("%w after %q", err, got)
					return
				}
				got += string(buf[:k])
			}
			if !strings.Contains(got, "event: data\ndata:hello\n\n") {
				errs <- fmt.Errorf("no data event in %q", got)
			}
		})
	}
	n.watching(readers)
	n.run([]step{{do: "POST /demo/s", send: textPlain, body: "hello", status: 204}})
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	if st := n.registry.Stats(); st.Encodes > 1 {
		t.Errorf("%d encodes for %d readers, want 1", st.Encodes, readers)
	}
	if n.reads.Load() > readers/10 {
		t.Errorf("%d reads of the store by readers at the tail", n.reads.Load())
	}
}

// A reader that takes nothing is cut, and holds up nobody meanwhile.
func TestSlowReaderIsCut(t *testing.T) {
	for _, f := range fronts {
		t.Run(f.name, func(t *testing.T) {
			n := serveFake(t, f, Config{FlushTimeout: 300 * time.Millisecond})
			n.run([]step{s("")})
			c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.(*net.TCPConn).SetReadBuffer(4 << 10)
			fmt.Fprintf(c, "GET /demo/s?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n")
			n.watching(1)
			chunk := strings.Repeat("x", 200<<10)
			for range 60 {
				n.run([]step{{do: "POST /demo/s", send: textPlain, body: chunk, status: 204}})
			}
			n.watching(0)
			eventually(t, "nothing is held for it", func() bool {
				st := n.registry.Stats()
				return st.Bytes == 0 && n.h.Stats() == Stats{}
			})
		})
	}
}

// A body in front of the wait must not hide that the client left.
func TestALiveReaderThatSentABodyIsSeenToLeave(t *testing.T) {
	bodies := map[string]string{
		"whole":    "Content-Length: 5\r\n\r\nhello",
		"chunked":  "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"expected": "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
	}
	for _, f := range fronts {
		for name, body := range bodies {
			for _, mode := range []string{"sse", "long-poll&timeout_ms=60000"} {
				t.Run(f.name+" "+name+" "+mode, func(t *testing.T) {
					n := serveFake(t, f, Config{})
					n.run([]step{s("")})
					c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					fmt.Fprintf(c, "GET /demo/s?offset=now&live=%s HTTP/1.1\r\nHost: x\r\n%s", mode, body)
					n.watching(1)
					c.Close()
					n.watching(0)
				})
			}
		}
	}
}

func TestALiveReadRefusesABodyThatDoesNotCome(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("")})
		c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /demo/s?offset=now&live=sse HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe")
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("status %d, want 400", resp.StatusCode)
		}
		eventually(t, "the reader is given back", func() bool { return n.h.Stats() == Stats{} })
	})
}

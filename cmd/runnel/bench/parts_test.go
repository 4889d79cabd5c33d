package bench

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHistogramQuantilesAreWithinTheirPrecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour/4)), 1, 200).Draw(t, "values")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h histogram
		for _, v := range values {
			h.record(time.Duration(v))
		}
		slices.Sort(values)
		exact := values[min(len(values)-1, int(q*float64(len(values))))]
		got := int64(h.quantile(q))
		if got < exact || got > exact+exact/subs+1 {
			t.Fatalf("quantile %v of %v is %d, exactly %d", q, values, got, exact)
		}
	})
}

func TestHistogramEdges(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 {
		t.Error("an empty histogram has a quantile")
	}
	h.record(-time.Second)
	if h.quantile(1) != 0 {
		t.Error("a negative duration is not zero")
	}
	h.record(100 * time.Hour)
	if got := h.quantile(1); got != upper(buckets-1) {
		t.Errorf("a duration beyond the range counts as %v", got)
	}
	for b := 1; b < buckets; b++ {
		if bucketOf(upper(b)) != b || bucketOf(upper(b-1)+1) != b {
			t.Fatalf("bucket %d ends at %v", b, upper(b))
		}
	}
}

// answering returns a connection whose server sends raw, cut at random places.
func answering(t *rapid.T, raw string) *conn {
	client, server := net.Pipe()
	cuts := rapid.SliceOfN(rapid.IntRange(1, 20), 1, 30).Draw(t, "cuts")
	go func() {
		defer server.Close()
		for i := 0; len(raw) > 0; i++ {
			n := min(cuts[i%len(cuts)], len(raw))
			if _, err := io.WriteString(server, raw[:n]); err != nil {
				return
			}
			raw = raw[n:]
		}
	}()
	return &conn{nc: client, stop: context.AfterFunc(context.Background(), func() {}), buf: make([]byte, 16)}
}

func TestClientReadsEveryFraming(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\n"
	tests := []struct {
		name, method, raw, body string
		status                  int
		closes                  bool
	}{
		{"a length", "GET", ok + "content-LENGTH:  5 \r\n\r\nhello", "hello", 200, false},
		{"no body", "POST", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, false},
		{"an empty body", "GET", ok + "Content-Length: 0\r\n\r\n", "", 200, false},
		{"chunks", "GET", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n00a;x=y\r\n0123456789\r\n0\r\nX-T: 1\r\n\r\n", "hello0123456789", 200, false},
		{"the end of the connection", "GET", ok + "\r\nhello", "hello", 200, true},
		{"an announced end", "GET", ok + "Connection: close\r\nContent-Length: 2\r\n\r\nhi", "hi", 200, true},
		{"HEAD", "HEAD", ok + "Content-Length: 5\r\n\r\n", "", 200, false},
		{"an interim answer", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Service Unavailable\r\nContent-Length: 1\r\n\r\nx", "x", 503, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				raw := tt.raw
				if !tt.closes {
					raw += "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"
				}
				c := answering(t, raw)
				defer c.close()
				res, err := c.readHead(tt.method)
				if err != nil || res.status != tt.status {
					t.Fatalf("status %d, %v", res.status, err)
				}
				var body []byte
				for {
					p, err := c.next()
					body = append(body, p...)
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if string(body) != tt.body || c.closes != tt.closes {
					t.Fatalf("body %q, closes %v", body, c.closes)
				}
				if tt.closes {
					return
				}
				if res, err := c.readHead("GET"); err != nil || res.status != 410 {
					t.Fatalf("the next answer: %d, %v", res.status, err)
				}
			})
		})
	}
}

func TestClientRefusesWhatIsNoAnswer(t *testing.T) {
	for _, raw := range []string{
		"SSH-2.0-x\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
	} {
		rapid.Check(t, func(t *rapid.T) {
			c := answering(t, raw)
			defer c.close()
			_, err := c.readHead("GET")
			if err == nil {
				_, err = c.discard()
			}
			if err == nil {
				t.Fatalf("%q was taken", raw)
			}
		})
	}
}

func TestSSEScannerFindsMarksAndControlsHoweverTheyAreCut(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(0, 1_700_000_000_000_000_000+n) }
	mark := func(n int64) string { return string(appendMark(nil, at(n))) }
	stream := ": comment\n\nevent: data\ndata:" + mark(1) + "xxx\ndata:" + mark(2) + "@@12\ndata:\n\n" +
		"event: control\ndata:{\"n\":1}\n\n" +
		"event: data\r\ndata: [\"" + mark(3) + "x\",\"" + mark(4) + "\"]\r\n\r\nevent:control\r\ndata: {\"n\":2}\r\n\r\n" +
		"event: other\ndata:" + mark(9) + "\n\n" +
		"event: data\ndata:half " + mark(5)[:9] + "\n\nevent: data\ndata:" + mark(5)[9:] + "\n\n"
	rapid.Check(t, func(t *rapid.T) {
		var marks []int64
		var controls []string
		s := &sseScanner{onControl: func(p []byte) { controls = append(controls, string(p)) }}
		s.marks.onMark = func(sent time.Time) { marks = append(marks, sent.UnixNano()-at(0).UnixNano()) }
		for rest := stream; rest != ""; {
			n := min(len(rest), rapid.IntRange(1, 60).Draw(t, "cut"))
			s.feed([]byte(rest[:n]))
			rest = rest[n:]
		}
		if !slices.Equal(marks, []int64{1, 2, 3, 4, 5}) || !slices.Equal(controls, []string{`{"n":1}`, `{"n":2}`}) {
			t.Fatalf("marks %v, controls %q", marks, controls)
		}
	})
}

func TestSSEScannerKeepsABoundedLine(t *testing.T) {
	s := &sseScanner{onControl: func([]byte) {}}
	s.feed([]byte("event: control\ndata:"))
	for range 1000 {
		s.feed(bytes.Repeat([]byte("x"), 1000))
	}
	if cap(s.line) > 4*maxControl {
		t.Errorf("a line took %d bytes", cap(s.line))
	}
}

func TestEventBodiesHaveTheirSize(t *testing.T) {
	for _, ct := range []string{"text/plain", "application/json"} {
		if got := fanBody(ct, 256, time.Now()); len(got) != 256 || !strings.Contains(string(got), "@") {
			t.Errorf("%s: %q", ct, got)
		}
		if got := appendBody(ct, 256); len(got) != 256 {
			t.Errorf("%s: %d bytes", ct, len(got))
		}
	}
}

func TestParseStat(t *testing.T) {
	stat := "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 100 1000000 321 18446744073709551615"
	cpu, pages, err := parseStat([]byte(stat))
	if err != nil || cpu != 2*time.Second || pages != 321 {
		t.Errorf("cpu %v, pages %d, %v", cpu, pages, err)
	}
	for _, bad := range []string{"", "42 (a) S 1 2", strings.Replace(stat, "150", "x", 1)} {
		if _, _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

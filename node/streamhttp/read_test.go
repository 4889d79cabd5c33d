package streamhttp

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/stream"
)

func TestCatchUpReads(t *testing.T) {
	two := "{\"a\":1}\n{\"a\":2}\n"
	runCases(t, []surfaceCase{
		{"row 111: JSON is read as NDJSON and HEAD names the configured type", []step{
			j(`[{"a":1},{"a":2}]`),
			{do: "GET /demo/j", status: 200, content: &two, want: "Content-Type: application/x-ndjson\nStream-Up-To-Date: true\nStream-Closed: -\nStream-Cursor: -\nStream-Next-Offset: " + o(16)},
			{do: "HEAD /demo/j", status: 200, want: "Content-Type: application/json"},
		}},
		{"row 112: now is the tail, without bytes and without a tag", []step{
			j(`[1]`),
			{do: "GET /demo/j?offset=now", status: 200, content: text(""), want: "Content-Type: application/x-ndjson\nStream-Up-To-Date: true\nETag: -\nCache-Control: no-store\nStream-Next-Offset: " + o(2)},
		}},
		{"rows 113 and 114: at the tail there is nothing, above it nothing to read", []step{
			s("abc"),
			{do: "GET /demo/s?offset=" + o(3), status: 200, content: text(""), want: "Stream-Up-To-Date: true\nStream-Next-Offset: " + o(3)},
			{do: "GET /demo/s?offset=" + o(4), status: 416, code: "OFFSET_OUT_OF_RANGE", want: "Stream-Next-Offset: " + o(3)},
		}},
		{"rows 116 and 117: offsets are -1, now or decimal", []step{
			s("abcdefghij"),
			{do: "GET /demo/s?offset=", status: 400, code: "INVALID_OFFSET"},
			{do: "GET /demo/s?offset=1&offset=2", status: 400, code: "INVALID_OFFSET"},
			{do: "GET /demo/s?offset=0,1", status: 400, code: "INVALID_OFFSET"},
			{do: "GET /demo/s?offset=../x", status: 400, code: "INVALID_OFFSET"},
			{do: "GET /demo/s?offset=-2", status: 400, code: "INVALID_OFFSET"},
			{do: "GET /demo/s?offset=1%202", status: 400, code: "INVALID_OFFSET"},
			{do: "GET /demo/s?offset=%zz", status: 400, code: "INVALID_QUERY"},
			{do: "GET /demo/s?offset=9007199254740992", status: 400, code: "INVALID_OFFSET"},
			{do: "GET /demo/s?offset=8", status: 200, content: text("ij")},
			{do: "GET /demo/s?offset=-1", status: 200, content: text("abcdefghij")},
			{do: "GET /demo/s?%6fffset=%38", status: 200, content: text("ij")},
		}},
		{"a malformed read of a missing stream is 400", []step{
			{do: "GET /demo/s?offset=x", status: 400, code: "INVALID_OFFSET"},
			{do: "GET /demo/s?offset=now", status: 404, code: "STREAM_NOT_FOUND"},
		}},
		{"rows 118 to 121: malformed modes are refused", []step{
			s(""),
			{do: "GET /demo/s?live=foo", status: 400, code: "INVALID_QUERY"},
			{do: "GET /demo/s?live=sse", status: 400, code: "INVALID_OFFSET"},
			{do: "GET /demo/s?live=long-poll", status: 400, code: "INVALID_OFFSET"},
			{do: "GET /demo/s?consistency=leader", status: 200},
			{do: "GET /demo/s?consistency=strong", status: 400, code: "INVALID_QUERY"},
			{do: "GET /demo/s?consistency=leader&live=sse&offset=-1", status: 400, code: "INVALID_QUERY"},
			{do: "GET /demo/s?incarnation=x", status: 400, code: "INVALID_QUERY"},
			{do: "GET /demo/s?aligned=1", status: 400, code: "INVALID_QUERY"},
		}},
		{"rows 122 and 127: what is unknown is ignored", []step{
			s("ab"),
			{do: "GET /demo/s?foo=1&timeout_ms=zz&&b", send: "Range: bytes=0-0", status: 200, content: text("ab")},
		}},
		{"rows 123 to 125: max_bytes shortens, and a short answer is not up to date", []step{
			j(`[{"a":1},{"a":2}]`),
			{do: "GET /demo/j?max_bytes=10", status: 200, content: text(two[:10]), want: "Stream-Up-To-Date: -\nStream-Closed: -\nStream-Next-Offset: " + o(10)},
			{do: "GET /demo/j?max_bytes=abc", status: 200, content: &two},
			{do: "GET /demo/j?max_bytes=-1", status: 200, content: &two},
			{do: "GET /demo/j?max_bytes=1.5", status: 200, content: &two},
			{do: "GET /demo/j?max_bytes=0", status: 200, content: text("{")},
			{do: "GET /demo/j?max_bytes=16", status: 200, content: &two, want: "Stream-Up-To-Date: true"},
		}},
		{"row 132: only an answer that reaches the end closes", []step{
			s("abc"),
			{do: "POST /demo/s", send: "Stream-Closed: true", status: 204},
			{do: "GET /demo/s?max_bytes=2", status: 200, want: "Stream-Up-To-Date: -\nStream-Closed: -"},
			{do: "GET /demo/s", status: 200, want: "Stream-Up-To-Date: true\nStream-Closed: true"},
			{do: "GET /demo/s?offset=3", status: 200, want: "Stream-Up-To-Date: true\nStream-Closed: true"},
			{do: "GET /demo/s?offset=now", status: 200, want: "Stream-Up-To-Date: true\nStream-Closed: true"},
		}},
		{"row 133: HEAD tells what a stream is", []step{
			{do: "PUT /demo/s", send: "Content-Type: image/png\nStream-TTL: 90", body: "abc", status: 201},
			{do: "HEAD /demo/s", status: 200, content: text(""), want: "Content-Type: image/png\nStream-TTL: 90\nStream-Closed: -\nUrsula-Max-Request-Bytes: 33554432\nCache-Control: no-store\nStream-Next-Offset: " + o(3)},
			{do: "PUT /demo/e", send: "Stream-Expires-At: 2099-01-01T00:00:00+01:00\nStream-Closed: true", status: 201},
			{do: "HEAD /demo/e", status: 200, want: "Stream-Expires-At: 2099-01-01T00:00:00+01:00\nStream-Closed: true\nStream-TTL: -"},
		}},
	})
}

func TestETags(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("abc")})
		tag := n.do("GET /demo/s", "", "").header.Get("ETag")
		if tag == "" || !strings.HasPrefix(tag, `"`) {
			t.Fatalf("ETag %q, want a strong tag", tag)
		}
		reads := n.reads.Load()
		n.run([]step{ // row 128
			{do: "GET /demo/s", send: "If-None-Match: " + tag, status: 304, content: text(""), want: "ETag: " + tag},
			{do: "GET /demo/s", send: "If-None-Match: W/" + tag, status: 304},
			{do: "GET /demo/s", send: `If-None-Match: "x", ` + tag, status: 304},
			{do: "GET /demo/s", send: "If-None-Match: *", status: 304},
		})
		if n.reads.Load() != reads {
			t.Error("a 304 read bytes")
		}
		n.run([]step{
			{do: "GET /demo/s", send: `If-None-Match: "x"`, status: 200, want: "ETag: " + tag},
			{do: "GET /demo/s?offset=1", send: "If-None-Match: " + tag, status: 200},
			{do: "POST /demo/s", send: "Stream-Closed: true", status: 204},
			{do: "GET /demo/s", send: "If-None-Match: " + tag, status: 200, want: "Stream-Closed: true"}, // row 129
			{do: "DELETE /demo/s", status: 204},
			s("xyz"),
			{do: "GET /demo/s", send: "If-None-Match: " + tag, status: 200, content: text("xyz")},
		})
	})
}

// Row 126.
func TestReadIsCappedAt8MiB(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s(strings.Repeat("x", protocol.ReadCap+1))})
		r := n.do("GET /demo/s", "", "")
		if len(r.body) != protocol.ReadCap || r.header.Get("Stream-Up-To-Date") != "" {
			t.Errorf("%d bytes, up to date %q; want exactly the cap and no claim", len(r.body), r.header.Get("Stream-Up-To-Date"))
		}
		r = n.do("GET /demo/s?max_bytes=99999999&offset="+r.header.Get("Stream-Next-Offset"), "", "")
		if r.body != "x" || r.header.Get("Stream-Up-To-Date") != "true" {
			t.Errorf("rest %q, up to date %q", r.body, r.header.Get("Stream-Up-To-Date"))
		}
		if n.h.Stats().ReadBytes != 0 {
			t.Error("read bytes still reserved")
		}
	})
}

func TestReadsGetShorterWhenMemoryRunsShort(t *testing.T) {
	onFronts(t, Config{ReadBytes: 20 << 10}, func(t *testing.T, n *node) {
		want := strings.Repeat("0123456789abcdef", 8<<10)
		n.run([]step{s(want)})
		var got strings.Builder
		for next, tries := "-1", 0; ; tries++ {
			r := n.do("GET /demo/s?offset="+next, "", "")
			if len(r.body) == 0 || tries > 16 {
				t.Fatalf("answer %d has %d bytes at %s", tries, len(r.body), next)
			}
			got.WriteString(r.body)
			if next = r.header.Get("Stream-Next-Offset"); r.header.Get("Stream-Up-To-Date") == "true" {
				break
			}
		}
		if got.String() != want {
			t.Error("the pieces don't add up to the stream")
		}
	})
}

func TestRouting(t *testing.T) {
	away := map[string]string{"write": "POST /demo/s?x=1", "create": "PUT /demo/s?x=1", "delete": "DELETE /demo/s?x=1", "head": "HEAD /demo/s?x=1",
		"leader read": "GET /demo/s?consistency=leader", "long-poll": "GET /demo/s?offset=-1&live=long-poll", "sse": "GET /demo/s?offset=-1&live=sse"}
	for name, do := range away {
		t.Run(name, func(t *testing.T) {
			onFronts(t, Config{}, func(t *testing.T, n *node) {
				n.run([]step{s("abc")})
				n.follow()
				proposed := n.proposes.Load()
				_, target, _ := strings.Cut(do, " ")
				n.run([]step{{do: do, send: textPlain, status: 307, want: fmt.Sprintf(
					"Location: http://leader.invalid:4437%s\nX-Ursula-Raft-Leader-Id: 2\nX-Ursula-Raft-Group: 7\nX-Ursula-Raft-Term: 4\nContent-Type: -", target), content: text("")}})

				n.loc.Store(&Location{Group: testGroup, Hosted: true})
				n.run([]step{{do: do, send: textPlain, status: 503, code: "NO_LEADER", want: "X-Ursula-Raft-Group: 7\nLocation: -"}})

				// P6: a leader whose node or term is not known yet is no third shape.
				n.loc.Store(&Location{Group: testGroup, Hosted: true, LeaderID: 2, Term: 4})
				n.run([]step{{do: do, send: textPlain, status: 503, code: "NO_LEADER", want: "X-Ursula-Raft-Group: 7\nX-Ursula-Raft-Leader-Id: -"}})
				n.loc.Store(&Location{Group: testGroup, Hosted: true, LeaderID: 2, LeaderURL: "http://leader.invalid"})
				n.run([]step{{do: do, send: textPlain, status: 503, code: "NO_LEADER", want: "X-Ursula-Raft-Group: 7"}})

				n.loc.Store(&Location{Group: testGroup, AnyURL: "http://any.invalid", LeaderURL: "http://leader.invalid", LeaderID: 2, Term: 4})
				n.run([]step{{do: do, send: textPlain, status: 307, want: fmt.Sprintf(
					"Location: http://any.invalid%s\nX-Ursula-Raft-Group: 7\nX-Ursula-Raft-Leader-Id: -\nX-Ursula-Raft-Term: -", target)}})
				n.loc.Store(&Location{Group: testGroup})
				n.run([]step{{do: do, send: textPlain, status: 503, code: "NO_LEADER", want: "X-Ursula-Raft-Group: 7"}})
				if n.proposes.Load() != proposed {
					t.Error("a node that does not lead proposed")
				}
			})
		})
	}
}

func TestTrapP6_RedirectTargetMustBeKnown(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		for _, loc := range []Location{
			{Group: testGroup, Hosted: true},
			{Group: testGroup, Hosted: true, LeaderID: 2, Term: 4},
			{Group: testGroup, Hosted: true, LeaderID: 2, LeaderURL: "http://leader.invalid"},
			{Group: testGroup, LeaderID: 2, Term: 4, LeaderURL: "http://leader.invalid"},
		} {
			n.loc.Store(&loc)
			n.run([]step{{do: "PUT /demo/s", status: 503, code: "NO_LEADER",
				want: "Location: -\nX-Ursula-Raft-Group: 7\nX-Ursula-Raft-Leader-Id: -\nX-Ursula-Raft-Term: -"}})
		}
	})
}

func TestRoutingOfLocalReads(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("abc"), {do: "PUT /demo/ttl", send: "Stream-TTL: 30", body: "x", status: 201}})
		n.follow()
		to := func(target string) string { return "Location: http://leader.invalid:4437" + target }
		n.run([]step{
			{do: "GET /demo/s", status: 200, content: text("abc")},
			{do: "GET /demo/s?offset=now", status: 200},
			{do: "GET /demo/s?offset=9", status: 307, want: to("/demo/s?offset=9")},
			{do: "GET /demo/missing", status: 307, want: to("/demo/missing")},
			{do: "GET /demo/ttl", status: 307, want: to("/demo/ttl")},
		})
		if n.confirms.Load() != 0 || n.touches.Load() != 0 {
			t.Error("a follower confirmed or touched")
		}
		n.loc.Store(&Location{Group: testGroup, AnyURL: "http://any.invalid"})
		n.run([]step{{do: "GET /demo/s?", status: 307, want: "Location: http://any.invalid/demo/s?\nX-Ursula-Raft-Group: 7"}})
	})
}

// A body that was read forbids a redirect, whoever leads by then.
func TestLeadershipLostAfterTheBodyIsNoRedirect(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("abc")})
		n.onPropose = func(*stream.Command) error {
			n.follow()
			return &raftgroup.NotLeaderError{}
		}
		n.run([]step{{do: "POST /demo/s", send: textPlain, body: "x", status: 503, code: "NO_LEADER", want: "Location: -\nX-Ursula-Raft-Group: 7"}})
	})
}

func TestProposalErrors(t *testing.T) {
	cases := []struct {
		err  error
		code string
	}{
		{raftgroup.ErrNotLeader, "NO_LEADER"},
		{raftgroup.ErrNoReplica, "NO_LEADER"},
		{raftgroup.ErrBusy, "RAFT_UNCOMMITTED_BACKPRESSURE"},
		{raftgroup.ErrApplyStopped, "APPLY_STOPPED"},
		{ErrDiskPressure, "WAL_DISK_PRESSURE"},
		{raftgroup.ErrOutcomeUnknown, "OUTCOME_UNKNOWN"},
		{fmt.Errorf("wrapped: %w", raftgroup.ErrOutcomeUnknown), "OUTCOME_UNKNOWN"},
		{errors.New("something with http://10.0.0.1 in it"), "OUTCOME_UNKNOWN"},
	}
	for _, c := range cases {
		t.Run(c.err.Error(), func(t *testing.T) {
			onFronts(t, Config{}, func(t *testing.T, n *node) {
				n.onPropose = func(*stream.Command) error { return c.err }
				for _, do := range []string{"POST /demo/s", "PUT /demo/s", "DELETE /demo/s"} {
					body := "x"
					if strings.HasPrefix(do, "DELETE") {
						body = ""
					}
					r := n.do(do, textPlain, body)
					n.check(do, step{do: do, status: 503, code: c.code}, r)
					if strings.Contains(r.body, "10.0.0.1") {
						t.Errorf("%s: internals in %q", do, r.body)
					}
				}
				if used := n.h.Stats().BodyBytes; used != 0 {
					t.Errorf("%d body bytes still reserved", used)
				}
				if got := protocol.Code(c.code).ProvesRefusal(); got != (c.code != "OUTCOME_UNKNOWN") {
					t.Errorf("code %s proves a refusal: %v", c.code, got)
				}
			})
		})
	}
}

// A body whose outcome is not settled may still be read by the log: its memory
// must not carry another request.
func TestUnsettledBodyIsNotReused(t *testing.T) {
	n := serveFake(t, fronts[0], Config{})
	n.run([]step{s("")})
	var kept []byte
	n.onPropose = func(c *stream.Command) error {
		if kept == nil {
			kept = c.Payload
			return raftgroup.ErrOutcomeUnknown
		}
		return nil
	}
	first := strings.Repeat("a", 700)
	n.run([]step{{do: "POST /demo/s", send: textPlain, body: first, status: 503, code: "OUTCOME_UNKNOWN"}})
	for range 50 {
		n.run([]step{{do: "POST /demo/s", send: textPlain, body: strings.Repeat("b", 700), status: 204}})
	}
	if string(kept) != first {
		t.Error("the unsettled payload was overwritten")
	}
}

func TestUnconfirmedLeaderSaysNothing(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("abc")})
		n.onConfirm = func() error { return raftgroup.ErrUnconfirmed }
		n.run([]step{
			{do: "GET /demo/s", status: 200, content: text("abc")}, // needs no round
			{do: "GET /demo/s?consistency=leader", status: 503, code: "NO_LEADER"},
			{do: "GET /demo/missing", status: 503, code: "NO_LEADER"},
			{do: "GET /demo/s?offset=4", status: 503, code: "NO_LEADER"},
			{do: "HEAD /demo/s", status: 503},
			{do: "GET /demo/s?offset=-1&live=sse", status: 503, code: "NO_LEADER"},
			{do: "GET /demo/s?offset=-1&live=long-poll", status: 503, code: "NO_LEADER"},
		})
		n.onConfirm = func() error { n.follow(); return raftgroup.ErrNotLeader }
		n.run([]step{{do: "GET /demo/s?consistency=leader", status: 307, want: "X-Ursula-Raft-Leader-Id: 2"}})
		n.lead()
		n.onConfirm = func() error { return raftgroup.ErrApplyStopped }
		n.run([]step{{do: "HEAD /demo/s", status: 503}, {do: "GET /demo/missing", status: 503, code: "APPLY_STOPPED"}})
	})
}

// Facts of applied state need no round, and a confirmed answer needs one.
func TestTrapP5_RoundsAreMadeOnlyForWhatNeedsThem(t *testing.T) {
	n := serveFake(t, fronts[0], Config{})
	n.run([]step{s("abc")})
	rounds := func(want int64, st step) {
		t.Helper()
		before := n.confirms.Load()
		n.run([]step{st})
		if got := n.confirms.Load() - before; got != want {
			t.Errorf("%s: %d rounds, want %d", st.do, got, want)
		}
	}
	rounds(0, step{do: "GET /demo/s", status: 200})
	rounds(0, step{do: "GET /demo/s?offset=3", status: 200})
	rounds(0, step{do: "POST /demo/s", send: textPlain, body: "d", status: 204})
	rounds(1, step{do: "GET /demo/s?consistency=leader", status: 200})
	rounds(1, step{do: "GET /demo/s?offset=99", status: 416, code: "OFFSET_OUT_OF_RANGE"})
	rounds(1, step{do: "GET /demo/none", status: 404, code: "STREAM_NOT_FOUND"})
	rounds(1, step{do: "HEAD /demo/s", status: 200})
	rounds(1, step{do: "HEAD /demo/none", status: 404})
	rounds(1, step{do: "GET /demo/s?offset=0&live=long-poll", status: 200})
}

func TestTrapP2_SlidingTTLIsRenewedByReplicatedTouches(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{
			{do: "PUT /demo/s", send: "Stream-TTL: 100\n" + textPlain, body: "x", status: 201},
			{do: "GET /demo/s", status: 200},
		})
		if n.touches.Load() != 0 {
			t.Error("a read within a quarter of the window touched")
		}
		n.advance(26 * time.Second)
		n.run([]step{{do: "HEAD /demo/s", status: 200}})
		if n.touches.Load() != 0 {
			t.Error("HEAD renewed")
		}
		n.run([]step{{do: "GET /demo/s?offset=now", status: 200}, {do: "GET /demo/s", status: 200}})
		if n.touches.Load() != 1 {
			t.Errorf("%d touches, want one for both reads", n.touches.Load())
		}
		// Expiry allows a quarter more than the window, and is an applied command.
		n.advance(110 * time.Second)
		n.run([]step{{do: "HEAD /demo/s", status: 200}})
		n.advance(20 * time.Second)
		n.run([]step{{do: "GET /demo/s", status: 404, code: "STREAM_NOT_FOUND"}})
		if n.expires.Load() != 1 {
			t.Errorf("%d expires, want 1", n.expires.Load())
		}
		if len(n.byKey) != 0 {
			t.Error("the 404 was given without an applied expire")
		}
	})
}

func TestShortTTLIsRenewedByEveryReadAndWrite(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{{do: "PUT /demo/s", send: "Stream-TTL: 2\n" + textPlain, body: "x", status: 201}})
		for _, renew := range []step{
			{do: "GET /demo/s", status: 200},
			{do: "GET /demo/s?offset=now", status: 200},
			{do: "GET /demo/s?offset=0&live=long-poll", status: 200},
			{do: "POST /demo/s", send: textPlain, body: "y", status: 204},
			{do: "POST /demo/s", send: "Stream-Closed: true", status: 204}, // row 77
		} {
			n.advance(1500 * time.Millisecond)
			n.run([]step{renew})
		}
		n.advance(1500 * time.Millisecond)
		n.run([]step{{do: "HEAD /demo/s", status: 200}})
		n.advance(1500 * time.Millisecond)
		n.run([]step{{do: "HEAD /demo/s", status: 404}})
	})
}

func TestAbsoluteExpiryNeverMoves(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		at := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
		n.run([]step{
			{do: "PUT /demo/s", send: "Stream-Expires-At: " + at, status: 201},
			{do: "GET /demo/s", status: 200},
		})
		n.advance(2 * time.Minute)
		n.run([]step{
			{do: "GET /demo/s", status: 404, code: "STREAM_NOT_FOUND"},
			{do: "POST /demo/s", send: "Content-Type: application/octet-stream", body: "x", status: 404, code: "STREAM_NOT_FOUND"},
			{do: "PUT /demo/s", send: textPlain, status: 201},
		})
	})
}

func TestExpiredStreamOnAFollowerIsTheLeadersToRefuse(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{{do: "PUT /demo/s", send: "Stream-Expires-At: 2099-01-01T00:00:00Z", status: 201}})
		n.advance(100 * 365 * 24 * time.Hour)
		n.follow()
		n.run([]step{{do: "GET /demo/s", status: 307, want: "X-Ursula-Raft-Leader-Id: 2"}})
		if n.expires.Load() != 0 {
			t.Error("a follower proposed an expire")
		}
	})
}

func TestIngressBudget(t *testing.T) {
	onFronts(t, Config{BodyBytes: 100 << 10}, func(t *testing.T, n *node) {
		n.run([]step{s("")})
		head := "POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nExpect: 100-continue\r\nContent-Length: 200000\r\n\r\n"
		status, header := n.raw(head)
		if status != "503" || !strings.Contains(header, "Retry-After: 1\r\n") {
			t.Errorf("status %s before the body, want 503 with Retry-After: %q", status, header)
		}
		n.run([]step{
			{do: "POST /demo/s", send: textPlain, body: strings.Repeat("x", 90<<10), status: 204},
			{do: "POST /demo/s", send: textPlain, body: strings.Repeat("x", 101<<10), status: 503, code: "INGRESS_BODY_BYTES_LIMIT_REACHED"},
			{do: "PUT /demo/t", send: textPlain, body: strings.Repeat("x", 101<<10), status: 503, code: "INGRESS_BODY_BYTES_LIMIT_REACHED"},
		})
		if used := n.h.Stats().BodyBytes; used != 0 {
			t.Errorf("%d body bytes still reserved", used)
		}
	})
}

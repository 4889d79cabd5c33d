package streamhttp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"runnel.dev/runnel/node/protocol"
)

// The names of the cases hold the row of the edge-case table they come from.

type surfaceCase struct {
	name  string
	steps []step
}

func runCases(t *testing.T, cases []surfaceCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			onFronts(t, Config{}, func(t *testing.T, n *node) { n.run(c.steps) })
		})
	}
}

const textPlain = "Content-Type: text/plain"

// s makes the text stream /demo/s, j the JSON stream /demo/j, with a body.
func s(body string) step {
	return step{do: "PUT /demo/s", send: textPlain, body: body, status: 201}
}

func j(body string) step {
	return step{do: "PUT /demo/j", send: "Content-Type: application/json", body: body, status: 201}
}

func TestBucketsIDsAndRoutes(t *testing.T) {
	x := strings.Repeat
	runCases(t, []surfaceCase{
		{"row 1: a bucket create validates and repeats", []step{
			{do: "PUT /demo", status: 201},
			{do: "PUT /demo", status: 201},
		}},
		{"rows 2 and 3: a bucket id outside the grammar is refused", []step{
			{do: "PUT /abc", status: 400, code: "INVALID_BUCKET_ID"},
			{do: "PUT /Demo", status: 400, code: "INVALID_BUCKET_ID"},
			{do: "PUT /de.mo", status: 400, code: "INVALID_BUCKET_ID"},
			{do: "PUT /" + x("a", 65), status: 400, code: "INVALID_BUCKET_ID"},
			{do: "PUT /" + x("a", 64), status: 201},
		}},
		{"row 4: a stream in an invalid bucket is refused and nothing stored", []step{
			{do: "PUT /abc/s", send: textPlain, body: "x", status: 400, code: "INVALID_BUCKET_ID"},
			{do: "GET /abc/s", status: 400, code: "INVALID_BUCKET_ID"},
		}},
		{"row 5: a bucket has no read and no delete", []step{
			{do: "GET /demo", status: 405, code: "METHOD_NOT_ALLOWED", want: "Allow: PUT, OPTIONS"},
			{do: "DELETE /demo", status: 405, code: "METHOD_NOT_ALLOWED"},
		}},
		{"rows 6, 7, 9 and 10: reserved and malformed stream ids are refused", []step{
			{do: "PUT /demo/streams", status: 400, code: "INVALID_STREAM_ID"},
			{do: "PUT /demo/$tx", status: 400, code: "INVALID_STREAM_ID"},
			{do: "PUT /demo/a..b", status: 400, code: "INVALID_STREAM_ID"},
			{do: "PUT /demo/a%2Fb", status: 400, code: "INVALID_STREAM_ID"},
			{do: "PUT /demo/a%00b", status: 400, code: "INVALID_STREAM_ID"},
			{do: "PUT /demo/", status: 400, code: "INVALID_STREAM_ID"},
		}},
		{"row 8: names of subresources are ordinary ids", []step{
			{do: "PUT /demo/snapshot", status: 201},
			{do: "PUT /demo/bootstrap", status: 201},
			{do: "PUT /demo/retention", status: 201},
			{do: "PUT /demo/incarnation", status: 201},
			{do: "PUT /demo/attrs", status: 201},
			{do: "PUT /demo/append-batch", status: 201},
		}},
		{"row 11: a path that is not UTF-8 is refused", []step{
			{do: "PUT /demo/%FF", status: 400, code: "INVALID_REQUEST"},
		}},
		{"rows 12 to 14: the key is at most 122 bytes", []step{
			{do: "PUT /demo/" + x("x", 117), status: 201},
			{do: "PUT /demo/" + x("x", 118), status: 400, code: "INVALID_STREAM_ID"},
			{do: "PUT /demo/" + x("%E6%97%A5", 40), status: 400, code: "INVALID_STREAM_ID"},
			{do: "PUT /demo/" + x("%E6%97%A5", 39), status: 201},
		}},
		{"row 15: three and more segments are no route", []step{
			s("x"),
			{do: "GET /demo/s/other", status: 404, code: "NOT_FOUND"},
			{do: "GET /demo/s/a/b/c", status: 404, code: "NOT_FOUND"},
			{do: "PUT /demo/s/x/y", status: 404, code: "NOT_FOUND"},
			{do: "GET /", status: 404, code: "NOT_FOUND"},
			{do: "GET /__ursula/health", status: 404, code: "NOT_FOUND"},
			{do: "PUT /__ursula", status: 404, code: "NOT_FOUND"},
		}},
		{"rows 19 and 20: a missing stream is 404", []step{
			{do: "GET /demo/missing", status: 404, code: "STREAM_NOT_FOUND"},
			{do: "HEAD /demo/missing", status: 404},
		}},
		{"row 21: other methods are not allowed", []step{
			{do: "PATCH /demo/s", status: 405, code: "METHOD_NOT_ALLOWED", want: "Allow: GET, HEAD, PUT, POST, DELETE, OPTIONS"},
		}},
		{"row 22: OPTIONS names the headers of requests", []step{
			{do: "OPTIONS /demo/s", send: "Access-Control-Request-Method: GET", status: 204,
				want: "Access-Control-Allow-Headers: " + requestHeaders},
			{do: "OPTIONS /demo", status: 204},
		}},
		{"percent encodings of ordinary characters name the same stream", []step{
			{do: "PUT /demo/a%62c", status: 201},
			{do: "PUT /d%65mo/abc", status: 200},
		}},
	})
	if !strings.Contains(requestHeaders, "if-none-match") {
		t.Error("T116 wants if-none-match among the allowed headers")
	}
}

func TestCreate(t *testing.T) {
	json := "Content-Type: application/json"
	runCases(t, []surfaceCase{
		{"rows 24 to 27: a create is idempotent by its configuration", []step{
			{do: "PUT /demo/n", status: 201, want: "Content-Type: application/octet-stream\nStream-Next-Offset: " + o(0)},
			{do: "PUT /demo/n", status: 200, want: "Location: -\nStream-Next-Offset: " + o(0)},
			{do: "PUT /demo/n", body: "ignored", status: 200, want: "Stream-Next-Offset: " + o(0)},
			{do: "PUT /demo/n", send: textPlain, status: 409, code: "STREAM_ALREADY_EXISTS_CONFLICT"},
		}},
		{"T82: a Content-Type that names no media type means the default", []step{
			{do: "PUT /demo/n", send: "Content-Type: nonsense", status: 201, want: "Content-Type: application/octet-stream"},
		}},
		{"row 28: media types compare without case and parameters", []step{
			{do: "PUT /demo/j", send: json + "; charset=utf-8", status: 201, want: json + "; charset=utf-8"},
			{do: "PUT /demo/j", send: "Content-Type: APPLICATION/JSON", status: 200, want: json + "; charset=utf-8"},
		}},
		{"rows 29 to 31: a JSON body is flattened once and compacted", []step{
			{do: "PUT /demo/a", send: json, body: "[]", status: 201, want: "Stream-Next-Offset: " + o(0)},
			{do: "PUT /demo/b", send: json, body: `{"a": 1 }`, status: 201, want: "Stream-Next-Offset: " + o(8)},
			{do: "PUT /demo/c", send: json, body: ` [ {"b":1, "a":2,"b":3} , 1.50e3, "\ud800", [ ] ] `, status: 201, want: "Stream-Next-Offset: " + o(39)},
			{do: "GET /demo/c", status: 200, content: text("{\"b\":1,\"a\":2,\"b\":3}\n1.50e3\n\"\\ud800\"\n[]\n")},
		}},
		{"row 32: invalid JSON creates nothing", []step{
			{do: "PUT /demo/j", send: json, body: "{bad", status: 400, code: "INVALID_REQUEST"},
			{do: "GET /demo/j", status: 404, code: "STREAM_NOT_FOUND"},
		}},
		{"rows 33 and 34: malformed lifetimes are refused", []step{
			{do: "PUT /demo/n", send: "Stream-TTL: 60\nStream-Expires-At: 2099-01-01T00:00:00Z", status: 400, code: "INVALID_HEADER"},
			{do: "PUT /demo/n", send: "Stream-TTL: 060", status: 400, code: "INVALID_HEADER"},
			{do: "PUT /demo/n", send: "Stream-TTL: +60", status: 400, code: "INVALID_HEADER"},
			{do: "PUT /demo/n", send: "Stream-TTL: 6e1", status: 400, code: "INVALID_HEADER"},
			{do: "PUT /demo/n", send: "Stream-TTL: -1", status: 400, code: "INVALID_HEADER"},
			{do: "PUT /demo/n", send: "Stream-TTL: 1.0", status: 400, code: "INVALID_HEADER"},
			{do: "PUT /demo/n", send: "Stream-TTL: abc", status: 400, code: "INVALID_HEADER"},
			{do: "PUT /demo/n", send: "Stream-Expires-At: tomorrow", status: 400, code: "INVALID_HEADER"},
			{do: "GET /demo/n", status: 404, code: "STREAM_NOT_FOUND"},
		}},
		{"row 35: a TTL of 0 expires at once", []step{
			{do: "PUT /demo/n", send: "Stream-TTL: 0", status: 201},
			{do: "GET /demo/n", status: 404, code: "STREAM_NOT_FOUND"},
			{do: "HEAD /demo/n", status: 404},
		}},
		{"row 36: a stream can start closed", []step{
			{do: "PUT /demo/n", send: textPlain + "\nStream-Closed: TRUE", body: "x", status: 201, want: "Stream-Closed: true\nStream-Next-Offset: " + o(1)},
			{do: "POST /demo/n", send: textPlain, body: "y", status: 409, code: "STREAM_CLOSED"},
		}},
		{"rows 37 to 39: the closed flag is compared as it is now", []step{
			{do: "PUT /demo/n", send: "Stream-Closed: yes", status: 201, want: "Stream-Closed: -"},
			{do: "PUT /demo/n", send: "Stream-Closed: true", status: 409, code: "STREAM_ALREADY_EXISTS_CONFLICT"},
			{do: "POST /demo/n", send: "Stream-Closed: true", status: 204},
			{do: "PUT /demo/n", status: 409, code: "STREAM_ALREADY_EXISTS_CONFLICT"},
			{do: "PUT /demo/n", send: "Stream-Closed: true", status: 200, want: "Stream-Closed: true"},
		}},
		{"row 40: a create carries no producer", []step{
			{do: "PUT /demo/n", send: "Producer-Id: p\nProducer-Epoch: 0\nProducer-Seq: 0", status: 400, code: "INVALID_PRODUCER"},
			{do: "PUT /demo/n", send: "Producer-Epoch: x", status: 400, code: "INVALID_PRODUCER"},
			{do: "GET /demo/n", status: 404, code: "STREAM_NOT_FOUND"},
		}},
		{"a fork is refused, not made as an ordinary stream", []step{
			s("x"),
			{do: "PUT /demo/n", send: "Stream-Forked-From: /demo/s", status: 400, code: "UNSUPPORTED"},
			{do: "PUT /demo/n", send: "Stream-Fork-Sub-Offset: 0", status: 400, code: "UNSUPPORTED"},
			{do: "GET /demo/n", status: 404, code: "STREAM_NOT_FOUND"},
		}},
		{"row 45: delete, then a new life without the old bytes", []step{
			s("old"),
			{do: "DELETE /demo/s", status: 204},
			s("n"),
			{do: "GET /demo/s", status: 200, content: text("n")},
		}},
	})
}

func TestCreateLocationIsAbsoluteAndAsAsked(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		r := n.do("PUT /demo/a%2db", "X-Forwarded-Proto: https", "")
		if want := n.url + "/demo/a%2db"; r.header.Get("Location") != want {
			t.Errorf("Location %q, want %q", r.header.Get("Location"), want)
		}
	})
}

func TestAppendAndClose(t *testing.T) {
	json := "Content-Type: application/json"
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	runCases(t, []surfaceCase{
		{"row 46: an append answers the new tail", []step{
			s(""),
			{do: "POST /demo/s", send: textPlain, body: "abc", status: 204, want: "Stream-Next-Offset: " + o(3) + "\nStream-Closed: -\nProducer-Epoch: -"},
			{do: "POST /demo/s", send: textPlain, body: "de", status: 204, want: "Stream-Next-Offset: " + o(5)},
			{do: "GET /demo/s", status: 200, content: text("abcde")},
		}},
		{"rows 47 to 50: an append needs a body of the stream's type", []step{
			s(""),
			{do: "POST /demo/s", body: "x", status: 400, code: "MISSING_CONTENT_TYPE"},
			{do: "POST /demo/s", send: textPlain, status: 400, code: "EMPTY_APPEND"},
			{do: "POST /demo/s", status: 400, code: "EMPTY_APPEND"},
			{do: "POST /demo/s", send: json, body: "{}", status: 409, code: "CONTENT_TYPE_MISMATCH", want: "Stream-Last-Seq: -"},
			{do: "POST /demo/s", send: "Content-Type: nonsense", body: "x", status: 409, code: "CONTENT_TYPE_MISMATCH"},
			{do: "POST /demo/s", send: "Content-Type: Text/Plain; charset=utf-8", body: "x", status: 204},
		}},
		{"rows 51 and 52: an append to a missing stream is 404", []step{
			{do: "POST /demo/s", send: textPlain, body: "x", status: 404, code: "STREAM_NOT_FOUND"},
			{do: "POST /demo/s", body: "x", status: 400, code: "MISSING_CONTENT_TYPE"},
		}},
		{"rows 53 to 55: JSON arrays are flattened one level", []step{
			j(""),
			{do: "POST /demo/j", send: json, body: "[]", status: 400, code: "EMPTY_APPEND"},
			{do: "POST /demo/j", send: json + "\nStream-Closed: true", body: "[]", status: 400, code: "EMPTY_APPEND"},
			{do: "POST /demo/j", send: json, body: "[[1,2],[3,4]]", status: 204, want: "Stream-Next-Offset: " + o(12)},
			{do: "POST /demo/j", send: json, body: "[[[1]]]", status: 204},
			{do: "GET /demo/j", status: 200, content: text("[1,2]\n[3,4]\n[[1]]\n")},
		}},
		{"rows 56 to 59: a message is at most 127 deep", []step{
			j(""),
			{do: "POST /demo/j", send: json, body: deep(127), status: 204},
			{do: "POST /demo/j", send: json, body: deep(128), status: 400, code: "INVALID_REQUEST"},
			{do: "POST /demo/j", send: json, body: "[" + deep(127) + "]", status: 204},
			{do: "POST /demo/j", send: json, body: "[1," + deep(128) + "]", status: 400, code: "INVALID_REQUEST"},
			{do: "HEAD /demo/j", status: 200, want: fmt.Sprintf("Stream-Next-Offset: %s", o(2*(len(deep(127))+1)))},
		}},
		{"rows 60 to 62: JSON text is validated and kept as sent", []step{
			j(""),
			{do: "POST /demo/j", send: json, body: "{\"a\":\"\xff\"}", status: 400, code: "INVALID_REQUEST"},
			{do: "POST /demo/j", send: json, body: "\xef\xbb\xbf{}", status: 400, code: "INVALID_REQUEST"},
			{do: "POST /demo/j", send: json, body: "1 2", status: 400, code: "INVALID_REQUEST"},
			{do: "POST /demo/j", send: json, body: `{"a":1,}`, status: 400, code: "INVALID_REQUEST"},
			{do: "POST /demo/j", send: json, body: "  ", status: 400, code: "INVALID_REQUEST"},
			{do: "POST /demo/j", send: json, body: `["\ud800", 1e400, -0.0, {"a":1,"a":1}]`, status: 204},
			{do: "GET /demo/j", status: 200, content: text("\"\\ud800\"\n1e400\n-0.0\n{\"a\":1,\"a\":1}\n")},
		}},
		{"rows 66 to 68: Stream-Seq rises bytewise, by accepted appends only", []step{
			s(""),
			{do: "POST /demo/s", send: textPlain + "\nStream-Seq: 2", body: "x", status: 204},
			{do: "POST /demo/s", send: textPlain + "\nStream-Seq: 2", body: "x", status: 409, code: "STREAM_SEQ_CONFLICT", want: "Stream-Last-Seq: 2"},
			{do: "POST /demo/s", send: textPlain + "\nStream-Seq: 10", body: "x", status: 409, code: "STREAM_SEQ_CONFLICT", want: "Stream-Last-Seq: 2"},
			{do: "POST /demo/s", send: json + "\nStream-Seq: b", body: "{}", status: 409, code: "CONTENT_TYPE_MISMATCH"},
			{do: "POST /demo/s", send: textPlain + "\nStream-Seq: a", body: "x", status: 204},
		}},
		{"rows 69 to 73: a closed stream takes no bytes, and closing again is fine", []step{
			s("ab"),
			{do: "POST /demo/s", send: json + "\nStream-Closed: true", status: 204, want: "Stream-Closed: true\nStream-Next-Offset: " + o(2)},
			{do: "POST /demo/s", send: "Stream-Closed: true", status: 204, want: "Stream-Closed: true\nStream-Next-Offset: " + o(2)},
			{do: "POST /demo/s", send: textPlain, body: "x", status: 409, code: "STREAM_CLOSED", want: "Stream-Closed: true\nStream-Next-Offset: " + o(2)},
			{do: "POST /demo/s", send: json, body: "{}", status: 409, code: "STREAM_CLOSED"},
			{do: "POST /demo/s", send: textPlain + "\nStream-Closed: true", body: "x", status: 409, code: "STREAM_CLOSED"},
		}},
		{"A10: append and close in one write", []step{
			s("ab"),
			{do: "POST /demo/s", send: textPlain + "\nStream-Closed: true", body: "c", status: 204, want: "Stream-Closed: true\nStream-Next-Offset: " + o(3)},
		}},
		{"row 74: closing a missing stream is 404", []step{
			{do: "POST /demo/s", send: "Stream-Closed: true", status: 404, code: "STREAM_NOT_FOUND"},
		}},
		{"rows 194 and 196: a delete is final, and errors of HEAD have no body", []step{
			s("x"),
			{do: "DELETE /demo/s", status: 204},
			{do: "DELETE /demo/s", status: 404, code: "STREAM_NOT_FOUND"},
			{do: "HEAD /demo/s", status: 404},
		}},
	})
}

func TestProducers(t *testing.T) {
	p := func(epoch, seq int) string {
		return fmt.Sprintf("%s\nProducer-Id: p\nProducer-Epoch: %d\nProducer-Seq: %d", textPlain, epoch, seq)
	}
	at := func(epoch, seq int) string { return fmt.Sprintf("Producer-Epoch: %d\nProducer-Seq: %d", epoch, seq) }
	post := "POST /demo/s"
	runCases(t, []surfaceCase{
		{"rows 78 to 81: a repeat is 204 with the epoch's highest seq", []step{
			s(""),
			{do: post, send: p(0, 0), body: "ab", status: 200, want: at(0, 0) + "\nStream-Next-Offset: " + o(2)},
			{do: post, send: p(0, 0), body: "ab", status: 204, want: at(0, 0)},
			{do: post, send: p(0, 1), body: "c", status: 200, want: at(0, 1) + "\nStream-Next-Offset: " + o(3)},
			{do: post, send: p(0, 0), body: "ab", status: 204, want: at(0, 1)},
			{do: "GET /demo/s", status: 200, content: text("abc")},
		}},
		{"rows 82 to 84: gaps and unclaimed epochs name the expected seq", []step{
			s(""),
			{do: post, send: p(0, 3), body: "x", status: 409, code: "PRODUCER_SEQ_CONFLICT", want: "Producer-Expected-Seq: 0\nProducer-Received-Seq: 3"},
			{do: post, send: p(0, 0), body: "x", status: 200},
			{do: post, send: p(0, 5), body: "x", status: 409, code: "PRODUCER_SEQ_CONFLICT", want: "Producer-Expected-Seq: 1\nProducer-Received-Seq: 5\nStream-Closed: -"},
			{do: post, send: p(1, 4), body: "x", status: 400, code: "INVALID_PRODUCER", want: "Producer-Expected-Seq: 0"},
		}},
		{"rows 85 to 87: an older epoch is fenced", []step{
			s(""),
			{do: post, send: p(0, 0), body: "x", status: 200},
			{do: post, send: p(2, 0), body: "y", status: 200, want: at(2, 0)},
			{do: post, send: p(0, 1), body: "z", status: 403, code: "PRODUCER_EPOCH_STALE", want: "Producer-Epoch: 2"},
			{do: post, send: p(0, 0), body: "x", status: 403, code: "PRODUCER_EPOCH_STALE", want: "Producer-Epoch: 2"},
		}},
		{"rows 88 and 89: malformed producer headers come before the stream", []step{
			{do: post, send: "Producer-Id: p", body: "x", status: 400, code: "INVALID_PRODUCER"},
			{do: post, send: "Producer-Id: p\nProducer-Epoch: 0", body: "x", status: 400, code: "INVALID_PRODUCER"},
			{do: post, send: "Producer-Id: p\nProducer-Epoch: 1e3\nProducer-Seq: 0", body: "x", status: 400, code: "INVALID_PRODUCER"},
			{do: post, send: "Producer-Id: p\nProducer-Epoch: -1\nProducer-Seq: 0", body: "x", status: 400, code: "INVALID_PRODUCER"},
			{do: post, send: "Producer-Id: p\nProducer-Epoch: 0x1\nProducer-Seq: 0", body: "x", status: 400, code: "INVALID_PRODUCER"},
			{do: post, send: "Producer-Id: p\nProducer-Epoch: 0\nProducer-Seq: 9007199254740992", body: "x", status: 400, code: "INVALID_PRODUCER"},
			{do: post, send: "Producer-Id:\nProducer-Epoch: 0\nProducer-Seq: 0", body: "x", status: 400, code: "INVALID_PRODUCER"},
		}},
		{"row 98: a producer's close alone is 204 even when it applies now", []step{
			s("ab"),
			{do: post, send: p(0, 0) + "\nStream-Closed: true", status: 204, want: at(0, 0) + "\nStream-Closed: true\nStream-Next-Offset: " + o(2)},
			{do: post, send: p(0, 0) + "\nStream-Closed: true", status: 204, want: at(0, 0) + "\nStream-Closed: true"},
		}},
		{"rows 99 to 103: a closed stream still knows its producers", []step{
			s(""),
			{do: post, send: p(1, 0), body: "a", status: 200},
			{do: post, send: p(1, 1) + "\nStream-Closed: true", body: "b", status: 200, want: "Stream-Closed: true"},
			{do: post, send: p(1, 1) + "\nStream-Closed: true", body: "b", status: 204, want: "Stream-Closed: true"},
			{do: post, send: p(1, 0), body: "a", status: 204, want: at(1, 1) + "\nStream-Closed: -"},
			{do: post, send: p(1, 2), body: "c", status: 409, code: "STREAM_CLOSED", want: "Stream-Closed: true\nStream-Next-Offset: " + o(2)},
			{do: post, send: p(1, 9), body: "c", status: 409, code: "PRODUCER_SEQ_CONFLICT", want: "Stream-Closed: -"},
			{do: post, send: p(0, 0), body: "c", status: 403, code: "PRODUCER_EPOCH_STALE"},
		}},
		{"rows 104 and 105: the producer rules come before Stream-Seq", []step{
			s(""),
			{do: post, send: p(0, 0) + "\nStream-Seq: b", body: "x", status: 200},
			{do: post, send: p(0, 0) + "\nStream-Seq: a", body: "x", status: 204},
			{do: post, send: p(0, 1) + "\nStream-Seq: a", body: "y", status: 409, code: "STREAM_SEQ_CONFLICT", want: "Stream-Last-Seq: b"},
			{do: post, send: p(0, 1) + "\nStream-Seq: c", body: "y", status: 200},
		}},
	})
}

// A content fault of a producer write is decided after the producer rules:
// rows 96 and 106.
func TestTrapP1_ProducerContentFaultsAreDecidedInApply(t *testing.T) {
	p := "Producer-Id: p\nProducer-Epoch: 0\nProducer-Seq: "
	runCases(t, []surfaceCase{{"row 96: a repeat is answered whatever its content", []step{
		j(""),
		{do: "POST /demo/j", send: p + "0\nContent-Type: application/json", body: "1", status: 200},
		{do: "POST /demo/j", send: p + "0\nContent-Type: application/json", body: "{bad", status: 204},
		{do: "POST /demo/j", send: p + "0\nContent-Type: application/json", body: "", status: 204},
		{do: "POST /demo/j", send: p + "0", body: "1", status: 204},
	}}, {"a fresh write with a fault applies nothing and keeps its key", []step{
		j(""),
		{do: "POST /demo/j", send: p + "0\nContent-Type: application/json", body: "{bad", status: 400, code: "INVALID_REQUEST"},
		{do: "POST /demo/j", send: p + "0\nContent-Type: application/json", body: "[]", status: 400, code: "EMPTY_APPEND"},
		{do: "POST /demo/j", send: p + "0\nContent-Type: application/json", status: 400, code: "EMPTY_APPEND"},
		{do: "POST /demo/j", send: p + "0", body: "1", status: 400, code: "MISSING_CONTENT_TYPE"},
		{do: "POST /demo/j", send: p + "0\nContent-Type: text/plain", body: "1", status: 409, code: "CONTENT_TYPE_MISMATCH"},
		{do: "POST /demo/j", send: p + "0\nContent-Type: application/json", body: "1", status: 200, want: "Stream-Next-Offset: " + o(2)},
	}}, {"row 106: a missing stream comes before bad JSON", []step{
		{do: "POST /demo/x", send: p + "0\nContent-Type: application/json", body: "{bad", status: 404, code: "STREAM_NOT_FOUND"},
	}}})
	n := serveFake(t, fronts[0], Config{})
	n.run([]step{j("")})
	n.do("POST /demo/j", p+"0\nContent-Type: application/json", "{bad "+strings.Repeat("x", 1000))
	if len(n.last.Payload) != 0 || n.last.Fault == 0 {
		t.Errorf("proposed %d payload bytes with fault %d, want the fault alone", len(n.last.Payload), n.last.Fault)
	}
	before := n.proposes.Load()
	n.do("POST /demo/j", "Content-Type: application/json", "{bad")
	if n.proposes.Load() != before {
		t.Error("a content fault without a producer cost a proposal")
	}
}

func TestRequestLimit(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("")})
		big := strings.Repeat("x", protocol.MaxRequestBytes)
		n.run([]step{{do: "POST /demo/s", send: textPlain, body: big, status: 204, want: fmt.Sprintf("Stream-Next-Offset: %s", o(len(big)))}})

		// Row 64: decided from Content-Length, before the body and any 100.
		head := fmt.Sprintf("POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(big)+1)
		status, header := n.raw(head)
		if status != "413" || !strings.Contains(header, "Ursula-Max-Request-Bytes: 33554432\r\n") {
			t.Errorf("status %s, want 413 naming the limit; head %q", status, header)
		}
		if used := n.h.Stats().BodyBytes; used != 0 {
			t.Errorf("%d body bytes still reserved", used)
		}
	})
}

// raw sends bytes and returns the status and the head of the first answer.
func (n *node) raw(send string) (status, head string) {
	n.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, send); err != nil {
		n.t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			n.t.Fatalf("read the head: %v after %q", err, head)
		}
		head += line
		if line == "\r\n" {
			return strings.Fields(head)[1], head
		}
	}
}

func TestChunkedBodyAboveTheLimitIsRefused(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("")})
		req := n.request("POST /demo/s", textPlain, "")
		req.Body = io.NopCloser(io.LimitReader(zeros{}, protocol.MaxRequestBytes+1))
		req.ContentLength = -1
		resp, err := n.client.Do(req)
		if err == nil { // row 65: or a reset
			defer resp.Body.Close()
			if resp.StatusCode != 413 {
				t.Errorf("status %d, want 413", resp.StatusCode)
			}
		}
		n.run([]step{{do: "HEAD /demo/s", status: 200, want: "Stream-Next-Offset: " + o(0)}})
		eventually(t, "the reservation is given back", func() bool { return n.h.Stats().BodyBytes == 0 })
	})
}

func TestChunkedBodyIsTaken(t *testing.T) {
	onFronts(t, Config{}, func(t *testing.T, n *node) {
		n.run([]step{s("")})
		req := n.request("POST /demo/s", textPlain, "")
		req.Body = io.NopCloser(io.LimitReader(zeros{}, 300_000))
		req.ContentLength = -1
		resp, err := n.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := resp.Header.Get("Stream-Next-Offset"); resp.StatusCode != 204 || got != o(300_000) {
			t.Errorf("status %d with tail %s, want 204 and %s", resp.StatusCode, got, o(300_000))
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

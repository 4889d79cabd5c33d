package http1

import (
	"fmt"
	"strings"
	"testing"
)

func ok(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func refused(status string) string {
	return "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
}

const closing = "HTTP/1.1 200 OK\r\nConnection: close\r\n"

// TestRawRequests: what goes in byte for byte, and what comes out.
func TestRawRequests(t *testing.T) {
	_, addr := startServer(t, HandlerFunc(testHandler), Limits{})
	bad := refused("400 Bad Request")
	host := "Host: h\r\n"
	get := func(fields string) string { return "GET /head HTTP/1.1\r\n" + host + fields + "\r\n" }
	post := func(fields, body string) string {
		return "POST /echo HTTP/1.1\r\n" + host + fields + "\r\n" + body
	}
	echo := func(declared int, body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Length: %d\r\nContent-Length: %d\r\n\r\n%s", declared, len(body), body)
	}
	tests := []struct{ name, in, want string }{
		{"a plain request is answered and the connection stays", "GET /a HTTP/1.1\r\n" + host + "\r\n", ok("/a")},
		{"pipelined requests are answered in order", "GET /a HTTP/1.1\r\n" + host + "\r\nGET /b HTTP/1.1\r\n" + host + "\r\n" + post("Content-Length: 2\r\n", "xy") + "GET /c HTTP/1.1\r\n" + host + "\r\n",
			ok("/a") + ok("/b") + echo(2, "xy") + ok("/c")},
		{"a query is kept apart", "GET /head?a=%zz&b HTTP/1.1\r\n" + host + "\r\n", ok("GET /head true \"a=%zz&b\" h 0\n")},
		{"an empty query is a query", "GET /head? HTTP/1.1\r\n" + host + "\r\n", ok("GET /head true \"\" h 0\n")},
		{"fields keep their order and lose their outer space", get("X-One: \t a b \t\r\nx-two:\r\nAccept: */*\r\n"), ok("GET /head false \"\" h 0\nX-One=a b\nx-two=\nAccept=*/*\n")},
		{"fields of the connection are consumed", get("Keep-Alive: 1\r\nTE: x\r\nUpgrade: y\r\nTrailer: Z\r\nconnection: foo\r\n"), ok("GET /head false \"\" h 0\n")},
		{"an absolute target names the host", "GET http://other:80/head?x HTTP/1.1\r\n" + host + "\r\n", ok("GET /head true \"x\" other:80 0\n")},
		{"an absolute target without a path is the root", "GET HTTP://other?x HTTP/1.1\r\n" + host + "\r\n", ok("/")},
		{"an absolute target with user information is refused", "GET http://u@other/ HTTP/1.1\r\n" + host + "\r\n", bad},
		{"an absolute target of another scheme is refused", "GET ftp://other/ HTTP/1.1\r\n" + host + "\r\n", bad},
		{"OPTIONS takes the asterisk", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", ok("*")},
		{"GET does not take the asterisk", "GET * HTTP/1.1\r\n" + host + "\r\n", bad},
		{"CONNECT is refused", "CONNECT h:80 HTTP/1.1\r\n" + host + "\r\n", bad},
		{"an unknown method reaches the handler", "BREW /a HTTP/1.1\r\n" + host + "\r\n", ok("/a")},
		{"HEAD gets the length and no body", "HEAD /a HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"},
		{"204 has neither body nor length", "GET /empty HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 204 No Content\r\n\r\n"},
		{"answer fields are set, added and kept on their lines", "GET /fields HTTP/1.1\r\n" + host + "\r\n",
			"HTTP/1.1 200 OK\r\nX-Block: one\r\nX-Block-2: two\r\nx-a: 2\r\nX-B: 1\r\nX-B: 2\r\nX-C: three\r\nX-D: -4\r\nX-E: a  X-Evil: b c\r\nContent-Length: 0\r\n\r\n"},
		{"a handler without an answer is a 500", "GET /nothing HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"},
		{"a panic is a 500 and the connection's end", "GET /panic HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
		{"a panic in a stream cuts it", "GET /panic-late HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"},

		{"a stream is chunked", "GET /stream HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n26\r\nworld, this is more than fifteen bytes\r\n0\r\n\r\n"},
		{"an aborted stream has no end", "GET /abort HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"},
		{"HEAD of a stream has no body", "HEAD /stream HTTP/1.1\r\n" + host + "\r\nGET /a HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + ok("/a")},

		{"HTTP/1.0 closes", "GET /a HTTP/1.0\r\n\r\nGET /b HTTP/1.0\r\n\r\n", closing + "Content-Length: 2\r\n\r\n/a"},
		{"HTTP/1.0 stays when it asks to", "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /b HTTP/1.0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n/a" + closing + "Content-Length: 2\r\n\r\n/b"},
		{"a stream to HTTP/1.0 ends with the connection", "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", closing + "\r\nhello world, this is more than fifteen bytes"},
		{"Connection: close closes", "GET /a HTTP/1.1\r\n" + host + "Connection: x, Close\r\n\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", closing + "Content-Length: 2\r\n\r\n/a"},

		{"a chunked body", post("Transfer-Encoding: Chunked\r\n", "3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n") + "GET /a HTTP/1.1\r\n" + host + "\r\n", echo(-1, "abc0123456789") + ok("/a")},
		{"an empty chunked body", post("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), echo(-1, "")},
		{"an empty line before a request is skipped", "\r\nGET /a HTTP/1.1\r\n" + host + "\r\n\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", ok("/a") + ok("/b")},
		{"a small unread body is drained", "POST /unread HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabcGET /a HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno" + ok("/a")},
		{"an unread chunked body ends the connection", "POST /unread HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /a HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"},
		{"the body's start spares the 100", post("Expect: 100-continue\r\nContent-Length: 2\r\n", "xy"), echo(2, "xy")},
		{"an unknown expectation is refused", post("Expect: 200-ok\r\nContent-Length: 2\r\n", "xy"), refused("417 Expectation Failed")},
		{"an unread expected body ends the connection", "POST /unread HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"},
		{"a body over the handler's bound is its 413", post("Content-Length: 1048577\r\n", ""), "HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Length: 30\r\n\r\nrequest body exceeds its limit"},
		{"a chunk over the handler's bound is its 413", post("Transfer-Encoding: chunked\r\n", "100001\r\n"), "HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Length: 30\r\n\r\nrequest body exceeds its limit"},

		{"both lengths are refused", post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), bad},
		{"both lengths are refused in the other order", post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"), bad},
		{"two lengths are refused", post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), bad},
		{"a list of lengths is refused", post("Content-Length: 3, 3\r\n", "abc"), bad},
		{"a signed length is refused", post("Content-Length: +3\r\n", "abc"), bad},
		{"a negative length is refused", post("Content-Length: -3\r\n", "abc"), bad},
		{"a hexadecimal length is refused", post("Content-Length: 0x3\r\n", "abc"), bad},
		{"an empty length is refused", post("Content-Length:\r\n", ""), bad},
		{"an absurd length is refused", post("Content-Length: 9999999999999999999\r\n", ""), bad},
		{"another coding is refused", post("Transfer-Encoding: gzip\r\n", ""), refused("501 Not Implemented")},
		{"a list of codings is refused", post("Transfer-Encoding: gzip, chunked\r\n", ""), refused("501 Not Implemented")},
		{"two codings are refused", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", ""), bad},
		{"a coding before HTTP/1.1 is refused", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", bad},
		{"a folded line is refused", get("X-A: b\r\n c\r\n"), bad},
		{"a bare CR in a value is refused", get("X-A: b\rc\r\n"), bad},
		{"a bare LF as line end is refused", "GET /a HTTP/1.1\nHost: h\n\n", bad},
		{"a bare LF behind a field is refused", get("X-A: b\nX-B: c\r\n"), bad},
		{"a NUL is refused", get("X-A: b\x00c\r\n"), bad},
		{"a space before the colon is refused", get("X-A : b\r\n"), bad},
		{"a space before the name is refused", "GET /head HTTP/1.1\r\n Host: h\r\n\r\n", bad},
		{"an invalid name is refused", get("X(A): b\r\n"), bad},
		{"an empty name is refused", get(": b\r\n"), bad},
		{"a line without a colon is refused", get("X-A\r\n"), bad},
		{"a missing host is refused", "GET /a HTTP/1.1\r\n\r\n", bad},
		{"two hosts are refused", "GET /a HTTP/1.1\r\n" + host + host + "\r\n", bad},
		{"a malformed host is refused", "GET /a HTTP/1.1\r\nHost: a b\r\n\r\n", bad},
		{"a control character in the target is refused", "GET /a\x01 HTTP/1.1\r\n" + host + "\r\n", bad},
		{"raw UTF-8 in the target is refused", "GET /ä HTTP/1.1\r\n" + host + "\r\n", bad},
		{"a broken escape in the path is refused", "GET /%4 HTTP/1.1\r\n" + host + "\r\n", bad},
		{"a fragment in the target is refused", "GET /a#b HTTP/1.1\r\n" + host + "\r\n", bad},
		{"a relative target is refused", "GET a HTTP/1.1\r\n" + host + "\r\n", bad},
		{"a target is required", "GET HTTP/1.1\r\n" + host + "\r\n", bad},
		{"two spaces in the request line are refused", "GET  /a HTTP/1.1\r\n" + host + "\r\n", bad},
		{"HTTP/0.9 is refused", "GET /a\r\n\r\n", bad},
		{"another version is refused", "GET /a HTTP/3.0\r\n" + host + "\r\n", refused("505 HTTP Version Not Supported")},
		{"HTTP/2 later than at the start is refused", "GET /a HTTP/1.1\r\n" + host + "\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ok("/a") + refused("505 HTTP Version Not Supported")},
		{"TLS on the clear-text port is refused", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", bad},
		{"a forbidden trailer is refused", post("Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n", "0\r\n\r\n"), bad},
		{"a request without an end gets no answer", "GET /a HTTP/1.1\r\nHost: h\r\n", ""},

		{"a chunk size with a sign is refused", post("Transfer-Encoding: chunked\r\n", "+3\r\nabc\r\n0\r\n\r\n"), malformedBody},
		{"a chunk size with a prefix is refused", post("Transfer-Encoding: chunked\r\n", "0x3\r\nabc\r\n0\r\n\r\n"), malformedBody},
		{"a chunk without a size is refused", post("Transfer-Encoding: chunked\r\n", "\r\nabc\r\n0\r\n\r\n"), malformedBody},
		{"a chunk size that overflows is refused", post("Transfer-Encoding: chunked\r\n", "ffffffffffffffff\r\n"), malformedBody},
		{"a chunk size of 17 digits is refused", post("Transfer-Encoding: chunked\r\n", "00000000000000003\r\nabc\r\n0\r\n\r\n"), malformedBody},
		{"a chunk longer than its size is refused", post("Transfer-Encoding: chunked\r\n", "3\r\nabcd\r\n0\r\n\r\n"), malformedBody},
		{"a chunk line with a bare LF is refused", post("Transfer-Encoding: chunked\r\n", "3\nabc\r\n0\r\n\r\n"), malformedBody},
		{"a chunk extension with a bare CR is refused", post("Transfer-Encoding: chunked\r\n", "3;a\rb\r\nabc\r\n0\r\n\r\n"), malformedBody},
		{"a long chunk extension is refused", post("Transfer-Encoding: chunked\r\n", "3;"+strings.Repeat("x", 1100)+"\r\nabc\r\n0\r\n\r\n"), malformedBody},
		{"long chunk extensions together are refused", post("Transfer-Encoding: chunked\r\n", strings.Repeat("1;"+strings.Repeat("x", 900)+"\r\na\r\n", 10)+"0\r\n\r\n"), malformedBody},
		{"a malformed trailer is refused", post("Transfer-Encoding: chunked\r\n", "0\r\nX A: 1\r\n\r\n"), malformedBody},
		{"long trailers are refused", post("Transfer-Encoding: chunked\r\n", "0\r\n"+strings.Repeat("X-A: 0123456789\r\n", 300)+"\r\n"), malformedBody},
		{"a truncated body is the handler's error", post("Content-Length: 3\r\n", "ab"), "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 14\r\n\r\nunexpected EOF"},
		{"a truncated chunk is the handler's error", post("Transfer-Encoding: chunked\r\n", "3\r\nab"), "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 14\r\n\r\nunexpected EOF"},
		{"a truncated chunk size is the handler's error", post("Transfer-Encoding: chunked\r\n", "3"), "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 14\r\n\r\nunexpected EOF"},
		{"a long target is refused", "GET /" + strings.Repeat("a", 8<<10) + " HTTP/1.1\r\n" + host + "\r\n", refused("414 Request URI Too Long")},
		{"a target without an end is refused", "GET /" + strings.Repeat("a", 33<<10), refused("414 Request URI Too Long")},
		{"a long field is refused", get("X-A: " + strings.Repeat("a", 32<<10) + "\r\n"), refused("431 Request Header Fields Too Large")},
		{"101 fields are refused", get(strings.Repeat("X-A: a\r\n", 100)), refused("431 Request Header Fields Too Large")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := exchangeRaw(t, addr, tt.in); got != tt.want {
				t.Errorf("sent %q\n got %q\nwant %q", clip(tt.in), clip(got), clip(tt.want))
			}
		})
	}
	t.Run("the largest head and target pass", func(t *testing.T) {
		target := "/" + strings.Repeat("a", 8<<10-1)
		if got := exchangeRaw(t, addr, "GET "+target+" HTTP/1.1\r\n"+host+strings.Repeat("X-A: "+strings.Repeat("b", 200)+"\r\n", 99)+"\r\n"); got != ok(target) {
			t.Errorf("got %q", clip(got))
		}
	})
	t.Run("byte by byte makes no difference", func(t *testing.T) {
		c := dial(t, addr)
		in := post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n") + post("Content-Length: 2\r\n", "xy")
		for i := range in {
			if _, err := c.Write([]byte(in[i : i+1])); err != nil {
				t.Fatal(err)
			}
		}
		c.CloseWrite()
		if got := readRest(t, c); got != echo(-1, "abc")+echo(2, "xy") {
			t.Errorf("got %q", got)
		}
	})
}

const malformedBody = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 43\r\n\r\nrequest body is not framed as RFC 9112 says"

func clip(s string) string {
	if len(s) > 600 {
		return s[:300] + "…" + s[len(s)-300:]
	}
	return s
}

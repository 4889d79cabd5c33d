package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"testing"
	"time"
)

// memConn is a connection whose client has sent everything and gone.
type memConn struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (m *memConn) Read(p []byte) (int, error)       { return m.in.Read(p) }
func (m *memConn) Write(p []byte) (int, error)      { return m.out.Write(p) }
func (m *memConn) Close() error                     { return nil }
func (m *memConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (m *memConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (m *memConn) SetDeadline(time.Time) error      { return nil }
func (m *memConn) SetReadDeadline(time.Time) error  { return nil }
func (m *memConn) SetWriteDeadline(time.Time) error { return nil }

// taken is a request as a handler saw it.
type taken struct {
	req     Request
	fields  []Field
	body    []byte
	bodyErr error
}

// serveBytes runs the lean loop over raw and returns the requests it took.
func serveBytes(raw []byte) (got []taken, out []byte) {
	s := &Server{Logger: quiet, limits: Limits{}.withDefaults(), h2c: newOffered(nil)}
	s.h2c.Close()
	s.Handler = HandlerFunc(func(e Exchange) {
		g := taken{req: *e.Request(), fields: slices.Clone(e.Request().Header.fields)}
		g.body, g.bodyErr = e.ReadBody(nil, 1<<20)
		got = append(got, g)
		e.Respond(200, nil)
	})
	nc := &memConn{in: bytes.NewReader(raw)}
	newConn(s, nc).serve()
	return got, nc.out.Bytes()
}

// FuzzRequests: what the lean loop takes, net/http's parser takes too and sees
// the same in: the strict reader's requests are a prefix of the lenient one's.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		"GET /a?b HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\nGET / HTTP/1.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "GET http://u:1/x?y HTTP/1.1\r\nHost: h\r\n\r\n", "GET http://[::1]/ HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
		"PUT /%41 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx", "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET //a/../b HTTP/1.1\r\nHost:\r\nTrailer: a\r\n\r\n", "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, out := serveBytes(raw)
		br := bufio.NewReaderSize(bytes.NewReader(raw), 1<<16)
		for i, g := range got {
			skipCRLF(br)
			want, err := http.ReadRequest(br)
			if err != nil {
				t.Fatalf("request %d of %q was taken; net/http: %v", i, raw, err)
			}
			compareHeads(t, raw, g, want)
			body, err := io.ReadAll(io.LimitReader(want.Body, 1<<20+1))
			if g.bodyErr != nil {
				return // the connection ended here
			}
			if err != nil || !bytes.Equal(body, g.body) {
				t.Fatalf("request %d of %q: body %q, net/http %q, %v", i, raw, g.body, body, err)
			}
		}
		checkAnswers(t, out, len(got))
	})
}

func skipCRLF(br *bufio.Reader) {
	for range 2 {
		if p, err := br.Peek(2); err != nil || string(p) != "\r\n" {
			return
		}
		br.Discard(2)
	}
}

func compareHeads(t *testing.T, raw []byte, g taken, want *http.Request) {
	t.Helper()
	path := g.req.Target
	if g.req.HasQuery {
		path += "?" + g.req.RawQuery
	}
	absolute := want.URL.Host != ""
	uri := want.RequestURI
	if absolute {
		uri = want.URL.RequestURI()
	}
	if g.req.Method != want.Method || !absolute && path != uri || g.req.Host != want.Host ||
		g.req.Major != want.ProtoMajor || g.req.Minor != want.ProtoMinor || g.req.ContentLength != want.ContentLength {
		t.Fatalf("%q:\nlean %+v\nstd  %s %s %s %d", raw, g.req, want.Method, uri, want.Host, want.ContentLength)
	}
	if absolute && want.URL.Path != "" && want.URL.EscapedPath() != g.req.Target {
		t.Fatalf("%q: path %q, net/http %q", raw, g.req.Target, want.URL.EscapedPath())
	}
	n := 0
	for name, values := range want.Header {
		if connectionField(name) != fieldOther {
			continue
		}
		n += len(values)
		if lean := (Header{g.fields}).Values(name); !slices.Equal(lean, values) {
			t.Fatalf("%q: %s is %q, net/http %q", raw, name, lean, values)
		}
	}
	if n != len(g.fields) {
		t.Fatalf("%q: %d fields, net/http %d", raw, len(g.fields), n)
	}
}

// checkAnswers: every taken request has one answer, in HTTP's form, and at most a
// refusal follows.
func checkAnswers(t *testing.T, out []byte, requests int) {
	t.Helper()
	br := bufio.NewReader(bytes.NewReader(out))
	answers := 0
	for {
		resp, err := http.ReadResponse(br, nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			t.Fatalf("answers %q: %v", out, err)
		}
		io.Copy(io.Discard, resp.Body)
		if resp.StatusCode == 100 {
			continue
		}
		if answers++; answers > requests && resp.StatusCode < 400 {
			t.Fatalf("%d requests, answers %q", requests, out)
		}
	}
	if answers < requests || answers > requests+1 {
		t.Fatalf("%d requests, %d answers %q", requests, answers, out)
	}
}

// FuzzFields: a field line that is taken is one that textproto takes, with the
// same value, and never more than one line.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{"A: b", "A:\t b \t", "A :b", " A: b", "A: b\rc", "Ä: x", "A: \xe4", ":", "A"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		name, value, ok := splitField(line)
		if !ok {
			return
		}
		h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader([]byte(line + "\r\n\r\n")))).ReadMIMEHeader()
		if err != nil || len(h) != 1 || h.Get(name) != value {
			t.Fatalf("%q is %q: %q; textproto %q, %v", line, name, value, h, err)
		}
	})
}

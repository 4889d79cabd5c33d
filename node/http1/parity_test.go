package http1

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testCertificate(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// side is one way to reach the same handler.
type side struct {
	name   string
	base   string
	client *http.Client
	proto  string
}

func sides(t *testing.T, h Handler, lim Limits) []side {
	t.Helper()
	s, addr := startServer(t, h, lim)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLS(l, testCertificate(t)) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("ServeTLS returned %v", err)
		}
	})
	client := func(set func(*http.Protocols)) *http.Client {
		var p http.Protocols
		set(&p)
		tr := &http.Transport{Protocols: &p, DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ExpectContinueTimeout: testWait}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr, Timeout: testWait, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	secure := "https://" + l.Addr().String()
	return []side{
		{"lean", "http://" + addr, client(func(p *http.Protocols) { p.SetHTTP1(true) }), "HTTP/1.1"},
		{"h2c", "http://" + addr, client(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }), "HTTP/2.0"},
		{"tls", secure, client(func(p *http.Protocols) { p.SetHTTP1(true) }), "HTTP/1.1"},
		{"tls h2", secure, client(func(p *http.Protocols) { p.SetHTTP2(true) }), "HTTP/2.0"},
	}
}

// seen is what a client sees of an answer.
type seen struct {
	Status  int
	Header  http.Header
	Length  int64
	Body    string
	BodyErr bool
}

func ask(t *testing.T, sd side, method, target string, body io.Reader, length int64, fields ...string) seen {
	t.Helper()
	req, err := http.NewRequest(method, sd.base+target, body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = length
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	req.Header.Set("User-Agent", "test")
	resp, err := sd.client.Do(req)
	if err != nil {
		t.Fatalf("%s: %s %s: %v", sd.name, method, target, err)
	}
	defer resp.Body.Close()
	if resp.Proto != sd.proto {
		t.Fatalf("%s speaks %s", sd.name, resp.Proto)
	}
	got, err := io.ReadAll(resp.Body)
	resp.Header.Del("Date")
	resp.Header.Del("Connection")
	return seen{resp.StatusCode, resp.Header, resp.ContentLength, string(got), err != nil}
}

// TestEveryServerAnswersAlike runs one table over the lean loop and over
// net/http with each protocol.
func TestEveryServerAnswersAlike(t *testing.T) {
	all := sides(t, HandlerFunc(func(e Exchange) {
		if e.Request().Target == "/facts" {
			facts(e)
			return
		}
		testHandler(e)
	}), Limits{})
	big := bytes.Repeat([]byte("y"), 200<<10)
	tests := []struct {
		name, method, target string
		body                 func() io.Reader
		length               int64
		fields               []string
	}{
		{name: "a plain answer", method: "GET", target: "/a"},
		{name: "the request's facts", method: "POST", target: "/facts?b=%20&a", fields: []string{"X-One", " a ", "X-Two", "1", "X-Two", "2", "Authorization", "Bearer x"}},
		{name: "an escaped target", method: "GET", target: "/a%2Fb%C3%A4?x=%00"},
		{name: "a method of its own", method: "BREW", target: "/a"},
		{name: "OPTIONS", method: "OPTIONS", target: "/a"},
		{name: "HEAD", method: "HEAD", target: "/a"},
		{name: "HEAD without a body", method: "HEAD", target: "/fields"},
		{name: "HEAD of a stream", method: "HEAD", target: "/stream"},
		{name: "204", method: "GET", target: "/empty"},
		{name: "answer fields", method: "GET", target: "/fields"},
		{name: "no answer", method: "GET", target: "/nothing"},
		{name: "a panic", method: "GET", target: "/panic"},
		{name: "a stream", method: "GET", target: "/stream"},
		{name: "an aborted stream", method: "GET", target: "/abort"},
		{name: "a panic in a stream", method: "GET", target: "/panic-late"},
		{name: "a large answer", method: "GET", target: "/large"},
		{name: "a body", method: "POST", target: "/echo", body: func() io.Reader { return bytes.NewReader(big) }, length: int64(len(big))},
		{name: "a body of unknown length", method: "POST", target: "/echo", body: func() io.Reader { return bytes.NewReader(big) }, length: -1},
		{name: "an expected body", method: "POST", target: "/echo", body: func() io.Reader { return bytes.NewReader(big) }, length: int64(len(big)), fields: []string{"Expect", "100-continue"}},
		{name: "an unread body", method: "POST", target: "/unread", body: func() io.Reader { return bytes.NewReader(big) }, length: int64(len(big))},
		{name: "a body over its bound", method: "POST", target: "/echo", body: func() io.Reader { return io.LimitReader(endless{}, 1<<20+1) }, length: 1<<20 + 1},
		{name: "a body of unknown length over its bound", method: "POST", target: "/echo", body: func() io.Reader { return io.LimitReader(endless{}, 1<<20+1) }, length: -1},
		{name: "a body at its bound", method: "POST", target: "/echo", body: func() io.Reader { return io.LimitReader(endless{}, 1<<20) }, length: -1},
		{name: "a body over the bound and expected", method: "POST", target: "/echo", body: func() io.Reader { return io.LimitReader(endless{}, 1<<20+1) }, length: 1<<20 + 1, fields: []string{"Expect", "100-continue"}},
		{name: "too many fields", method: "GET", target: "/a", fields: slices.Repeat([]string{"X-A", "b"}, 101)},
		{name: "a long target", method: "GET", target: "/" + strings.Repeat("a", 8<<10)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var first seen
			for i, sd := range all {
				var body io.Reader
				if tt.body != nil {
					body = tt.body()
				}
				got := ask(t, sd, tt.method, tt.target, body, tt.length, tt.fields...)
				if i == 0 {
					first = got
					t.Logf("%d, %d bytes, %v", got.Status, len(got.Body), got.Header)
					continue
				}
				if diff := cmp.Diff(first, got); diff != "" {
					t.Errorf("%s and %s differ:\n%s", all[0].name, sd.name, diff)
				}
			}
		})
	}
}

// facts answers with all that a handler can know of the request, but for what the
// protocols tell differently.
func facts(e Exchange) {
	r := e.Request()
	var lines []string
	for i := range r.Header.Len() {
		f := r.Header.At(i)
		if !sameName(f.Name, "Accept-Encoding") {
			lines = append(lines, http.CanonicalHeaderKey(f.Name)+"="+f.Value)
		}
	}
	slices.Sort(lines)
	host, _, _ := net.SplitHostPort(r.Remote)
	lines = append(lines, r.Method, r.Target, r.RawQuery, strconv.FormatBool(r.HasQuery), strconv.FormatInt(r.ContentLength, 10), host,
		strings.Join(r.Header.Values("x-two"), ","), r.Header.Get("X-ONE"), strconv.Itoa(r.Header.Count("X-Two")), strconv.FormatBool(r.Header.Has("X-Three")))
	name, _, _ := strings.Cut(r.Host, ":")
	e.Respond(200, []byte(strings.Join(append(lines, name), "\n")))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestEveryServerNoticesThatTheClientLeft(t *testing.T) {
	left := make(chan struct{})
	for _, sd := range sides(t, HandlerFunc(func(e Exchange) {
		done := e.Done()
		w := e.Stream(200)
		io.WriteString(w, "x")
		w.Flush()
		<-done
		left <- struct{}{}
	}), Limits{}) {
		t.Run(sd.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testWait)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", sd.base+"/", nil)
			resp, err := sd.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			io.ReadFull(resp.Body, make([]byte, 1))
			cancel()
			resp.Body.Close()
			select {
			case <-left:
			case <-time.After(testWait):
				t.Fatal("the handler never learned")
			}
		})
	}
}

func TestEveryServerCutsOffASlowBody(t *testing.T) {
	for _, sd := range sides(t, HandlerFunc(testHandler), Limits{BodyIdleTimeout: 100 * time.Millisecond}) {
		t.Run(sd.name, func(t *testing.T) {
			pr, pw := io.Pipe()
			defer pw.Close()
			go pw.Write([]byte("x"))
			if got := ask(t, sd, "POST", "/echo", pr, 10); got.Status != 408 {
				t.Errorf("got %d %q", got.Status, got.Body)
			}
		})
	}
}

func TestEveryServerKeepsAHandlerWaitingAfterItsBody(t *testing.T) {
	lim := Limits{BodyIdleTimeout: 50 * time.Millisecond}
	for _, sd := range sides(t, HandlerFunc(func(e Exchange) {
		e.ReadBody(nil, 100)
		select {
		case <-e.Done():
			e.Respond(500, nil)
		case <-time.After(4 * lim.BodyIdleTimeout):
			e.Respond(200, nil)
		}
	}), lim) {
		t.Run(sd.name, func(t *testing.T) {
			if got := ask(t, sd, "POST", "/", strings.NewReader("abc"), 3); got.Status != 200 {
				t.Errorf("got %d: the body's deadline outlived the body", got.Status)
			}
		})
	}
}

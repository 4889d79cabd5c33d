package streamhttp

import (
	"strings"
	"testing"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
)

// What a path names is inside the grammar of extensions 1.1, whatever was sent.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"/demo/s", "/demo", "/", "*", "", "/demo/a%2Fb", "/demo/%", "/demo/%4", "/d%65mo/%e6%97%a5", "/demo/..", "/a/b/c", "/demo/$x", "//", "/demo//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		r, err := parseTarget(target)
		if err != nil {
			if _, ok := err.(*protocol.Error); !ok {
				t.Fatalf("error without a code: %v", err)
			}
			return
		}
		if r.kind == routeBucket || r.kind == routeStream {
			if err := protocol.ValidBucket(r.key.Bucket); err != nil {
				t.Fatalf("%q: bucket %q: %v", target, r.key.Bucket, err)
			}
		}
		if r.kind == routeStream {
			if err := protocol.ValidStream(r.key.Bucket, r.key.Stream); err != nil {
				t.Fatalf("%q: stream %q: %v", target, r.key.Stream, err)
			}
		}
	})
}

func FuzzParseReadQuery(f *testing.F) {
	for _, s := range []string{"", "offset=-1", "offset=now&live=sse", "live=long-poll&offset=0&timeout_ms=5&cursor=7", "offset=%31&max_bytes=0",
		"&&=&a", "offset=1&offset=2", "%6cive=sse", "offset=%", "consistency=leader", "max_bytes=99999999999999999999", "aligned", "offset=+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseReadQuery(raw)
		if err != nil {
			if _, ok := err.(*protocol.Error); !ok {
				t.Fatalf("error without a code: %v", err)
			}
			return
		}
		if q.maxBytes < 1 || q.maxBytes > protocol.ReadCap {
			t.Fatalf("max_bytes %d out of bounds", q.maxBytes)
		}
		if q.timeout < protocol.MinTimeout || q.timeout > protocol.MaxTimeout {
			t.Fatalf("timeout %v out of bounds", q.timeout)
		}
		if q.position.Offset > protocol.MaxOffset || q.live != protocol.NotLive && !q.position.Given {
			t.Fatalf("position %+v of %q", q.position, raw)
		}
	})
}

// Whatever the header of a write is, the command made of it can be encoded and
// says what the header says once.
func FuzzWriteHeaders(f *testing.F) {
	f.Add("Content-Type", "text/plain", "Producer-Id", "p", "stream-seq", "1")
	f.Add("Stream-TTL", "60", "Stream-Expires-At", "2030-01-01T00:00:00Z", "Stream-Closed", "TRUE")
	f.Add("Producer-Epoch", "1", "PRODUCER-SEQ", "2", "Producer-ID", "x")
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2, n3, v3 string) {
		fields := []http1.Field{{Name: n1, Value: v1}, {Name: n2, Value: v2}, {Name: n3, Value: v3}}
		req := &http1.Request{Header: http1.NewHeader(fields...)}
		hd := collectWriteHeaders(req.Header)
		for name, l := range map[string]*list{
			protocol.HeaderContentType: &hd.contentType, protocol.HeaderStreamClosed: &hd.closed, protocol.HeaderStreamSeq: &hd.seq,
			protocol.HeaderProducerID: &hd.producerID, protocol.HeaderProducerEpoch: &hd.producerEpoch, protocol.HeaderProducerSeq: &hd.producerSeq,
			protocol.HeaderStreamTTL: &hd.ttl, protocol.HeaderStreamExpiresAt: &hd.expiresAt,
		} {
			want := req.Header.Values(name)
			if len(want) > 2 {
				want = want[:2]
			}
			if strings.Join(l.values(), "\x00") != strings.Join(want, "\x00") || l.n != len(want) {
				t.Fatalf("%s: collected %q, header has %q", name, l.values(), want)
			}
		}
		w := new(write)
		if _, err := w.readAppendHeaders(req); err == nil && w.cmd.Producer != nil && (w.producer.ID == "" || w.producer.Epoch > protocol.MaxInteger) {
			t.Fatalf("producer %+v accepted", w.producer)
		}
		w = new(write)
		if err := w.readCreateHeaders(req); err == nil && protocol.MediaType(w.cmd.ContentType) == "" {
			t.Fatalf("a stream of no media type: %q", w.cmd.ContentType)
		}
	})
}

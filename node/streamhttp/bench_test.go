package streamhttp

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/stream"
)

// nullEngine applies nothing: what is left is the handler's own cost.
type nullEngine struct{ result stream.Result }

func (e *nullEngine) ClusterID() string { return "c" }
func (e *nullEngine) Now() time.Time    { return time.Now() }
func (e *nullEngine) Locate(stream.Key) Location {
	return Location{Group: 1, Hosted: true, Leads: true}
}
func (e *nullEngine) Propose(context.Context, uint32, *stream.Command) (stream.Result, error) {
	return e.result, nil
}
func (e *nullEngine) Confirm(context.Context, uint32) error { return nil }
func (e *nullEngine) Lookup(uint32, stream.Key) (*stream.Stream, error) {
	return e.result.Stream, nil
}
func (e *nullEngine) Read(dst []byte, _ uint32, _ stream.ID, from, to uint64) ([]byte, error) {
	return append(dst, make([]byte, to-from)...), nil
}
func (e *nullEngine) Watch(uint32, stream.ID) *live.Watch             { return nil }
func (e *nullEngine) Touch(context.Context, uint32, stream.ID) error  { return nil }
func (e *nullEngine) Expire(context.Context, uint32, stream.ID) error { return nil }

// nullExchange is a request that is there already and an answer nobody reads.
type nullExchange struct {
	req    http1.Request
	body   string
	out    [32]http1.Field
	n      int
	bytes  [256]byte
	status int
}

func (x *nullExchange) Request() *http1.Request { return &x.req }
func (x *nullExchange) LimitBody(int64)         {}
func (x *nullExchange) Body() io.Reader         { return strings.NewReader(x.body) }
func (x *nullExchange) ReadBody(dst []byte, _ int64) ([]byte, error) {
	return append(dst, x.body...), nil
}
func (x *nullExchange) SetHeader(name, value string) {
	x.out[x.n] = http1.Field{Name: name, Value: value}
	x.n++
}
func (x *nullExchange) AddHeader(name, value string)          { x.SetHeader(name, value) }
func (x *nullExchange) SetHeaderBytes(_ string, value []byte) { copy(x.bytes[:], value) }
func (x *nullExchange) SetHeaderInt(string, int64)            {}
func (x *nullExchange) AddBlock(*http1.Block)                 {}
func (x *nullExchange) Respond(status int, _ []byte)          { x.status, x.n = status, 0 }
func (x *nullExchange) Stream(int) http1.StreamWriter         { panic("not streamed") }
func (x *nullExchange) Done() <-chan struct{}                 { return nil }

func BenchmarkAppend(b *testing.B) {
	rec := &stream.Stream{ID: 1, ContentType: "text/plain", Tail: 1 << 30}
	producer := &stream.Producer{Epoch: 1, Seq: 9}
	plain := []http1.Field{{Name: "User-Agent", Value: "bench"}, {Name: "Accept", Value: "*/*"}, {Name: "Content-Type", Value: "text/plain"}}
	keyed := append(plain[:3:3], http1.Field{Name: "Producer-Id", Value: "p"}, http1.Field{Name: "Producer-Epoch", Value: "1"}, http1.Field{Name: "Producer-Seq", Value: "9"})
	json := []http1.Field{plain[0], plain[1], {Name: "Content-Type", Value: "application/json"}}
	object := `{"name":"` + strings.Repeat("v", 200) + `", "n": 12345, "list": [1, 2, 3]}`
	for _, c := range []struct {
		name   string
		fields []http1.Field
		body   string
		result stream.Result
		status int
	}{
		{"text256", plain, strings.Repeat("x", 256), stream.Result{Outcome: stream.Appended, Stream: rec, End: 256}, 204},
		{"producer256", keyed, strings.Repeat("x", 256), stream.Result{Outcome: stream.Appended, Stream: rec, End: 256, Producer: producer}, 200},
		{"json256", json, object, stream.Result{Outcome: stream.Appended, Stream: rec, End: 256}, 204},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := New(&nullEngine{result: c.result}, Config{})
			x := &nullExchange{body: c.body, req: http1.Request{Method: "POST", Target: "/demo/stream-1", Major: 1, Minor: 1,
				ContentLength: int64(len(c.body)), Header: http1.NewHeader(c.fields...)}}
			b.ReportAllocs()
			for b.Loop() {
				h.Serve(x)
			}
			if x.status != c.status {
				b.Fatalf("status %d, want %d", x.status, c.status)
			}
		})
	}
}

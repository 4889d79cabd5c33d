package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeServer is as much of a Durable Streams server as the scenarios need.
type fakeServer struct {
	mu       sync.Mutex
	streams  map[string]*fakeStream
	page     int                                           // bytes of one read, 0: all
	sseLimit int                                           // appends after which a live read ends, 0: none
	before   func(http.ResponseWriter, *http.Request) bool // answers instead, when it returns true
}

type fakeStream struct {
	data    []byte
	appends int
	changed chan struct{}
}

func startFake(t *testing.T, f *fakeServer) string {
	t.Helper()
	f.streams = make(map[string]*fakeStream)
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return srv.URL
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.before != nil && f.before(w, r) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	st := f.streams[r.URL.Path]
	switch r.Method {
	case "PUT":
		f.streams[r.URL.Path] = &fakeStream{changed: make(chan struct{})}
		f.mu.Unlock()
		w.WriteHeader(201)
		return
	case "POST":
		st.data = append(st.data, body...)
		st.appends++
		close(st.changed)
		st.changed = make(chan struct{})
		f.mu.Unlock()
		w.WriteHeader(204)
		return
	}
	f.mu.Unlock()
	at, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	at = max(at, 0)
	if r.URL.Query().Get("live") == "sse" {
		f.serveSSE(w, r, st, at)
		return
	}
	f.mu.Lock()
	rest := st.data[at:]
	f.mu.Unlock()
	if f.page > 0 && len(rest) > f.page {
		rest = rest[:f.page]
	} else {
		w.Header().Set("Stream-Up-To-Date", "true")
	}
	w.Header().Set("Stream-Next-Offset", strconv.Itoa(at+len(rest)))
	w.Write(rest)
}

func (f *fakeServer) serveSSE(w http.ResponseWriter, r *http.Request, st *fakeStream, at int) {
	w.Header().Set("Content-Type", "text/event-stream")
	for sent := 0; ; {
		f.mu.Lock()
		fresh, changed := st.data[at:], st.changed
		f.mu.Unlock()
		if len(fresh) > 0 {
			fmt.Fprint(w, "event: data\n")
			for line := range strings.SplitSeq(string(fresh), "\n") {
				fmt.Fprintf(w, "data:%s\n", line)
			}
			fmt.Fprint(w, "\n")
			at += len(fresh)
			sent++
		}
		fmt.Fprintf(w, "event: control\ndata:{\"streamNextOffset\":\"%d\",\"upToDate\":true}\n\n", at)
		w.(http.Flusher).Flush()
		if f.sseLimit > 0 && sent >= f.sseLimit {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fakeServer) totalAppends() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, st := range f.streams {
		n += st.appends
	}
	return n
}

const brief = 200 * time.Millisecond

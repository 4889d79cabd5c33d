package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestMultiStreamCountsWhatTheServerGot(t *testing.T) {
	f := &fakeServer{}
	url := startFake(t, f)
	r, err := RunMultiStream(context.Background(), MultiStream{
		Options: Options{Targets: []string{url}, PIDs: []int{os.Getpid()}},
		Streams: 5, Bytes: 10, Duration: brief, WarmUp: brief / 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.streams) != 5 {
		t.Errorf("%d streams, want 5", len(f.streams))
	}
	for path, st := range f.streams {
		if !strings.HasPrefix(path, "/bench/") || len(st.data) != 10*st.appends || st.appends == 0 {
			t.Errorf("stream %s: %d bytes in %d appends", path, len(st.data), st.appends)
		}
	}
	if r.Requests == 0 || int(r.Requests) > f.totalAppends() || len(r.Errors) > 0 {
		t.Errorf("counted %d of %d, errors %v", r.Requests, f.totalAppends(), r.Errors)
	}
	if r.Latency.P50 <= 0 || r.Latency.P99 < r.Latency.P50 || r.Usage.ClientCPUPerRequest <= 0 || r.Usage.ServerRSSBytes <= 0 {
		t.Errorf("implausible report %+v", r)
	}
}

func TestMultiStreamRemembersTheLeader(t *testing.T) {
	leader := &fakeServer{}
	leaderURL := startFake(t, leader)
	var redirects atomic.Int64
	follower := &fakeServer{before: func(w http.ResponseWriter, r *http.Request) bool {
		redirects.Add(1)
		w.Header().Set("Location", leaderURL+r.URL.RequestURI())
		w.WriteHeader(307)
		return true
	}}
	r, err := RunMultiStream(context.Background(), MultiStream{
		Options: Options{Targets: []string{startFake(t, follower)}},
		Streams: 3, Duration: brief, WarmUp: brief / 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := redirects.Load(); got != 3 {
		t.Errorf("%d redirects for 3 streams, want one each", got)
	}
	if r.Requests == 0 || len(r.Errors) != 0 {
		t.Errorf("%d appends, errors %v", r.Requests, r.Errors)
	}
}

func TestMultiStreamCountsRefusalsByStatus(t *testing.T) {
	f := &fakeServer{before: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "POST" {
			return false
		}
		w.WriteHeader(503)
		return true
	}}
	r, err := RunMultiStream(context.Background(), MultiStream{
		Options: Options{Targets: []string{startFake(t, f)}, PathPrefix: "/v1/stream/", Bucket: "-"},
		Streams: 2, Duration: brief, WarmUp: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 0 || r.Errors["503"] == 0 || r.Errors["503"] > 200 {
		t.Errorf("%d appends, errors %v", r.Requests, r.Errors)
	}
	for path := range f.streams {
		if !strings.HasPrefix(path, "/v1/stream/") || strings.Count(path, "/") != 3 {
			t.Errorf("path %s", path)
		}
	}
}

func TestFanOutDeliversEveryEventToEveryReader(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit int
	}{{"over one live read", 0}, {"over live reads that the server ends", 3}} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeServer{sseLimit: tt.limit}
			r, err := RunFanOut(context.Background(), FanOut{
				Options: Options{Targets: []string{startFake(t, f)}}, Subscribers: 7, Rate: 100, Duration: brief,
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Expected != 7*20 || r.Requests != r.Expected || len(r.Errors) != 0 {
				t.Errorf("delivered %d of %d, errors %v", r.Requests, r.Expected, r.Errors)
			}
			if (tt.limit > 0) != (r.Params["reconnects"] != "0") {
				t.Errorf("%s reconnects", r.Params["reconnects"])
			}
		})
	}
}

func TestReplayReadsEveryByte(t *testing.T) {
	f := &fakeServer{page: 1000}
	o := Replay{Options: Options{Targets: []string{startFake(t, f)}}, Clients: 4, Events: 50, Bytes: 100, Batch: 7}
	r, err := RunReplay(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 4 || r.Expected != 4 || len(r.Errors) != 0 {
		t.Errorf("%d of %d clients, errors %v", r.Requests, r.Expected, r.Errors)
	}
	if want := 4 * 5000 / 1e6; r.MBPerSec*r.Seconds < want*0.999 || r.MBPerSec*r.Seconds > want*1.001 {
		t.Errorf("%.4f MB, want %.4f", r.MBPerSec*r.Seconds, want)
	}
}

func TestReplayReportsWhatIsMissing(t *testing.T) {
	f := &fakeServer{before: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == "GET" {
			w.Header().Set("Stream-Up-To-Date", "true")
			w.Write([]byte("short"))
			return true
		}
		return false
	}}
	r, err := RunReplay(context.Background(), Replay{Options: Options{Targets: []string{startFake(t, f)}}, Clients: 3, Events: 2})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 0 || r.Errors["wrong length"] != 3 {
		t.Errorf("%d done, errors %v", r.Requests, r.Errors)
	}
}

func TestSetUpFailuresAreErrors(t *testing.T) {
	refusing := startFake(t, &fakeServer{before: func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(400)
		return true
	}})
	for _, tt := range []struct {
		name    string
		targets []string
		want    string
	}{
		{"no target", nil, "no target"},
		{"a target of another scheme", []string{"ftp://h"}, "want http://"},
		{"a server that refuses the create", []string{refusing}, "status 400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Targets: tt.targets}
			_, err1 := RunMultiStream(context.Background(), MultiStream{Options: o, Streams: 1})
			_, err2 := RunFanOut(context.Background(), FanOut{Options: o})
			_, err3 := RunReplay(context.Background(), Replay{Options: o})
			for _, err := range []error{err1, err2, err3} {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			}
		})
	}
}

func TestCancelEndsARun(t *testing.T) {
	url := startFake(t, &fakeServer{})
	ctx, cancel := context.WithTimeout(context.Background(), brief/2)
	defer cancel()
	if _, err := RunMultiStream(ctx, MultiStream{Options: Options{Targets: []string{url}}, Streams: 3}); err == nil {
		t.Error("a cancelled run returned no error")
	}
}

func TestReportFormats(t *testing.T) {
	r := &Report{
		Scenario: "multi-stream", Params: map[string]string{"streams": "5", "bytes": "1"}, Seconds: 2, Requests: 10, PerSecond: 5,
		Expected: 20, Errors: map[string]uint64{"503": 2, "307": 1}, Latency: Latency{1, 2, 3, 4},
		Usage: Usage{ServerRSSBytes: 1 << 20, ServerCPUSeconds: 1, ServerCPUPerRequest: 7},
	}
	var text, js bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bytes=1  streams=5", "10 in 2.0 s: 5/s", "20 (50.000 %)", "p50 1.00  p99 2.00  p99.9 3.00  max 4.00", "307: 1 503: 2", "7.0 us each; RSS 1.0 MiB"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q lacks %q", text.String(), want)
		}
	}
	if err := r.WriteJSON(&js); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(js.Bytes(), &back); err != nil || back.Latency != r.Latency || back.Errors["503"] != 2 {
		t.Errorf("%v %+v", err, back)
	}
}

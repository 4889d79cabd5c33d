package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Latency is a distribution in milliseconds.
type Latency struct {
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

func latencyOf(h *histogram) Latency {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	return Latency{ms(h.quantile(0.5)), ms(h.quantile(0.99)), ms(h.quantile(0.999)), ms(time.Duration(h.max.Load()))}
}

// Usage is what the measured seconds cost client and server. The figures a request are
// microseconds of CPU.
type Usage struct {
	ClientCPUSeconds    float64 `json:"client_cpu_s"`
	ClientCPUPerRequest float64 `json:"client_cpu_us_per_request"`
	ServerCPUSeconds    float64 `json:"server_cpu_s,omitempty"`
	ServerCPUPerRequest float64 `json:"server_cpu_us_per_request,omitempty"`
	ServerRSSBytes      int64   `json:"server_rss_bytes,omitempty"`
}

// Report is the result of one run.
type Report struct {
	Scenario string            `json:"scenario"`
	Params   map[string]string `json:"params"`
	Seconds  float64           `json:"seconds"`
	// Requests that succeeded (appends, delivered events or replays), and their rate.
	Requests  uint64            `json:"requests"`
	PerSecond float64           `json:"per_second"`
	MBPerSec  float64           `json:"mb_per_second"`
	Latency   Latency           `json:"latency"`
	Errors    map[string]uint64 `json:"errors"`
	// Expected is what Requests had to reach, where that is known.
	Expected uint64 `json:"expected,omitempty"`
	Usage    Usage  `json:"usage"`
}

// WriteJSON writes the report as one line of JSON.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.f("%s", r.Scenario)
	for _, k := range sortedKeys(r.Params) {
		p.f("  %s=%s", k, r.Params[k])
	}
	p.f("\n")
	p.f("  done        %d in %.1f s: %.0f/s, %.2f MB/s\n", r.Requests, r.Seconds, r.PerSecond, r.MBPerSec)
	if r.Expected > 0 {
		p.f("  expected    %d (%.3f %%)\n", r.Expected, 100*float64(r.Requests)/float64(r.Expected))
	}
	p.f("  latency ms  p50 %.2f  p99 %.2f  p99.9 %.2f  max %.2f\n", r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max)
	if len(r.Errors) == 0 {
		p.f("  errors      none\n")
	} else {
		p.f("  errors     ")
		for _, k := range sortedKeys(r.Errors) {
			p.f(" %s: %d", k, r.Errors[k])
		}
		p.f("\n")
	}
	p.f("  client CPU  %.2f s, %.1f us each\n", r.Usage.ClientCPUSeconds, r.Usage.ClientCPUPerRequest)
	if r.Usage.ServerRSSBytes > 0 {
		p.f("  server CPU  %.2f s, %.1f us each; RSS %.1f MiB\n", r.Usage.ServerCPUSeconds, r.Usage.ServerCPUPerRequest, float64(r.Usage.ServerRSSBytes)/(1<<20))
	}
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// meter measures one phase.
type meter struct {
	pids   []int
	start  time.Time
	self   time.Duration
	server usage
}

func startMeter(pids []int) (*meter, error) {
	u, err := readUsage(pids)
	return &meter{pids: pids, start: time.Now(), self: selfCPU(), server: u}, err
}

// stop fills the report's rates and costs from its Requests and the bytes moved.
func (m *meter) stop(r *Report, bytes int64) error {
	elapsed := time.Since(m.start)
	self := selfCPU() - m.self
	u, err := readUsage(m.pids)
	r.Seconds = elapsed.Seconds()
	r.PerSecond = float64(r.Requests) / r.Seconds
	r.MBPerSec = float64(bytes) / 1e6 / r.Seconds
	r.Usage.ClientCPUSeconds = self.Seconds()
	server := u.cpu - m.server.cpu
	r.Usage.ServerCPUSeconds = server.Seconds()
	r.Usage.ServerRSSBytes = u.rss
	if n := float64(r.Requests); n > 0 {
		r.Usage.ClientCPUPerRequest = float64(self.Microseconds()) / n
		r.Usage.ServerCPUPerRequest = float64(server.Microseconds()) / n
	}
	return err
}

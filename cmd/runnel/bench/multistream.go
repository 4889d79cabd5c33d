package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// MultiStream options: N streams, each with one writer that sends its next
// append when the last was answered.
type MultiStream struct {
	Options
	Streams  int           // [500]
	Bytes    int           // of one append [256]
	Duration time.Duration // measured [30 s]
	WarmUp   time.Duration // before it, not measured [3 s]
	Setup    int           // streams created at the same time [64]
}

func (o MultiStream) withDefaults() MultiStream {
	o.Options = o.Options.withDefaults()
	orInt(&o.Streams, 500)
	orInt(&o.Bytes, 256)
	orInt(&o.Duration, 30*time.Second)
	orInt(&o.WarmUp, 3*time.Second)
	orInt(&o.Setup, 64)
	return o
}

func orInt[T int | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// RunMultiStream runs the scenario. An error means that it could not be set up
// or was cancelled; failed appends are in the report.
func RunMultiStream(ctx context.Context, o MultiStream) (*Report, error) {
	o = o.withDefaults()
	targets, err := o.parsedTargets()
	if err != nil {
		return nil, err
	}
	var tl tally
	sessions := make([]*session, o.Streams)
	for i := range sessions {
		sessions[i] = &session{opts: &o.Options, t: targets[i%len(targets)], path: o.path(i)}
	}
	defer func() {
		for _, s := range sessions {
			s.close()
		}
	}()
	err = inParallel(ctx, o.Setup, len(sessions), func(i int) error { return sessions[i].create(ctx, nil) })
	if err != nil {
		return nil, err
	}

	run := &appendRun{timeout: o.Timeout, fields: "Content-Type: " + o.ContentType + "\r\n", body: appendBody(o.ContentType, o.Bytes), tally: &tl}
	writers, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range sessions {
		wg.Go(func() { run.write(writers, s) })
	}
	defer wg.Wait()
	defer cancel()
	if err := sleep(ctx, o.WarmUp); err != nil {
		return nil, err
	}
	m, err := startMeter(o.PIDs)
	if err != nil {
		return nil, err
	}
	run.measuring.Store(true)
	err = sleep(ctx, o.Duration)
	run.measuring.Store(false)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Scenario: "multi-stream",
		Params: map[string]string{
			"streams": strconv.Itoa(o.Streams), "bytes": strconv.Itoa(len(run.body)), "targets": strconv.Itoa(len(targets)),
		},
		Requests: tl.ok.Load(),
	}
	err = m.stop(r, int64(tl.ok.Load())*int64(len(run.body)))
	r.Latency, r.Errors = latencyOf(&run.latency), tl.errors()
	return r, err
}

// appendBody is one message of n bytes, a JSON text on JSON streams.
func appendBody(contentType string, n int) []byte {
	if contentType == "application/json" {
		n = max(n, 2)
		return []byte(`"` + string(bytes.Repeat([]byte("x"), n-2)) + `"`)
	}
	return bytes.Repeat([]byte("x"), max(n, 1))
}

type appendRun struct {
	timeout   time.Duration
	fields    string
	body      []byte
	measuring atomic.Bool
	latency   histogram
	tally     *tally
}

// write appends to one stream until the context ends.
func (a *appendRun) write(ctx context.Context, s *session) {
	path := s.path
	var req []byte
	pause := time.Duration(0)
	for ctx.Err() == nil {
		if req == nil {
			req = render("POST", path, s.t.host, a.fields, a.body)
		}
		begin := time.Now()
		res, err := s.exchange(ctx, "POST", req)
		status := res.status
		if err == nil && status == 307 {
			path, err = s.follow(res.get("Location"), path)
			req = nil
			if err == nil {
				if a.measuring.Load() {
					a.tally.status(status)
				}
				continue
			}
		}
		if err == nil {
			_, err = s.finish()
		}
		if ctx.Err() != nil {
			return
		}
		if a.judge(status, err, begin) {
			pause = 0
			continue
		}
		// A server that is down or has no leader is not helped by a storm.
		pause = min(max(2*pause, 5*time.Millisecond), 250*time.Millisecond)
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// judge counts one append and reports whether it succeeded.
func (a *appendRun) judge(status int, err error, begin time.Time) bool {
	ok := err == nil && status >= 200 && status < 300
	if !a.measuring.Load() {
		return ok
	}
	switch {
	case ok:
		a.latency.record(time.Since(begin))
		a.tally.ok.Add(1)
	case err != nil:
		a.tally.fail(errorKind(err))
	default:
		a.tally.status(status)
	}
	return ok
}

func errorKind(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "timeout"
	}
	return "connection"
}

// inParallel calls f for 0..n-1, at most width at a time, and returns the first
// error.
func inParallel(ctx context.Context, width, n int, f func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(width, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

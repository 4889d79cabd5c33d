package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// FanOut options: one stream, one writer at a steady rate, and many live
// readers over server-sent events. The latency is from just before the append
// is sent to the event's arrival at each reader.
type FanOut struct {
	Options
	Subscribers int           // [100]
	Rate        int           // events a second [50]
	Bytes       int           // of one event [256]
	Duration    time.Duration // of the writing [30 s]
	Drain       time.Duration // wait for late events after it [5 s]
	Setup       int           // readers that connect at the same time [64]
}

func (o FanOut) withDefaults() FanOut {
	o.Options = o.Options.withDefaults()
	orInt(&o.Subscribers, 100)
	orInt(&o.Rate, 50)
	orInt(&o.Bytes, 256)
	orInt(&o.Duration, 30*time.Second)
	orInt(&o.Drain, 5*time.Second)
	orInt(&o.Setup, 64)
	return o
}

// RunFanOut runs the scenario. Readers are spread over the targets.
func RunFanOut(ctx context.Context, o FanOut) (*Report, error) {
	o = o.withDefaults()
	targets, err := o.parsedTargets()
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(o.ContentType, "text/") && o.ContentType != "application/json" {
		return nil, fmt.Errorf("fan-out needs a text or JSON stream, not %s", o.ContentType)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &fanRun{o: &o}
	writer := &session{opts: &o.Options, t: targets[0], path: o.path(0)}
	defer writer.close()
	if err := writer.create(ctx, nil); err != nil {
		return nil, err
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	err = inParallel(ctx, o.Setup, o.Subscribers, func(i int) error {
		ready := make(chan struct{})
		sub := &subscriber{run: f, s: &session{opts: &o.Options, t: targets[i%len(targets)], path: writer.path}, ready: ready}
		readers.Go(func() { sub.read(ctx) })
		select {
		case <-ready:
			return nil
		case <-time.After(o.Timeout):
			return fmt.Errorf("reader %d got no control event within %s", i, o.Timeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return nil, err
	}
	m, err := startMeter(o.PIDs)
	if err != nil {
		return nil, err
	}
	acked, err := f.publish(ctx, writer)
	if err != nil {
		return nil, err
	}
	expected := acked * uint64(o.Subscribers)
	for end := time.Now().Add(o.Drain); f.tally.ok.Load() < expected && time.Now().Before(end); {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
	}
	r := &Report{
		Scenario: "fan-out",
		Params: map[string]string{
			"subscribers": strconv.Itoa(o.Subscribers), "rate": strconv.Itoa(o.Rate), "bytes": strconv.Itoa(o.Bytes),
			"published": strconv.FormatUint(acked, 10), "reconnects": strconv.FormatInt(f.reconnects.Load(), 10),
		},
		Requests: f.tally.ok.Load(),
		Expected: expected,
	}
	err = m.stop(r, int64(r.Requests)*int64(o.Bytes))
	r.Latency, r.Errors = latencyOf(&f.latency), f.tally.errors()
	return r, err
}

type fanRun struct {
	o          *FanOut
	tally      tally
	latency    histogram
	reconnects atomic.Int64
}

// publish appends at the rate and returns the number of acknowledged events. A
// late append does not move the schedule.
func (f *fanRun) publish(ctx context.Context, s *session) (acked uint64, err error) {
	fields := "Content-Type: " + f.o.ContentType + "\r\n"
	interval := time.Second / time.Duration(f.o.Rate)
	begin := time.Now()
	for i := 0; ; i++ {
		at := begin.Add(time.Duration(i) * interval)
		if at.Sub(begin) >= f.o.Duration {
			return acked, nil
		}
		if err := sleep(ctx, time.Until(at)); err != nil {
			return acked, err
		}
		status, err := s.do(ctx, "POST", s.path, fields, fanBody(f.o.ContentType, f.o.Bytes, time.Now()))
		switch {
		case err != nil:
			f.tally.fail("append " + errorKind(err))
		case status < 200 || status > 299:
			f.tally.fail("append " + strconv.Itoa(status))
		default:
			acked++
		}
	}
}

// fanBody is one event of n bytes, if the mark leaves room.
func fanBody(contentType string, n int, now time.Time) []byte {
	quote, end := "", "\n"
	if contentType == "application/json" {
		quote, end = `"`, `"`
	}
	b := appendMark([]byte(quote), now)
	b = append(b, bytes.Repeat([]byte("x"), max(0, n-len(b)-len(end)))...)
	return append(b, end...)
}

type subscriber struct {
	run    *fanRun
	s      *session
	ready  chan struct{}
	offset string
}

// read follows the stream until ctx ends. A server may end a live read at any
// time; the reader goes on where it was.
func (u *subscriber) read(ctx context.Context) {
	defer u.s.close()
	u.offset = "-1"
	scan := &sseScanner{onControl: u.control}
	scan.marks.onMark = func(sent time.Time) {
		u.run.latency.record(time.Since(sent))
		u.run.tally.ok.Add(1)
	}
	for first := true; ctx.Err() == nil; first = false {
		if !first {
			u.run.reconnects.Add(1)
		}
		err := u.follow(ctx, scan)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			u.run.tally.fail("read " + err.Error())
			if sleep(ctx, 50*time.Millisecond) != nil {
				return
			}
		}
	}
}

func (u *subscriber) follow(ctx context.Context, scan *sseScanner) error {
	path := u.s.path + "?live=sse&offset=" + url.QueryEscape(u.offset)
	res, err := u.s.open(ctx, "GET", path, "Accept: text/event-stream\r\n", nil)
	if err != nil {
		return errors.New(errorKind(err))
	}
	if res.status != 200 {
		_, _ = u.s.finish()
		return errors.New(strconv.Itoa(res.status))
	}
	u.s.c.nc.SetDeadline(time.Time{}) // quiet streams are silent
	defer u.s.close()
	for {
		p, err := u.s.c.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return errors.New(errorKind(err))
		}
		scan.feed(p)
	}
}

func (u *subscriber) control(data []byte) {
	var c struct {
		Next string `json:"streamNextOffset"`
	}
	if json.Unmarshal(data, &c) == nil && c.Next != "" {
		u.offset = c.Next
	}
	if u.ready != nil {
		close(u.ready)
		u.ready = nil
	}
}

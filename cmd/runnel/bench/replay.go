package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"
)

// Replay options: one stream of Events events, read by Clients clients at the
// same time from its beginning until a read is up to date. The latency is that
// of one client's whole replay.
type Replay struct {
	Options
	Clients int // [100]
	Events  int // [2000]
	Bytes   int // of one event [1024]
	Batch   int // events of one append while the stream is filled [1]
}

func (o Replay) withDefaults() Replay {
	o.Options = o.Options.withDefaults()
	orInt(&o.Clients, 100)
	orInt(&o.Events, 2000)
	orInt(&o.Bytes, 1024)
	orInt(&o.Batch, 1)
	return o
}

const replayBuf = 128 << 10

// RunReplay runs the scenario. A replay counts as done when it came up to date
// and, except on JSON streams, brought every byte.
func RunReplay(ctx context.Context, o Replay) (*Report, error) {
	o = o.withDefaults()
	targets, err := o.parsedTargets()
	if err != nil {
		return nil, err
	}
	var tl tally
	writer := &session{opts: &o.Options, t: targets[0], path: o.path(0)}
	defer writer.close()
	if err := writer.create(ctx, nil); err != nil {
		return nil, err
	}
	size, err := o.fill(ctx, writer)
	if err != nil {
		return nil, err
	}
	sessions := make([]*session, o.Clients)
	defer func() {
		for _, s := range sessions {
			if s != nil {
				s.close()
			}
		}
	}()
	for i := range sessions {
		sessions[i] = &session{opts: &o.Options, t: targets[i%len(targets)], path: writer.path, buf: replayBuf}
		if err := sessions[i].connect(ctx); err != nil {
			return nil, fmt.Errorf("connect client %d: %w", i, err)
		}
	}
	m, err := startMeter(o.PIDs)
	if err != nil {
		return nil, err
	}
	var latency histogram
	got := make([]int64, o.Clients)
	err = inParallel(ctx, o.Clients, o.Clients, func(i int) error {
		begin := time.Now()
		n, err := replayOnce(ctx, sessions[i])
		got[i] = n
		switch {
		case err != nil:
			tl.fail(err.Error())
		case o.ContentType != "application/json" && n != size:
			tl.fail("wrong length")
		default:
			tl.ok.Add(1)
			latency.record(time.Since(begin))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := &Report{
		Scenario: "replay",
		Params:   map[string]string{"clients": strconv.Itoa(o.Clients), "events": strconv.Itoa(o.Events), "bytes": strconv.Itoa(o.Bytes)},
		Requests: tl.ok.Load(),
		Expected: uint64(o.Clients),
	}
	var bytes int64
	for _, n := range got {
		bytes += n
	}
	err = m.stop(r, bytes)
	r.Latency, r.Errors = latencyOf(&latency), tl.errors()
	return r, err
}

// fill appends the events and returns the stream's length in bytes.
func (o *Replay) fill(ctx context.Context, s *session) (size int64, err error) {
	fields := "Content-Type: " + o.ContentType + "\r\n"
	event := appendBody(o.ContentType, o.Bytes)
	for done := 0; done < o.Events; {
		n := min(o.Batch, o.Events-done)
		body := bytes.Repeat(event, n)
		if o.ContentType == "application/json" {
			body = append([]byte("["), bytes.Repeat(append(event[:len(event):len(event)], ','), n)...)
			body[len(body)-1] = ']'
		}
		status, err := s.do(ctx, "POST", s.path, fields, body)
		if err != nil {
			return 0, fmt.Errorf("fill the stream: %w", err)
		}
		if status < 200 || status > 299 {
			return 0, fmt.Errorf("fill the stream: status %d", status)
		}
		size += int64(len(body))
		done += n
	}
	return size, nil
}

// replayOnce reads the stream from its beginning. Its error is a kind to count.
func replayOnce(ctx context.Context, s *session) (n int64, err error) {
	offset := "-1"
	for {
		res, err := s.open(ctx, "GET", s.path+"?offset="+url.QueryEscape(offset), "", nil)
		if err != nil {
			return n, errors.New(errorKind(err))
		}
		upToDate := res.get("Stream-Up-To-Date") == "true"
		next := res.get("Stream-Next-Offset")
		got, err := s.finish()
		n += got
		switch {
		case err != nil && err != io.EOF:
			return n, errors.New(errorKind(err))
		case res.status != 200:
			return n, errors.New(strconv.Itoa(res.status))
		case upToDate:
			return n, nil
		case next == "" || next == offset:
			return n, errors.New("no progress")
		}
		offset = next
	}
}

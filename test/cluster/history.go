package cluster

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"
)

// History is what clients did to one stream and what they were told.
//
// A stream only grows, so its history is linearizable when each answer's
// position fits what had been answered before its request began: an append
// begins, and a confirmed read ends, at or above every end that was known then.
// The final content then says whether each acknowledged append is there, once,
// where its answer said.
type History struct {
	Stream string

	mu    sync.Mutex
	known int64 // the highest end in any answer to an append or a confirmed read
	// tokens are all appends that were begun, in the order of their writer.
	tokens  map[string][]*record
	pieces  []piece
	faults  []string
	acked   int
	unknown int
	// lastAck is when an append was last acknowledged, gap the longest wait.
	lastAck time.Time
	gap     time.Duration
}

type record struct {
	body []byte
	done bool
	end  int64
	// producer writes apply once and in order however often they are sent.
	producer bool
}

type piece struct {
	who  string
	from int64
	data []byte
}

// NewHistory returns an empty history.
func NewHistory(stream string) *History {
	return &History{Stream: stream, tokens: map[string][]*record{}, lastAck: time.Now()}
}

// Fault records something that no correct server does.
func (h *History) Fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault(format, args...)
}

func (h *History) fault(format string, args ...any) {
	if len(h.faults) < 20 {
		h.faults = append(h.faults, h.Stream+": "+fmt.Sprintf(format, args...))
	}
}

// BeginAppend notes that a writer sends body.
func (h *History) BeginAppend(writer string, body []byte, producer bool) (r *record, floor int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r = &record{body: body, end: -1, producer: producer}
	h.tokens[writer] = append(h.tokens[writer], r)
	return r, h.known
}

// Acked notes that an append was acknowledged with an end, -1 when the answer
// did not say one. repeated: an earlier attempt may have been the one that
// applied, so the end may be below what was known when the last one began; the
// floor is of the first.
func (h *History) Acked(r *record, floor, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked++
	h.noteGap()
	r.done, r.end = true, end
	if end < 0 {
		return
	}
	if end-int64(len(r.body)) < floor {
		h.fault("append %q ends at %d, but %d had been answered before it began", r.body, end, floor)
	}
	h.known = max(h.known, end)
}

func (h *History) noteGap() {
	now := time.Now()
	h.gap = max(h.gap, now.Sub(h.lastAck))
	h.lastAck = now
}

// Gap returns the longest time without an acknowledgement since the last call,
// up to now.
func (h *History) Gap() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gap = max(h.gap, time.Since(h.lastAck))
	g := h.gap
	h.gap = 0
	return g
}

// Lost notes that an append's outcome is not known.
func (h *History) Lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unknown++
}

// Refuse notes that an append was refused: it must not be in the stream.
func (h *History) Refuse(writer string, r *record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.tokens[writer]
	for i, x := range list {
		if x == r {
			h.tokens[writer] = append(list[:i], list[i+1:]...)
		}
	}
}

// BeginRead returns what a confirmed read that begins now must reach.
func (h *History) BeginRead() (floor int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known
}

// Confirmed notes the answer to a consistency=leader read.
func (h *History) Confirmed(floor, from int64, data []byte, upToDate bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := from + int64(len(data))
	if upToDate {
		if end < floor {
			h.fault("a confirmed read saw %d bytes, but %d had been answered before it began", end, floor)
		}
		h.known = max(h.known, end)
	}
	h.pieces = append(h.pieces, piece{"confirmed read", from, data})
}

// Saw notes bytes that any read or live reader was given.
func (h *History) Saw(who string, from int64, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(data) > 0 {
		h.pieces = append(h.pieces, piece{who, from, bytes.Clone(data)})
	}
}

// Counts returns how many appends were acknowledged and how many are unknown.
func (h *History) Counts() (acked, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acked, h.unknown
}

// Verify holds the history against the stream's final content.
func (h *History) Verify(t testing.TB, content []byte) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pieces {
		end := p.from + int64(len(p.data))
		if end > int64(len(content)) {
			h.fault("%s got bytes up to %d, the stream ends at %d", p.who, end, len(content))
		} else if !bytes.Equal(p.data, content[p.from:end]) {
			h.fault("%s got %q at %d, the stream holds %q", p.who, p.data, p.from, content[p.from:end])
		}
	}
	total := 0
	for writer, list := range h.tokens {
		total += h.verifyWriter(writer, list, content)
	}
	if total != len(content) {
		h.fault("the stream has %d bytes, the appends that may be in it make %d", len(content), total)
	}
	for _, f := range h.faults {
		t.Error(f)
	}
}

// verifyWriter checks the appends of one writer and returns their bytes.
func (h *History) verifyWriter(writer string, list []*record, content []byte) (total int) {
	last := -1
	for _, r := range list {
		n := bytes.Count(content, r.body)
		at := bytes.Index(content, r.body)
		total += n * len(r.body)
		switch {
		case n > 1:
			h.fault("%s: %q is there %d times", writer, r.body, n)
		case n == 0 && r.done:
			h.fault("%s: %q was acknowledged (end %d) and is not there", writer, r.body, r.end)
		case n == 1 && r.end >= 0 && int64(at+len(r.body)) != r.end:
			h.fault("%s: %q ends at %d, its answer said %d", writer, r.body, at+len(r.body), r.end)
		}
		if n == 0 {
			continue
		}
		if r.producer && at < last {
			h.fault("%s: %q is before an earlier write of its producer", writer, r.body)
		}
		last = at
	}
	return total
}

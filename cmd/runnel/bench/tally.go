package bench

import (
	"strconv"
	"sync"
	"sync/atomic"
)

// tally counts requests and what became of those that failed, by status or kind.
type tally struct {
	ok     atomic.Uint64
	mu     sync.Mutex
	failed map[string]uint64
}

func (t *tally) fail(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = make(map[string]uint64)
	}
	t.failed[kind]++
}

func (t *tally) status(code int) { t.fail(strconv.Itoa(code)) }

func (t *tally) errors() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]uint64, len(t.failed))
	for k, v := range t.failed {
		out[k] = v
	}
	return out
}

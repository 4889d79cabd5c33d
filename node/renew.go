package node

import (
	"context"
	"sync"
	"time"

	"runnel.dev/runnel/node/stream"
)

// renewTimeout bounds one touch command. A reader whose own deadline is
// shorter leaves earlier.
const renewTimeout = 5 * time.Second

// renewer shares touch commands: whoever asks while a group's touch is on its
// way joins the next one, so a busy group has at most one in flight.
type renewer struct {
	member *member
	mu     sync.Mutex
	// next holds the batch that is filling for each group whose touches are
	// being sent.
	next map[uint32]*touchBatch
}

// touchBatch is one command to be: its streams, and who waits for it.
type touchBatch struct {
	ids  []stream.ID
	seen map[stream.ID]bool
	done chan struct{}
	err  error
}

func newRenewer(m *member) *renewer {
	return &renewer{member: m, next: map[uint32]*touchBatch{}}
}

func newTouchBatch() *touchBatch {
	return &touchBatch{seen: map[stream.ID]bool{}, done: make(chan struct{})}
}

// renew returns when a touch that names the stream has applied.
func (r *renewer) renew(ctx context.Context, group uint32, id stream.ID) error {
	r.mu.Lock()
	b, running := r.next[group]
	if !running {
		b = newTouchBatch()
		r.next[group] = b
		r.member.node.work.Go(func() { r.run(group) })
	}
	if !b.seen[id] {
		b.seen[id] = true
		b.ids = append(b.ids, id)
	}
	r.mu.Unlock()
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run sends one batch after the other and ends when nobody waits.
func (r *renewer) run(group uint32) {
	for {
		r.mu.Lock()
		b := r.next[group]
		if len(b.ids) == 0 {
			delete(r.next, group)
			r.mu.Unlock()
			return
		}
		r.next[group] = newTouchBatch()
		r.mu.Unlock()
		b.err = r.send(group, b.ids)
		close(b.done)
	}
}

func (r *renewer) send(group uint32, ids []stream.ID) error {
	for len(ids) > 0 {
		n := min(len(ids), stream.MaxIDs)
		ctx, cancel := context.WithTimeout(r.member.life, renewTimeout)
		_, err := r.member.Propose(ctx, group, &stream.Command{Kind: stream.KindTouch, IDs: ids[:n]})
		cancel()
		if err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

package transport

import (
	"slices"
	"sync"
	"time"
)

// itemOverhead is what a queued message costs beside its encoding, so that the
// bound also holds for a crowd of small ones.
const itemOverhead = 320

// item is a queued message with the size of its raft encoding.
type item struct {
	msg  Message
	size int
	at   time.Time
}

func (it *item) cost() int { return it.size + itemOverhead }

// queue is one link's backlog, bounded in bytes. The bytes of a message count
// until done gives them back, after its write.
type queue struct {
	limit   int           // bytes
	largest int           // bytes of one encoded message
	wake    chan struct{} // holds a token when there may be something to take

	mu         sync.Mutex
	items      []item
	head       int // items before it are taken
	bytes      int
	overflowed bool
}

func newQueue(limit, largest int) *queue {
	return &queue{limit: limit, largest: largest, wake: make(chan struct{}, 1)}
}

// push appends those of msgs that belong says are this queue's. What exceeds
// the bound is dropped: the newest, so that what stays keeps its order. A
// message above the largest size would be refused by the peer; oversized
// counts those among the dropped.
func (q *queue) push(msgs []Message, now time.Time, belongs func(*Message) bool) (dropped, droppedBytes, oversized int) {
	q.mu.Lock()
	pushed := false
	for i := range msgs {
		if !belongs(&msgs[i]) {
			continue
		}
		it := item{msg: msgs[i], size: msgs[i].Raft.Size(), at: now}
		if it.size > q.largest {
			oversized++
		}
		if it.size > q.largest || q.bytes+it.cost() > q.limit {
			dropped++
			droppedBytes += it.size
			q.overflowed = true
			continue
		}
		q.makeRoom()
		q.items = append(q.items, it)
		q.bytes += it.cost()
		pushed = true
	}
	overflowed := dropped > 0
	q.mu.Unlock()
	if pushed || overflowed {
		q.signal()
	}
	return dropped, droppedBytes, oversized
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// makeRoom reuses the taken front of the array before it would grow.
func (q *queue) makeRoom() {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}

// take moves messages into batch, in order, until room bytes of frame are
// used. A message too large for one piece becomes next, unless one is under
// way already (busy, of that group); messages of the group that has one under
// way stay, because they may not overtake it.
func (q *queue) take(batch []item, busy bool, group uint32, room int) (_ []item, next item, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var held []uint32
	if busy {
		held = append(held, group)
	}
	live := q.items[q.head:]
	kept, i := 0, 0
	for ; i < len(live); i++ {
		it := &live[i]
		stays := len(held) > 0 && slices.Contains(held, it.msg.Group)
		if !stays && it.size > maxWhole {
			held = append(held, it.msg.Group)
			if stays = busy; !stays {
				next, found, busy = *it, true, true
				continue
			}
		}
		if stays {
			live[kept] = *it
			kept++
			continue
		}
		if need := wholeHead + it.size; need > room {
			break
		} else {
			room -= need
		}
		batch = append(batch, *it)
	}
	// What stays moves up against what was not looked at.
	copy(live[i-kept:i], live[:kept])
	clear(live[:i-kept])
	q.head += i - kept
	q.settle()
	return batch, next, found
}

// settle gives the array of a past burst back once the queue is empty.
func (q *queue) settle() {
	if q.head < len(q.items) {
		return
	}
	q.items, q.head = q.items[:0], 0
	if cap(q.items) > 1024 {
		q.items = nil
	}
}

// done gives back the bytes of messages that were written or given up.
func (q *queue) done(cost int) {
	q.mu.Lock()
	q.bytes -= cost
	q.mu.Unlock()
}

// dropBefore drops what was queued before the given time: while there is no
// connection, only what raft would still send now is worth keeping.
func (q *queue) dropBefore(limit time.Time) (dropped, droppedBytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	live := q.items[q.head:]
	n := 0
	for n < len(live) && live[n].at.Before(limit) {
		q.bytes -= live[n].cost()
		droppedBytes += live[n].size
		n++
	}
	clear(live[:n])
	q.head += n
	q.settle()
	return n, droppedBytes
}

// overflow says whether messages were dropped for lack of room since the last
// call.
func (q *queue) overflow() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.overflowed
	q.overflowed = false
	return was
}

func (q *queue) queued() (messages, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) - q.head, q.bytes
}

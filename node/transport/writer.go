package transport

import (
	"fmt"
	"net"
	"time"
)

// writer packs a link's queue into the frames of one connection.
type writer struct {
	link  *link
	conn  net.Conn
	large large
	batch []item
	buf   frameBuffer
}

// large is the one message that is under way in parts.
type large struct {
	group, epoch uint32
	encoded      []byte // nil: none
	offset       int
	cost         int
}

// ping writes an empty frame, which the peer answers.
func (w *writer) ping() error {
	defer w.buf.release()
	return w.write(beginFrame(w.buf.get(frameHead)), 0)
}

// next writes one frame with what is queued. It returns false when there was
// nothing.
func (w *writer) next() (bool, error) {
	q := w.link.queue
	batch, head, found := q.take(w.batch[:0], w.large.encoded != nil, w.large.group, wholeHead+maxWhole)
	w.batch = batch
	defer w.forget()
	if found {
		if err := w.begin(&head); err != nil {
			return false, err
		}
	}
	if len(batch) == 0 && w.large.encoded == nil {
		return false, nil
	}
	size, cost := frameHead, 0
	for i := range batch {
		size += wholeHead + batch[i].size
		cost += batch[i].cost()
	}
	defer func() { q.done(cost) }()
	if w.large.encoded != nil {
		size += partHead + min(maxPart, len(w.large.encoded)-w.large.offset)
	}
	defer w.buf.release()
	frame, count, err := w.fill(beginFrame(w.buf.get(size)))
	if err != nil {
		return false, err
	}
	if err := w.write(frame, count); err != nil {
		return false, err
	}
	w.link.t.counters.sent(count, len(frame))
	return true, nil
}

// fill puts the whole messages before the part: they may precede it in their
// group, and nothing behind it in its group was taken.
func (w *writer) fill(frame []byte) (_ []byte, count int, err error) {
	for i := range w.batch {
		if frame, err = appendWhole(frame, &w.batch[i].msg, w.batch[i].size); err != nil {
			return nil, 0, err
		}
	}
	count = len(w.batch)
	l := &w.large
	if l.encoded == nil {
		return frame, count, nil
	}
	end := min(len(l.encoded), l.offset+maxPart)
	frame = appendPart(frame, part{
		Group: l.group, LossEpoch: l.epoch,
		Total: uint32(len(l.encoded)), Offset: uint32(l.offset),
		Bytes: l.encoded[l.offset:end],
	})
	if l.offset = end; end == len(l.encoded) {
		w.endLarge()
	}
	return frame, count + 1, nil
}

func (w *writer) begin(it *item) error {
	encoded := make([]byte, it.size)
	if err := marshalExactly(encoded, &it.msg); err != nil {
		w.link.queue.done(it.cost())
		return err
	}
	w.large = large{group: it.msg.Group, epoch: it.msg.LossEpoch, encoded: encoded, cost: it.cost()}
	return nil
}

func (w *writer) endLarge() {
	if w.large.encoded != nil {
		w.link.queue.done(w.large.cost)
		w.large = large{}
	}
}

// forget lets go of the entries that the last batch refers to, and of the
// array of a past burst.
func (w *writer) forget() {
	clear(w.batch)
	if cap(w.batch) > 1024 {
		w.batch = nil
	}
}

func (w *writer) write(frame []byte, count int) error {
	t := w.link.t
	sealFrame(frame, t.envelope(count))
	if err := w.conn.SetWriteDeadline(time.Now().Add(t.timing.write)); err != nil {
		return err
	}
	if _, err := w.conn.Write(frame); err != nil {
		return fmt.Errorf("write frame of %d bytes: %w", len(frame), err)
	}
	return nil
}

package basestore

import "runnel.dev/runnel/node/stream"

// tailBytes is how much of a stream's end is kept in memory: what readers that
// follow it ask for. Reading it from the tables folds a block's operands.
const tailBytes = 16 << 10

type tailKey struct {
	group uint32
	id    stream.ID
}

// tail is the newest bytes of a stream, [start, start+len(buf)).
type tail struct {
	start uint64
	buf   []byte
}

// tails caches the ends of streams that were written since the start. Only
// commits fill it, so nothing stale can get in; the bytes of a stream at an
// offset never change.
type tails struct {
	*clock[tailKey, tail]
}

func newTails(bound int64) *tails { return &tails{newClock[tailKey, tail](bound)} }

// extend adds bytes that were committed at offset.
func (c *tails) extend(k tailKey, offset uint64, data []byte) {
	c.update(k, func(t tail, _ bool) (tail, int64) {
		if offset != t.start+uint64(len(t.buf)) || len(data) >= tailBytes {
			t.start, t.buf = offset, t.buf[:0]
		}
		if cut := len(data) - tailBytes; cut > 0 {
			data, t.start = data[cut:], t.start+uint64(cut)
		}
		if len(t.buf)+len(data) > tailBytes {
			// Half is cut at once, so that small appends move few bytes each.
			keep := min(len(t.buf), tailBytes/2, tailBytes-len(data))
			cut := len(t.buf) - keep
			t.buf, t.start = t.buf[:copy(t.buf, t.buf[cut:])], t.start+uint64(cut)
		}
		t.buf = append(t.buf, data...)
		return t, int64(cap(t.buf))
	})
}

// read appends [from, to) to dst when all of it is in memory.
func (c *tails) read(dst []byte, k tailKey, from, to uint64) (_ []byte, ok bool) {
	c.view(k, func(t tail) {
		if from >= t.start && to <= t.start+uint64(len(t.buf)) {
			dst, ok = append(dst, t.buf[from-t.start:to-t.start]...), true
		}
	})
	return dst, ok
}

func (c *tails) dropGroup(group uint32) {
	c.dropIf(func(k tailKey) bool { return k.group == group })
}

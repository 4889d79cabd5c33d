package basestore

import (
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// mergerName is written into every table: changing it, or what the merger
// does, makes existing data unreadable.
const mergerName = "runnel.concat.v1"

// concatMerger joins the operands of one block in the order they were written.
// Pebble's default merger does the same but copies everything it has for each
// older operand, and a read meets operands newest first: quadratic in the
// operands of a hot block.
var concatMerger = &pebble.Merger{
	Name: mergerName,
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		c := concatPool.Get().(*concat)
		c.start, c.end = 0, 0
		return c, c.MergeNewer(value)
	},
}

var concatPool = sync.Pool{New: func() any { return new(concat) }}

// concat is a buffer that grows at both ends. A block never exceeds
// blockBytes; a longer result still comes out right, from a larger buffer.
type concat struct {
	buf        []byte
	start, end int
}

func (c *concat) MergeNewer(value []byte) error {
	if len(c.buf)-c.end < len(value) {
		c.move(len(value), false)
	}
	c.end += copy(c.buf[c.end:], value)
	return nil
}

func (c *concat) MergeOlder(value []byte) error {
	if c.start < len(value) {
		c.move(len(value), true)
	}
	c.start -= len(value)
	copy(c.buf[c.start:], value)
	return nil
}

// move makes room for n more bytes: before the content, or after it. Operands
// of one merge all come from the same side and the buffer doubles, so each byte
// moves a few times at most.
func (c *concat) move(n int, before bool) {
	content := c.buf[c.start:c.end]
	buf := c.buf
	if need := len(content) + n; need > len(buf) {
		size := max(need, 2*len(buf), 512)
		if need <= blockBytes {
			size = min(size, blockBytes) // such a buffer is kept
		}
		buf = make([]byte, size)
	}
	start := 0
	if before {
		start = len(buf) - len(content)
	}
	copy(buf[start:], content)
	c.buf, c.start, c.end = buf, start, start+len(content)
}

func (c *concat) Finish(bool) ([]byte, io.Closer, error) {
	return c.buf[c.start:c.end], c, nil
}

// Close returns the buffer; the value that Finish returned is invalid after it.
func (c *concat) Close() error {
	if len(c.buf) <= blockBytes {
		concatPool.Put(c)
	}
	return nil
}

package http1

import (
	"bytes"
	"io"
	"math"
)

const (
	maxChunkLine    = 1 << 10 // a chunk's size with its extensions
	maxChunkExtra   = 8 << 10 // all extensions of a body
	maxTrailerBytes = 4 << 10 // all trailers of a body
)

// chunkState is where a chunked body stands between chunks.
type chunkState struct {
	inner bool // a chunk was read whose closing CRLF is still to come
	extra int  // bytes of extensions so far
}

// nextChunk reads the head of the next chunk into b.left. At the last chunk it
// reads the trailers too and returns io.EOF.
func (b *body) nextChunk() error {
	if b.chunk.inner {
		line, err := b.readLine(0)
		if err != nil {
			return err
		}
		if len(line) != 0 {
			return ErrBodyMalformed
		}
		b.chunk.inner = false
	}
	line, err := b.readLine(maxChunkLine)
	if err != nil {
		return err
	}
	size, ext, ok := parseChunkSize(line)
	if !ok {
		return ErrBodyMalformed
	}
	if b.chunk.extra += ext; b.chunk.extra > maxChunkExtra {
		return ErrBodyMalformed
	}
	if size == 0 {
		return b.readTrailers()
	}
	if size > b.limit-b.received {
		return ErrBodyTooLarge
	}
	b.left = size
	b.chunk.inner = true
	return nil
}

// readTrailers checks the trailers and drops them: nothing here needs them.
func (b *body) readTrailers() error {
	left := maxTrailerBytes
	for {
		line, err := b.readLine(left)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return io.EOF
		}
		if _, _, ok := splitField(string(line)); !ok {
			return ErrBodyMalformed
		}
		left -= len(line) + 2
		if left < 0 {
			return ErrBodyMalformed
		}
	}
}

// readLine reads one line of at most limit bytes that ends in CRLF. The line is
// valid until the next read.
func (b *body) readLine(limit int) ([]byte, error) {
	c := b.c
	for {
		window := c.s.in[c.s.r:c.s.w]
		if i := bytes.IndexByte(window, '\n'); i >= 0 {
			if i < 1 || window[i-1] != '\r' || i-1 > limit {
				return nil, ErrBodyMalformed
			}
			c.s.r += i + 1
			return window[:i-1], nil
		}
		// A line of limit bytes can wait for its CR and LF.
		if len(window) > limit+1 {
			return nil, ErrBodyMalformed
		}
		if err := b.armDeadline(); err != nil {
			return nil, err
		}
		if err := c.fill(); err != nil {
			return nil, bodyError(err)
		}
	}
}

// parseChunkSize parses "1f;name=value". Extensions are checked for their
// characters and otherwise ignored.
func parseChunkSize(line []byte) (size int64, ext int, ok bool) {
	i := 0
	var n uint64
	for ; i < len(line) && class[line[i]]&isHex != 0; i++ {
		if i == 16 {
			return 0, 0, false
		}
		n = n<<4 | uint64(hexValue(line[i]))
	}
	if i == 0 || n > math.MaxInt64 {
		return 0, 0, false
	}
	if i < len(line) && line[i] != ';' {
		return 0, 0, false
	}
	for _, c := range line[i:] {
		if class[c]&isValue == 0 {
			return 0, 0, false
		}
	}
	return int64(n), len(line) - i, true
}

func hexValue(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}

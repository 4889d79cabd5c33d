package transport

import "sync"

// keptBuffer is the largest buffer that a connection keeps for itself.
const keptBuffer = 64 << 10

// bigBuffers hands out buffers for one frame of any size. The garbage
// collector empties the pool, so a burst of large frames leaves nothing behind.
var bigBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, prefixBytes+maxBody)
	return &b
}}

// frameBuffer is a connection's memory for one frame at a time.
type frameBuffer struct {
	small []byte
	big   *[]byte
}

// get returns an empty buffer with room for n bytes, n at most a frame. It is
// valid until release.
func (f *frameBuffer) get(n int) []byte {
	if n <= keptBuffer {
		if cap(f.small) < n {
			f.small = make([]byte, 0, max(n, 4<<10))
		}
		return f.small[:0]
	}
	f.big = bigBuffers.Get().(*[]byte)
	return (*f.big)[:0]
}

func (f *frameBuffer) release() {
	if f.big != nil {
		bigBuffers.Put(f.big)
		f.big = nil
	}
}

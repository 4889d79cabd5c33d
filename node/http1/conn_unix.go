//go:build unix

package http1

import "syscall"

const rawReads = true

// tryRead is one non-blocking read. When nothing is there and the connection is
// idle, it gives the buffer back before the runtime parks the goroutine: waiting
// costs no buffer, and no system call beyond those of a plain read.
func (c *conn) tryRead(fd uintptr) bool {
	s := c.scratch()
	for {
		n, err := syscall.Read(int(fd), s.in[s.w:])
		switch err {
		case nil:
			c.rawN, c.rawErr = n, nil
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			if c.idle {
				putScratch(s)
				c.s = nil
			}
			return false
		default:
			c.rawN, c.rawErr = 0, err
			return true
		}
	}
}

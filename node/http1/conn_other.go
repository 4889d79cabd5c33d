//go:build !unix

package http1

const rawReads = false

func (c *conn) tryRead(uintptr) bool { panic("unreachable") }

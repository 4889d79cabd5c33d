package http1

import (
	"net/http"
	"sync/atomic"
	"time"
)

// dateCache holds the Date field of the current second.
type dateCache struct {
	line atomic.Pointer[dateLine]
}

type dateLine struct {
	second int64
	text   string
}

func (d *dateCache) dateField(now time.Time) string {
	sec := now.Unix()
	if l := d.line.Load(); l != nil && l.second == sec {
		return l.text
	}
	l := &dateLine{second: sec, text: "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
	d.line.Store(l)
	return l.text
}

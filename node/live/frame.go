package live

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"unicode/utf8"
)

// AppendData appends one SSE data event with its closing blank line.
//
// In text every LF, CR and CRLF starts a new data line, so that no payload can
// end an event. The parser joins lines with LF.
func AppendData(dst []byte, f Format, data []byte) []byte {
	dst = append(dst, "event: data\ndata:"...)
	if f == Base64 {
		dst = base64.StdEncoding.AppendEncode(dst, data)
		return append(dst, "\n\n"...)
	}
	for {
		i := lineEnd(data)
		if i < 0 {
			dst = append(dst, data...)
			return append(dst, "\n\n"...)
		}
		dst = append(dst, data[:i]...)
		dst = append(dst, "\ndata:"...)
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
}

// lineEnd returns the index of the first CR or LF, -1 when there is none.
func lineEnd(data []byte) int {
	i := bytes.IndexByte(data, '\n')
	if i >= 0 {
		data = data[:i]
	}
	if j := bytes.IndexByte(data, '\r'); j >= 0 {
		return j
	}
	return i
}

// DataSize is the number of bytes AppendData appends at most.
func DataSize(f Format, data []byte) int {
	const around = len("event: data\ndata:\n\n")
	if f == Base64 {
		return around + base64.StdEncoding.EncodedLen(len(data))
	}
	lines := bytes.Count(data, []byte{'\n'}) + bytes.Count(data, []byte{'\r'})
	return around + len(data) + lines*(len("\ndata:")-1)
}

// Control is what a control event says about a reader's position.
type Control struct {
	// Next is the offset to go on from.
	Next uint64
	// Cursor is left out when the stream is closed here.
	Cursor uint64
	// UpToDate says that Next is the tail, Closed that it is the stream's end.
	UpToDate, Closed bool
}

// AppendControl appends one SSE control event.
func AppendControl(dst []byte, c Control) []byte {
	dst = append(dst, "event: control\ndata:{\"streamNextOffset\":\""...)
	dst = appendOffset(dst, c.Next)
	dst = append(dst, '"')
	if c.Closed {
		dst = append(dst, ",\"upToDate\":true,\"streamClosed\":true}\n\n"...)
		return dst
	}
	dst = append(dst, ",\"streamCursor\":\""...)
	dst = strconv.AppendUint(dst, c.Cursor, 10)
	dst = append(dst, '"')
	if c.UpToDate {
		dst = append(dst, ",\"upToDate\":true"...)
	}
	return append(dst, "}\n\n"...)
}

// AppendError appends one SSE error event; body is an error body of one line.
func AppendError(dst, body []byte) []byte {
	dst = append(dst, "event: error\ndata:"...)
	dst = append(dst, body...)
	return append(dst, "\n\n"...)
}

// appendOffset appends an offset's 20 digits.
func appendOffset(dst []byte, n uint64) []byte {
	var d [20]byte
	for i := len(d) - 1; i >= 0; i-- {
		d[i] = byte('0' + n%10)
		n /= 10
	}
	return append(dst, d[:]...)
}

// TextBoundary returns the length of the longest prefix of data that does not
// end inside a UTF-8 character. Bytes that no further byte can complete count
// as whole: a reader never waits for what can't come.
func TextBoundary(data []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		i := len(data) - back
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				return i
			}
			break
		}
	}
	return len(data)
}

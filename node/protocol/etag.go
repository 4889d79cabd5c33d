package protocol

import (
	"strconv"
	"strings"
)

// AppendETag appends the strong tag of a read's answer: what it identifies is
// the incarnation of the stream, the range of bytes and whether the answer ends
// a closed stream, so that a close without data changes the tag.
func AppendETag(dst []byte, incarnation uint64, start, end Offset, closed bool) []byte {
	dst = append(dst, '"')
	dst = strconv.AppendUint(dst, incarnation, 16)
	dst = append(dst, '-')
	dst = strconv.AppendUint(dst, uint64(start), 10)
	dst = append(dst, '-')
	dst = strconv.AppendUint(dst, uint64(end), 10)
	if closed {
		dst = append(dst, "-c"...)
	}
	return append(dst, '"')
}

// MatchETag reports that the values of If-None-Match name etag, compared weakly
// (RFC 9110, section 8.8.3.2), or are *. Each value is a list; what follows a
// malformed member of a list is not looked at.
func MatchETag(ifNoneMatch []string, etag string) bool {
	etag = strings.TrimPrefix(etag, "W/")
	for _, list := range ifNoneMatch {
		if strings.Trim(list, " \t") == "*" {
			return true
		}
		for {
			var tag string
			var ok bool
			if tag, list, ok = nextETag(list); !ok {
				break
			}
			if tag == etag {
				return true
			}
		}
	}
	return false
}

// nextETag cuts the first entity tag off a list, without its weakness. Commas
// are legal inside a tag, and empty members of a list are skipped.
func nextETag(list string) (tag, rest string, ok bool) {
	list = strings.TrimLeft(list, " \t,")
	list = strings.TrimPrefix(list, "W/")
	if list == "" || list[0] != '"' {
		return "", "", false
	}
	end := strings.IndexByte(list[1:], '"')
	if end < 0 {
		return "", "", false
	}
	tag, rest = list[:end+2], strings.TrimLeft(list[end+2:], " \t")
	if rest != "" && rest[0] != ',' {
		return "", "", false
	}
	return tag, rest, true
}

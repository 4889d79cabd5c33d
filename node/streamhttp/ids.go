package streamhttp

import (
	"strings"

	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/stream"
)

type routeKind uint8

const (
	routeNone routeKind = iota
	routeServer
	routeBucket
	routeStream
)

// route is what a request's path addresses.
type route struct {
	kind routeKind
	key  stream.Key // Stream is empty for a bucket
}

// operational is the first segment of paths that are operational endpoints,
// not buckets (extensions 1.6).
const operational = "__ursula"

var (
	errNoRoute = &protocol.Error{Code: protocol.CodeNotFound}
	errPath    = &protocol.Error{Code: protocol.CodeInvalidRequest, Message: "the path has a malformed percent encoding"}
)

// parseTarget reads a request's path. Segments are cut before they are
// decoded, so an encoded slash is part of an id, which then is invalid, and
// never a segment of its own.
func parseTarget(target string) (route, error) {
	if target == "*" {
		return route{kind: routeServer}, nil
	}
	if len(target) < 2 || target[0] != '/' {
		return route{}, nil
	}
	first, rest, nested := strings.Cut(target[1:], "/")
	bucket, ok := unescape(first, false)
	if !ok {
		return route{}, errPath
	}
	if bucket == operational || nested && strings.IndexByte(rest, '/') >= 0 {
		return route{}, nil
	}
	if err := protocol.ValidBucket(bucket); err != nil {
		return route{}, err
	}
	if !nested {
		return route{kind: routeBucket, key: stream.Key{Bucket: bucket}}, nil
	}
	id, ok := unescape(rest, false)
	if !ok {
		return route{}, errPath
	}
	if err := protocol.ValidStream(bucket, id); err != nil {
		return route{}, err
	}
	return route{kind: routeStream, key: stream.Key{Bucket: bucket, Stream: id}}, nil
}

// unescape decodes percent encodings and, in a query, plus signs. What needs
// no decoding is returned as it is.
func unescape(s string, query bool) (string, bool) {
	if strings.IndexByte(s, '%') < 0 && (!query || strings.IndexByte(s, '+') < 0) {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%':
			if i+2 >= len(s) {
				return "", false
			}
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi > 15 || lo > 15 {
				return "", false
			}
			out = append(out, hi<<4|lo)
			i += 2
		case c == '+' && query:
			out = append(out, ' ')
		default:
			out = append(out, c)
		}
	}
	return string(out), true
}

func unhex(c byte) byte {
	switch {
	case c-'0' <= 9:
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 0xff
}

package http1

import (
	"math"
	"strings"
)

// refusal is a head that gets no handler: its status is answered without a body
// and the connection ends.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

var (
	errRequestLine   = &refusal{400, "malformed request line"}
	errTarget        = &refusal{400, "malformed request target"}
	errVersion       = &refusal{505, "unsupported http version"}
	errFieldLine     = &refusal{400, "malformed header field"}
	errHost          = &refusal{400, "missing, repeated or malformed host field"}
	errLength        = &refusal{400, "invalid content-length"}
	errFraming       = &refusal{400, "ambiguous message framing"}
	errCoding        = &refusal{501, "unsupported transfer coding"}
	errTrailerName   = &refusal{400, "forbidden trailer field"}
	errExpect        = &refusal{417, "unsupported expectation"}
	errHeadTooLarge  = &refusal{431, "request head too large"}
	errTargetTooLong = &refusal{414, "request target too long"}
	errHeadTooSlow   = &refusal{408, "request head arrives too slowly"}
)

// framing is what the fields of one head say about the connection.
type framing struct {
	chunked   bool
	close     bool // "Connection: close"
	keepAlive bool // "Connection: keep-alive", which matters before HTTP/1.1 only
}

// parseHead parses a request head that ends in an empty line. The strings of req
// are parts of head; fields of req.Header are appended to its capacity. It is
// strict where RFC 9112 lets a recipient be lenient: a lenient reading of a
// head is how one request becomes two.
func parseHead(head string, lim *Limits, req *Request) (framing, error) {
	p := headParser{req: req, fields: req.Header.fields[:0]}
	*req = Request{Remote: req.Remote}
	rest, err := parseRequestLine(head, lim, req)
	if err != nil {
		return p.fr, err
	}
	for n := 0; ; n++ {
		line, tail, ok := cutLine(rest)
		if !ok {
			return p.fr, errFieldLine
		}
		if line == "" {
			break
		}
		if n == lim.MaxHeaders {
			return p.fr, errHeadTooLarge
		}
		name, value, ok := splitField(line)
		if !ok {
			return p.fr, errFieldLine
		}
		if err := p.field(name, value); err != nil {
			return p.fr, err
		}
		rest = tail
	}
	req.Header.fields = p.fields
	err = p.finish()
	return p.fr, err
}

func parseRequestLine(head string, lim *Limits, req *Request) (rest string, err error) {
	line, rest, ok := cutLine(head)
	if !ok {
		return "", errRequestLine
	}
	method, line, ok := strings.Cut(line, " ")
	if !ok || method == "" || !all(method, isToken) {
		return "", errRequestLine
	}
	target, version, ok := strings.Cut(line, " ")
	if !ok {
		return "", errRequestLine
	}
	switch version {
	case "HTTP/1.1":
		req.Major, req.Minor = 1, 1
	case "HTTP/1.0":
		req.Major, req.Minor = 1, 0
	default:
		if len(version) == len("HTTP/x.x") && strings.HasPrefix(version, "HTTP/") {
			return "", errVersion
		}
		return "", errRequestLine
	}
	if len(target) > lim.MaxTargetBytes {
		return "", errTargetTooLong
	}
	req.Method = internMethod(method)
	if !splitTarget(req, target) {
		return "", errTarget
	}
	return rest, nil
}

// cutLine cuts at the first CRLF. A lone CR before it is left to the check of
// the characters, which has no place for it.
func cutLine(s string) (line, rest string, ok bool) {
	i := strings.IndexByte(s, '\n')
	if i < 1 || s[i-1] != '\r' {
		return "", "", false
	}
	return s[:i-1], s[i+1:], true
}

// splitField checks one field line. A leading space would continue the line
// before (obs-fold); a space is no tchar, so it is refused with the rest.
func splitField(line string) (name, value string, ok bool) {
	colon := strings.IndexByte(line, ':')
	if colon < 1 || !all(line[:colon], isToken) {
		return "", "", false
	}
	value = trimOWS(line[colon+1:])
	return line[:colon], value, all(value, isValue)
}

type headParser struct {
	req       *Request
	fr        framing
	fields    []Field
	host      string
	hosts     int
	hasLength bool
	hasCoding bool
	trailer   bool // a Trailer field names a field that trailers may not have
	expect    bool
	badExpect bool
}

// field takes one field: those of the connection and of the framing are
// consumed, the others are the handler's.
func (p *headParser) field(name, value string) error {
	switch connectionField(name) {
	case fieldHost:
		p.hosts++
		p.host = value
	case fieldContentLength:
		n, ok := parseLength(value)
		if !ok || p.hasLength {
			return errLength
		}
		p.hasLength = true
		p.req.ContentLength = n
	case fieldTransferEncoding:
		if p.hasCoding {
			return errFraming
		}
		p.hasCoding = true
		if !strings.EqualFold(value, "chunked") {
			return errCoding
		}
		p.fr.chunked = true
	case fieldConnection:
		eachToken(value, func(t string) {
			p.fr.close = p.fr.close || strings.EqualFold(t, "close")
			p.fr.keepAlive = p.fr.keepAlive || strings.EqualFold(t, "keep-alive")
		})
	case fieldExpect:
		p.expect = true
		p.badExpect = p.badExpect || !strings.EqualFold(value, "100-continue")
	case fieldTrailer:
		eachToken(value, func(t string) {
			switch connectionField(t) {
			case fieldContentLength, fieldTransferEncoding, fieldTrailer:
				p.trailer = true
			}
		})
	case fieldIgnored:
	default:
		p.fields = append(p.fields, Field{Name: name, Value: value})
	}
	return nil
}

// finish checks what only the whole head tells.
func (p *headParser) finish() error {
	v11 := p.req.Minor >= 1
	if p.hosts > 1 || p.hosts == 0 && v11 || !all(p.host, isHost) {
		return errHost
	}
	if p.req.Host == "" {
		p.req.Host = p.host
	}
	if p.hasCoding {
		if p.hasLength || !v11 {
			return errFraming
		}
		if p.trailer {
			return errTrailerName
		}
		p.req.ContentLength = -1
	}
	if p.expect && v11 {
		if p.badExpect {
			return errExpect
		}
		p.req.ExpectContinue = p.req.ContentLength != 0
	}
	return nil
}

// parseLength parses a canonical count of bytes: digits alone, at most 18.
func parseLength(s string) (int64, bool) {
	if s == "" || len(s) > 18 || !all(s, isDigit) {
		return 0, false
	}
	var n int64
	for i := 0; i < len(s); i++ {
		n = n*10 + int64(s[i]-'0')
	}
	return n, n < math.MaxInt64
}

func eachToken(list string, f func(string)) {
	for list != "" {
		var t string
		t, list, _ = strings.Cut(list, ",")
		f(trimOWS(t))
	}
}

type knownField uint8

const (
	fieldOther knownField = iota
	fieldHost
	fieldConnection
	fieldContentLength
	fieldTransferEncoding
	fieldTrailer
	fieldExpect
	fieldIgnored // of the connection, but nothing here depends on it
)

// connectionField names the fields that speak of the connection or of the
// framing; handlers never see them.
func connectionField(name string) knownField {
	switch len(name) {
	case 2:
		return known(name, "TE", fieldIgnored)
	case 4:
		return known(name, "Host", fieldHost)
	case 6:
		return known(name, "Expect", fieldExpect)
	case 7:
		if f := known(name, "Trailer", fieldTrailer); f != fieldOther {
			return f
		}
		return known(name, "Upgrade", fieldIgnored)
	case 10:
		if f := known(name, "Connection", fieldConnection); f != fieldOther {
			return f
		}
		return known(name, "Keep-Alive", fieldIgnored)
	case 14:
		return known(name, "Content-Length", fieldContentLength)
	case 17:
		return known(name, "Transfer-Encoding", fieldTransferEncoding)
	}
	return fieldOther
}

func known(name, want string, f knownField) knownField {
	if sameName(name, want) {
		return f
	}
	return fieldOther
}

// internMethod keeps a kept method from pinning its head.
func internMethod(m string) string {
	switch m {
	case "GET":
		return "GET"
	case "POST":
		return "POST"
	case "PUT":
		return "PUT"
	case "HEAD":
		return "HEAD"
	case "DELETE":
		return "DELETE"
	case "OPTIONS":
		return "OPTIONS"
	}
	return m
}

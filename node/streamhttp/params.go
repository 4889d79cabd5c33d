package streamhttp

import (
	"strings"
	"time"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
)

// list is the values of one header or parameter. Two are enough to see that it
// came more than once, which is all the grammars ask.
type list struct {
	v [2]string
	n int
}

func (l *list) add(s string) {
	if l.n < len(l.v) {
		l.v[l.n] = s
		l.n++
	}
}

func (l *list) values() []string { return l.v[:l.n] }

// writeHeaders are the headers of a write, collected in one pass.
type writeHeaders struct {
	contentType, closed, seq               list
	producerID, producerEpoch, producerSeq list
	ttl, expiresAt                         list
}

func collectWriteHeaders(h http1.Header) (w writeHeaders) {
	for i := range h.Len() {
		f := h.At(i)
		if l := w.slot(f.Name); l != nil {
			l.add(f.Value)
		}
	}
	return w
}

// slot returns where a header's value goes, nil when a write has no use for it.
func (w *writeHeaders) slot(name string) *list {
	// Compared by length first: most headers of a request end here.
	switch len(name) {
	case len(protocol.HeaderProducerID):
		return pick(name, protocol.HeaderProducerID, &w.producerID)
	case len(protocol.HeaderStreamSeq):
		if l := pick(name, protocol.HeaderStreamSeq, &w.seq); l != nil {
			return l
		}
		return pick(name, protocol.HeaderStreamTTL, &w.ttl)
	case len(protocol.HeaderContentType):
		if l := pick(name, protocol.HeaderContentType, &w.contentType); l != nil {
			return l
		}
		return pick(name, protocol.HeaderProducerSeq, &w.producerSeq)
	case len(protocol.HeaderStreamClosed):
		return pick(name, protocol.HeaderStreamClosed, &w.closed)
	case len(protocol.HeaderProducerEpoch):
		return pick(name, protocol.HeaderProducerEpoch, &w.producerEpoch)
	case len(protocol.HeaderStreamExpiresAt):
		return pick(name, protocol.HeaderStreamExpiresAt, &w.expiresAt)
	}
	return nil
}

func pick(name, want string, l *list) *list {
	if name == want || strings.EqualFold(name, want) {
		return l
	}
	return nil
}

// readQuery is what a read asks for.
type readQuery struct {
	live        protocol.Live
	consistency protocol.Consistency
	position    protocol.Position
	maxBytes    uint64
	timeout     time.Duration
	cursor      string
}

var errQueryEncoding = &protocol.Error{Code: protocol.CodeInvalidQuery, Message: "the query has a malformed percent encoding"}

// parseReadQuery reads a read's parameters. Names it does not know are
// ignored; a few that would change what a read means are refused.
func parseReadQuery(raw string) (q readQuery, err error) {
	var offset, liveMode, consistency, maxBytes, timeout, cursor list
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, ok := unescape(rawName, true)
		if !ok {
			return q, errQueryEncoding
		}
		if protocol.RefusedReadParam(name) {
			return q, protocol.ErrReadParam
		}
		var l *list
		switch name {
		case protocol.ParamOffset:
			l = &offset
		case protocol.ParamLive:
			l = &liveMode
		case protocol.ParamConsistency:
			l = &consistency
		case protocol.ParamMaxBytes:
			l = &maxBytes
		case protocol.ParamTimeoutMS:
			l = &timeout
		case protocol.ParamCursor:
			l = &cursor
		default:
			continue
		}
		value, ok := unescape(rawValue, true)
		if !ok {
			return q, errQueryEncoding
		}
		l.add(value)
	}
	if q.live, err = protocol.ParseLive(liveMode.values()); err != nil {
		return q, err
	}
	if q.consistency, err = protocol.ParseConsistency(consistency.values()); err != nil {
		return q, err
	}
	if q.position, err = protocol.ParseReadOffset(offset.values()); err != nil {
		return q, err
	}
	if err = protocol.ValidRead(q.live, q.consistency, q.position); err != nil {
		return q, err
	}
	q.maxBytes = uint64(protocol.ParseMaxBytes(maxBytes.values()))
	q.timeout = protocol.ParseTimeout(timeout.values())
	q.cursor = cursor.v[0]
	return q, nil
}

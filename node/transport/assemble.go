package transport

// assembler puts the parts of one large message together. A connection has at
// most one such message under way, so its memory is bounded by limit.
type assembler struct {
	limit int // largest message in bytes
	head  part
	buf   []byte
}

// add takes the next part and returns the whole encoding when it was the last.
func (a *assembler) add(p part) ([]byte, error) {
	if a.buf == nil {
		if p.Offset != 0 {
			return nil, protocolError("part at %d without a beginning", p.Offset)
		}
		if p.Total <= maxWhole || uint64(p.Total) > uint64(a.limit) {
			return nil, protocolError("message of %d bytes in parts, allowed are %d to %d", p.Total, maxWhole+1, a.limit)
		}
		a.head = part{Group: p.Group, LossEpoch: p.LossEpoch, Total: p.Total}
		a.buf = make([]byte, 0, p.Total)
	}
	left := int(a.head.Total) - len(a.buf)
	if p.Group != a.head.Group || p.LossEpoch != a.head.LossEpoch || p.Total != a.head.Total || int(p.Offset) != len(a.buf) {
		return nil, protocolError("part of group %d at %d of %d does not continue group %d at %d of %d",
			p.Group, p.Offset, p.Total, a.head.Group, len(a.buf), a.head.Total)
	}
	// All but the last part are full, so that a message costs few frames.
	if len(p.Bytes) != min(left, maxPart) {
		return nil, protocolError("part of %d bytes with %d left", len(p.Bytes), left)
	}
	a.buf = append(a.buf, p.Bytes...)
	if len(a.buf) < int(a.head.Total) {
		return nil, nil
	}
	whole := a.buf
	a.buf = nil
	return whole, nil
}

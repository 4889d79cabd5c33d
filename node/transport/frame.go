package transport

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Frame layout, little endian; docs/formats/peer.md is the contract.
const (
	prefixBytes   = 8  // length, checksum
	envelopeBytes = 28 // cluster, sender, clock, count
	frameHead     = prefixBytes + envelopeBytes

	wholeHead = 13 // form, group, loss epoch, length
	partHead  = 21 // ... and total, offset

	// maxPart is what one part of a large message carries.
	maxPart = 1 << 20
	// maxWhole is the largest message that goes in one piece. It leaves room
	// for raft's own fields around a full megabyte of entries.
	maxWhole = maxPart + 64<<10
	// maxBody bounds what follows the prefix: one part and as many whole
	// messages as fit beside it.
	maxBody = envelopeBytes + partHead + maxPart + wholeHead + maxWhole

	// minItemBytes is about what the smallest raft message takes.
	minItemBytes = 40

	formWhole = 1
	formPart  = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Fingerprint is the 64-bit stand-in for a cluster id in frames: the first
// eight bytes of its SHA-256, little endian. It is never 0.
func Fingerprint(cluster string) uint64 {
	sum := sha256.Sum256([]byte(cluster))
	if f := binary.LittleEndian.Uint64(sum[:8]); f != 0 {
		return f
	}
	return 1
}

// envelope is what every frame says about its sender. An envelope with count 0
// is a ping when it goes with the connection and a pong when it comes back.
type envelope struct {
	Cluster uint64
	Sender  uint64
	Clock   int64 // ms since the Unix epoch, read just before the write
	Count   uint32
}

func beginFrame(buf []byte) []byte {
	return append(buf[:0], make([]byte, frameHead)...)
}

// appendWhole encodes m, whose raft message takes size bytes, at the end of
// buf. raftpb writes backwards from the end of the slice it is given, so the
// message goes to its final place without a copy.
func appendWhole(buf []byte, m *Message, size int) ([]byte, error) {
	buf = append(buf, formWhole)
	buf = binary.LittleEndian.AppendUint32(buf, m.Group)
	buf = binary.LittleEndian.AppendUint32(buf, m.LossEpoch)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(size))
	at := len(buf)
	if cap(buf)-at < size {
		grown := make([]byte, at, at+size)
		copy(grown, buf)
		buf = grown
	}
	buf = buf[:at+size]
	if err := marshalExactly(buf[at:], m); err != nil {
		return nil, err
	}
	return buf, nil
}

// marshalExactly fills dst with m's raft message, which must take all of it.
func marshalExactly(dst []byte, m *Message) error {
	n, err := m.Raft.MarshalToSizedBuffer(dst)
	if err != nil {
		return fmt.Errorf("encode raft message of group %d: %w", m.Group, err)
	}
	if n != len(dst) {
		return fmt.Errorf("encode raft message of group %d: it changed its size from %d to %d after it was sent", m.Group, len(dst), n)
	}
	return nil
}

// part is a piece of a message's encoding.
type part struct {
	Group     uint32
	LossEpoch uint32
	Total     uint32 // bytes of the whole message
	Offset    uint32 // where this piece lies in it
	Bytes     []byte
}

func appendPart(buf []byte, p part) []byte {
	buf = append(buf, formPart)
	buf = binary.LittleEndian.AppendUint32(buf, p.Group)
	buf = binary.LittleEndian.AppendUint32(buf, p.LossEpoch)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(p.Bytes)))
	buf = binary.LittleEndian.AppendUint32(buf, p.Total)
	buf = binary.LittleEndian.AppendUint32(buf, p.Offset)
	return append(buf, p.Bytes...)
}

// sealFrame writes the head of a frame that beginFrame began.
func sealFrame(buf []byte, e envelope) {
	body := buf[prefixBytes:]
	binary.LittleEndian.PutUint64(body[0:], e.Cluster)
	binary.LittleEndian.PutUint64(body[8:], e.Sender)
	binary.LittleEndian.PutUint64(body[16:], uint64(e.Clock))
	binary.LittleEndian.PutUint32(body[24:], e.Count)
	binary.LittleEndian.PutUint32(buf[0:], uint32(len(body)))
	binary.LittleEndian.PutUint32(buf[4:], crc32.Checksum(body, castagnoli))
}

// parsePrefix returns the length of the body and its checksum. The length is
// checked here, before anything is allocated for it.
func parsePrefix(p []byte) (length int, sum uint32, err error) {
	n := binary.LittleEndian.Uint32(p)
	if n < envelopeBytes || n > maxBody {
		return 0, 0, protocolError("frame of %d bytes, allowed are %d to %d", n, envelopeBytes, maxBody)
	}
	return int(n), binary.LittleEndian.Uint32(p[4:]), nil
}

// parseEnvelope verifies the checksum of a body and returns its envelope and
// the items behind it.
func parseEnvelope(body []byte, sum uint32) (envelope, []byte, error) {
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return envelope{}, nil, protocolError("checksum %08x, frame says %08x", got, sum)
	}
	e := envelope{
		Cluster: binary.LittleEndian.Uint64(body),
		Sender:  binary.LittleEndian.Uint64(body[8:]),
		Clock:   int64(binary.LittleEndian.Uint64(body[16:])),
		Count:   binary.LittleEndian.Uint32(body[24:]),
	}
	items := body[envelopeBytes:]
	if uint64(e.Count)*wholeHead > uint64(len(items)) {
		return envelope{}, nil, protocolError("%d items claimed in %d bytes", e.Count, len(items))
	}
	return e, items, nil
}

// decodeItems decodes the items of a frame. Messages that the frame completes
// are returned in order; an unfinished one stays in the assembler.
func decodeItems(e envelope, items []byte, asm *assembler) ([]Message, error) {
	if e.Count == 0 && len(items) == 0 {
		return nil, nil
	}
	// A claimed count takes memory only as far as the items' bytes bear it out.
	msgs := make([]Message, 0, min(int(e.Count), len(items)/minItemBytes+1))
	for range e.Count {
		raw, group, epoch, rest, err := nextItem(items, asm)
		if err != nil {
			return nil, err
		}
		items = rest
		if raw == nil {
			continue
		}
		m, err := decodeMessage(raw)
		if err != nil {
			return nil, err
		}
		msgs = append(msgs, Message{Group: group, LossEpoch: epoch, Raft: m})
	}
	if len(items) != 0 {
		return nil, protocolError("%d bytes behind the last item", len(items))
	}
	return msgs, nil
}

// nextItem takes one item off items. raw is nil when a part did not complete
// its message.
func nextItem(items []byte, asm *assembler) (raw []byte, group, epoch uint32, rest []byte, err error) {
	if len(items) < wholeHead {
		return nil, 0, 0, nil, protocolError("item cut short")
	}
	form := items[0]
	group = binary.LittleEndian.Uint32(items[1:])
	epoch = binary.LittleEndian.Uint32(items[5:])
	length := binary.LittleEndian.Uint32(items[9:])
	head := wholeHead
	switch {
	case form == formWhole && length <= maxWhole:
	case form == formPart && length <= maxPart && len(items) >= partHead:
		head = partHead
	default:
		return nil, 0, 0, nil, protocolError("item of form %d and %d bytes", form, length)
	}
	if uint64(length) > uint64(len(items)-head) {
		return nil, 0, 0, nil, protocolError("item of %d bytes in a rest of %d", length, len(items)-head)
	}
	body, rest := items[head:head+int(length)], items[head+int(length):]
	if form == formWhole {
		return body, group, epoch, rest, nil
	}
	raw, err = asm.add(part{
		Group: group, LossEpoch: epoch, Bytes: body,
		Total:  binary.LittleEndian.Uint32(items[13:]),
		Offset: binary.LittleEndian.Uint32(items[17:]),
	})
	return raw, group, epoch, rest, err
}

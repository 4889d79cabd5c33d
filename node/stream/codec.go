package stream

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// CommandVersion is the version that AppendHeader writes. A build reads this
// version only: which versions may be proposed is gated cluster-wide, so that
// a rolling upgrade never puts a command before a replica that can't read it.
const CommandVersion = 1

// Field numbers of the command header, as docs/formats/commands.md lists
// them. They are never reused. Those that later features take are reserved
// there.
const (
	fieldKind        protowire.Number = 1
	fieldBucket      protowire.Number = 2
	fieldStream      protowire.Number = 3
	fieldIDs         protowire.Number = 4
	fieldContentType protowire.Number = 5
	fieldTTL         protowire.Number = 6
	fieldExpiresAt   protowire.Number = 7
	fieldExpiresText protowire.Number = 8
	fieldMediaType   protowire.Number = 9
	fieldClose       protowire.Number = 10
	fieldSeq         protowire.Number = 11
	fieldProducer    protowire.Number = 12
	fieldFault       protowire.Number = 13
	fieldMessages    protowire.Number = 14
	lastField                         = fieldMessages
)

// Field numbers of the producer message.
const (
	producerFieldID     protowire.Number = 1
	producerFieldEpoch  protowire.Number = 2
	producerFieldSeq    protowire.Number = 3
	producerFieldDigest protowire.Number = 4
)

// fieldSet is a set of header fields.
type fieldSet uint64

func fields(numbers ...protowire.Number) fieldSet {
	var s fieldSet
	for _, n := range numbers {
		s |= 1 << n
	}
	return s
}

func (s fieldSet) has(n protowire.Number) bool { return s&(1<<n) != 0 }

// kindFields are the fields each kind has. AppendHeader writes no other and
// Decode refuses any other: a field without a meaning is never carried along.
var kindFields = [...]fieldSet{
	KindCreate: fields(fieldKind, fieldBucket, fieldStream, fieldContentType, fieldTTL, fieldExpiresAt, fieldExpiresText, fieldClose, fieldMessages),
	KindAppend: fields(fieldKind, fieldBucket, fieldStream, fieldMediaType, fieldClose, fieldSeq, fieldProducer, fieldFault, fieldMessages),
	KindDelete: fields(fieldKind, fieldBucket, fieldStream),
	KindTouch:  fields(fieldKind, fieldIDs),
	KindExpire: fields(fieldKind, fieldIDs),
}

func (k Kind) known() bool { return k >= KindCreate && k <= KindExpire }

// takesPayload says whether a command of this kind may carry stream bytes.
func (k Kind) takesPayload() bool { return k == KindCreate || k == KindAppend }

// AppendHeader appends to dst what goes before c.Payload in the log: the
// version, the header's length and the header. Fields that c.Kind does not
// have are left out. It must not be called with an unknown kind.
func AppendHeader(dst []byte, c *Command) []byte {
	dst = append(dst, CommandVersion, 0)
	start := len(dst)
	dst = appendFields(dst, c)
	size := uint64(len(dst) - start)
	if size < 0x80 {
		dst[start-1] = byte(size)
		return dst
	}
	// Long headers are rare: the header moves up to make room for its length.
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], size)
	dst = append(dst, length[1:n]...)
	copy(dst[start+n-1:], dst[start:start+int(size)])
	copy(dst[start-1:], length[:n])
	return dst
}

func appendFields(dst []byte, c *Command) []byte {
	has := kindFields[c.Kind]
	dst = appendVarint(dst, fieldKind, uint64(c.Kind))
	if has.has(fieldBucket) {
		dst = appendText(dst, fieldBucket, c.Key.Bucket)
		dst = appendText(dst, fieldStream, c.Key.Stream)
	}
	switch c.Kind {
	case KindCreate:
		dst = appendText(dst, fieldContentType, c.ContentType)
		if c.Expiry.HasTTL {
			// Written also when zero: a TTL of zero is not the absence of one.
			dst = protowire.AppendTag(dst, fieldTTL, protowire.VarintType)
			dst = protowire.AppendVarint(dst, c.Expiry.TTL)
		}
		if c.Expiry.AtText != "" {
			dst = appendVarint(dst, fieldExpiresAt, c.Expiry.At)
			dst = appendText(dst, fieldExpiresText, c.Expiry.AtText)
		}
		dst = appendVarint(dst, fieldClose, protowire.EncodeBool(c.Close))
	case KindAppend:
		dst = appendText(dst, fieldMediaType, c.MediaType)
		dst = appendVarint(dst, fieldClose, protowire.EncodeBool(c.Close))
		dst = appendText(dst, fieldSeq, c.Seq)
		if c.Producer != nil {
			dst = appendProducerKey(dst, c.Producer)
		}
		dst = appendVarint(dst, fieldFault, uint64(c.Fault))
	case KindTouch, KindExpire:
		dst = appendIDs(dst, c.IDs)
	}
	if has.has(fieldMessages) {
		dst = appendVarint(dst, fieldMessages, uint64(c.Messages))
	}
	return dst
}

func appendProducerKey(dst []byte, p *ProducerKey) []byte {
	size := 0
	if p.ID != "" {
		size += protowire.SizeTag(producerFieldID) + protowire.SizeBytes(len(p.ID))
	}
	if p.Epoch != 0 {
		size += protowire.SizeTag(producerFieldEpoch) + protowire.SizeVarint(p.Epoch)
	}
	if p.Seq != 0 {
		size += protowire.SizeTag(producerFieldSeq) + protowire.SizeVarint(p.Seq)
	}
	if p.Digest.Given {
		size += protowire.SizeTag(producerFieldDigest) + protowire.SizeBytes(len(p.Digest.Sum))
	}
	dst = protowire.AppendTag(dst, fieldProducer, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = appendText(dst, producerFieldID, p.ID)
	dst = appendVarint(dst, producerFieldEpoch, p.Epoch)
	dst = appendVarint(dst, producerFieldSeq, p.Seq)
	if p.Digest.Given {
		dst = protowire.AppendTag(dst, producerFieldDigest, protowire.BytesType)
		dst = protowire.AppendBytes(dst, p.Digest.Sum[:])
	}
	return dst
}

func appendIDs(dst []byte, ids []ID) []byte {
	if len(ids) == 0 {
		return dst
	}
	size := 0
	for _, id := range ids {
		size += protowire.SizeVarint(uint64(id))
	}
	dst = protowire.AppendTag(dst, fieldIDs, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	for _, id := range ids {
		dst = protowire.AppendVarint(dst, uint64(id))
	}
	return dst
}

func appendVarint(dst []byte, n protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, n, protowire.VarintType), v)
}

func appendText(dst []byte, n protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, n, protowire.BytesType), s)
}

// Decode reads a stored command, header and payload, into c. It re-uses c's
// memory (IDs, Producer, and strings that did not change); Payload aliases b,
// nothing else does. A command is understood whole or not at all: an unknown
// version, kind, field or fault is ErrUnsupported, and bytes that AppendHeader
// does not write are ErrMalformed. After an error c must not be used.
func Decode(b []byte, c *Command) error {
	if len(b) == 0 {
		return fmt.Errorf("command: empty: %w", ErrMalformed)
	}
	if b[0] != CommandVersion {
		return fmt.Errorf("command version %d: %w", b[0], ErrUnsupported)
	}
	size, n := binary.Uvarint(b[1:])
	if n <= 0 || size > uint64(len(b)-1-n) {
		return fmt.Errorf("command: header length: %w", ErrMalformed)
	}
	header, payload := b[1+n:][:size], b[1+n+int(size):]
	d := commandDecoder{old: *c, c: c}
	*c = Command{IDs: c.IDs[:0]}
	if err := d.header(header); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	if len(payload) > 0 {
		if !c.Kind.takesPayload() {
			return fmt.Errorf("command: payload of kind %d: %w", c.Kind, ErrMalformed)
		}
		c.Payload = payload
	}
	return nil
}

// commandDecoder fills c; old holds what c held before, whose memory is re-used.
type commandDecoder struct {
	c      *Command
	old    Command
	bucket []byte
	stream []byte
	seen   fieldSet
}

func (d *commandDecoder) header(b []byte) error {
	c := d.c
	var last protowire.Number
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("tag: %w", ErrMalformed)
		}
		b = b[n:]
		if num > lastField {
			return fmt.Errorf("field %d: %w", num, ErrUnsupported)
		}
		// Ascending, so each at most once and the kind first.
		if num <= last {
			return fmt.Errorf("field %d after %d: %w", num, last, ErrMalformed)
		}
		last = num
		var v uint64
		var text []byte
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		default:
			n = -1
		}
		if n < 0 || typ != fieldType(num) {
			return fmt.Errorf("field %d: %w", num, ErrMalformed)
		}
		b = b[n:]
		if num != fieldKind && !kindFields[c.Kind].has(num) {
			return fmt.Errorf("field %d in kind %d: %w", num, c.Kind, ErrMalformed)
		}
		if err := d.field(num, v, text); err != nil {
			return fmt.Errorf("field %d: %w", num, err)
		}
		d.seen |= fields(num)
	}
	if c.Kind == 0 {
		return fmt.Errorf("no kind: %w", ErrMalformed)
	}
	if (d.c.Expiry.AtText == "") && d.seen.has(fieldExpiresAt) {
		return fmt.Errorf("deadline without its text: %w", ErrMalformed)
	}
	if kindFields[c.Kind].has(fieldBucket) {
		c.Key = d.key()
	}
	return nil
}

func fieldType(num protowire.Number) protowire.Type {
	switch num {
	case fieldKind, fieldTTL, fieldExpiresAt, fieldClose, fieldFault, fieldMessages:
		return protowire.VarintType
	default:
		return protowire.BytesType
	}
}

func (d *commandDecoder) field(num protowire.Number, v uint64, text []byte) error {
	c := d.c
	switch num {
	case fieldKind:
		if v > math.MaxUint8 || !Kind(v).known() {
			return fmt.Errorf("kind %d: %w", v, ErrUnsupported)
		}
		c.Kind = Kind(v)
	case fieldBucket:
		d.bucket = text
	case fieldStream:
		d.stream = text
	case fieldIDs:
		return d.ids(text)
	case fieldContentType:
		c.ContentType = keep(d.old.ContentType, text)
	case fieldTTL:
		c.Expiry.HasTTL, c.Expiry.TTL = true, v
	case fieldExpiresAt:
		c.Expiry.At = v
	case fieldExpiresText:
		c.Expiry.AtText = keep(d.old.Expiry.AtText, text)
	case fieldMediaType:
		c.MediaType = keep(d.old.MediaType, text)
	case fieldClose:
		if v > 1 {
			return ErrMalformed
		}
		c.Close = v == 1
	case fieldSeq:
		c.Seq = keep(d.old.Seq, text)
	case fieldProducer:
		return d.producer(text)
	case fieldFault:
		if v > uint64(FaultDigestMismatch) {
			return fmt.Errorf("fault %d: %w", v, ErrUnsupported)
		}
		c.Fault = Fault(v)
	case fieldMessages:
		if v > math.MaxUint32 {
			return ErrMalformed
		}
		c.Messages = uint32(v)
	default:
		return ErrUnsupported
	}
	return nil
}

func (d *commandDecoder) ids(b []byte) error {
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return ErrMalformed
		}
		d.c.IDs = append(d.c.IDs, ID(v))
		b = b[n:]
	}
	return nil
}

func (d *commandDecoder) producer(b []byte) error {
	p := d.old.Producer
	if p == nil {
		p = new(ProducerKey)
	}
	oldID := p.ID
	*p = ProducerKey{}
	d.c.Producer = p
	var last protowire.Number
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || num <= last {
			return ErrMalformed
		}
		last = num
		b = b[n:]
		var v uint64
		var text []byte
		switch {
		case (num == producerFieldEpoch || num == producerFieldSeq) && typ == protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case (num == producerFieldID || num == producerFieldDigest) && typ == protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		case num > producerFieldDigest:
			return fmt.Errorf("producer field %d: %w", num, ErrUnsupported)
		default:
			return ErrMalformed
		}
		if n < 0 {
			return ErrMalformed
		}
		b = b[n:]
		switch num {
		case producerFieldID:
			p.ID = keep(oldID, text)
		case producerFieldEpoch:
			p.Epoch = v
		case producerFieldSeq:
			p.Seq = v
		case producerFieldDigest:
			if len(text) != len(p.Digest.Sum) {
				return ErrMalformed
			}
			copy(p.Digest.Sum[:], text)
			p.Digest.Given = true
		}
	}
	return nil
}

// key returns the key made of the header's bucket and stream, in one
// allocation, or none when it is the key that c held before.
func (d *commandDecoder) key() Key {
	k := d.old.Key
	if k.Bucket == string(d.bucket) && k.Stream == string(d.stream) {
		return k
	}
	var buf [128]byte
	both := string(append(append(buf[:0], d.bucket...), d.stream...))
	return Key{Bucket: both[:len(d.bucket)], Stream: both[len(d.bucket):]}
}

// keep returns b as a string: old itself when it is equal, so that a run of
// commands with the same content type or producer shares one string.
func keep(old string, b []byte) string {
	if old == string(b) {
		return old
	}
	return string(b)
}

package protocol

// Offset is a position in a stream: the count of stored bytes before it. On the
// wire it is 20 decimal digits, zero-padded, so that offsets sort bytewise in
// stream order.
type Offset uint64

const (
	// MaxOffset is the largest offset: exact in every client's numbers.
	MaxOffset Offset = MaxInteger
	// OffsetDigits is the width of an offset on the wire.
	OffsetDigits = 20
)

// String returns the offset's wire form.
func (o Offset) String() string {
	var b [OffsetDigits]byte
	return string(AppendOffset(b[:0], o))
}

// AppendOffset appends the wire form of o to dst.
func AppendOffset(dst []byte, o Offset) []byte {
	var b [OffsetDigits]byte
	for i := OffsetDigits - 1; i >= 0; i-- {
		b[i] = '0' + byte(o%10)
		o /= 10
	}
	return append(dst, b[:]...)
}

var errOffset = refusal(CodeInvalidOffset, "an offset is up to 20 decimal digits, at most 2^53 - 1")

// ParseOffset reads an offset: 1 to 20 decimal digits, padded or not, at most
// MaxOffset.
func ParseOffset(s string) (Offset, error) {
	if len(s) > OffsetDigits {
		return 0, errOffset
	}
	v, ok := parseInteger(s, MaxInteger)
	if !ok {
		return 0, errOffset
	}
	return Offset(v), nil
}

// Anchor says what a read's position is relative to.
type Anchor uint8

const (
	// FromStart is the stream's beginning: offset absent, or -1.
	FromStart Anchor = iota
	// FromNow is the tail at the time of the read: offset=now.
	FromNow
	// FromOffset is Position.Offset.
	FromOffset
)

// Position is where a read starts.
type Position struct {
	Anchor Anchor
	// Offset is set with FromOffset.
	Offset Offset
	// Given is false when the request had no offset parameter; live reads
	// require one.
	Given bool
}

var (
	errOffsetEmpty    = refusal(CodeInvalidOffset, "the offset parameter is empty")
	errOffsetRepeated = refusal(CodeInvalidOffset, "the offset parameter is given more than once")
	errReadOffset     = refusal(CodeInvalidOffset, "offset is -1, now or a Stream-Next-Offset of an earlier answer")
)

// ParseReadOffset reads the values of a read's offset parameter, decoded; none
// means that the parameter is absent.
func ParseReadOffset(values []string) (Position, error) {
	switch len(values) {
	case 0:
		return Position{}, nil
	case 1:
	default:
		return Position{}, errOffsetRepeated
	}
	switch values[0] {
	case "":
		return Position{}, errOffsetEmpty
	case "-1":
		return Position{Given: true}, nil
	case "now":
		return Position{Anchor: FromNow, Given: true}, nil
	}
	o, err := ParseOffset(values[0])
	if err != nil {
		return Position{}, errReadOffset
	}
	return Position{Anchor: FromOffset, Offset: o, Given: true}, nil
}

package protocol

import "strings"

var (
	errSeqRepeated = refusal(CodeInvalidHeader, "Stream-Seq is given more than once")
	errSeq         = refusal(CodeInvalidHeader, "Stream-Seq is at most 256 printable ASCII characters")
)

// ParseStreamSeq reads the values of Stream-Seq. It is opaque and compared
// bytewise; absent and empty both mean none, and return "".
func ParseStreamSeq(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", errSeqRepeated
	}
	if len(values[0]) > MaxSeqBytes || !isPrintable(values[0]) {
		return "", errSeq
	}
	return values[0], nil
}

// ParseClosed reads the values of Stream-Closed: set only by the one value
// true, in any case. Everything else counts as absent and is no error.
func ParseClosed(values []string) bool {
	return len(values) == 1 && strings.EqualFold(values[0], ValueTrue)
}

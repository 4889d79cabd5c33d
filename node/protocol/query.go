package protocol

import "time"

// Long-poll timeouts (section 9.1).
const (
	DefaultTimeout = time.Second
	MinTimeout     = time.Millisecond
	MaxTimeout     = time.Minute
)

// Live is the live mode of a read.
type Live uint8

const (
	NotLive Live = iota
	LongPoll
	SSE
)

// Consistency is how fresh a catch-up read must be (section 9.2).
type Consistency uint8

const (
	LocalRead Consistency = iota
	LeaderRead
)

var (
	errLive        = refusal(CodeInvalidQuery, "live is sse or long-poll, once")
	errConsistency = refusal(CodeInvalidQuery, "consistency is local or leader, once")
	errLeaderLive  = refusal(CodeInvalidQuery, "consistency=leader does not combine with live")
	errLiveOffset  = refusal(CodeInvalidOffset, "a live read needs an offset")
)

// ParseLive reads the values of a read's live parameter.
func ParseLive(values []string) (Live, error) {
	switch {
	case len(values) == 0:
		return NotLive, nil
	case len(values) == 1 && values[0] == "long-poll":
		return LongPoll, nil
	case len(values) == 1 && values[0] == "sse":
		return SSE, nil
	}
	return NotLive, errLive
}

// ParseConsistency reads the values of a read's consistency parameter.
func ParseConsistency(values []string) (Consistency, error) {
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "local":
		return LocalRead, nil
	case len(values) == 1 && values[0] == "leader":
		return LeaderRead, nil
	}
	return LocalRead, errConsistency
}

// ValidRead checks what a read's parameters require of each other: a live read
// names its offset, and leader consistency is for catch-up reads.
func ValidRead(live Live, consistency Consistency, position Position) error {
	switch {
	case live == NotLive:
		return nil
	case consistency == LeaderRead:
		return errLeaderLive
	case !position.Given:
		return errLiveOffset
	}
	return nil
}

// ParseMaxBytes reads the values of max_bytes as the bound of one answer, 1 to
// ReadCap bytes (section 9.3). What is not one decimal integer is ignored.
func ParseMaxBytes(values []string) int {
	if len(values) != 1 || !isDigits(values[0]) {
		return ReadCap
	}
	v, ok := parseInteger(values[0], ReadCap)
	if !ok {
		return ReadCap
	}
	return max(int(v), 1)
}

// ParseTimeout reads the values of a long-poll's timeout_ms (section 9.1): what
// is not one decimal integer means the default, the rest is clamped.
func ParseTimeout(values []string) time.Duration {
	if len(values) != 1 || !isDigits(values[0]) {
		return DefaultTimeout
	}
	v, ok := parseInteger(values[0], uint64(MaxTimeout/time.Millisecond))
	if !ok {
		return MaxTimeout
	}
	return max(time.Duration(v)*time.Millisecond, MinTimeout)
}

// RefusedReadParam reports that a query parameter of a stream read is refused
// rather than ignored: immutable reads carry it in their path, or it once
// changed what a read returned and no longer does.
func RefusedReadParam(name string) bool {
	switch name {
	case "incarnation", "aligned", "record", "tail_records", "max_records", "record_view", "stream-cursor":
		return true
	}
	return false
}

// ErrReadParam is the refusal of a RefusedReadParam.
var ErrReadParam error = refusal(CodeInvalidQuery, "a query parameter of this request is not accepted on a stream read")

package jsontext

import "strconv"

// MaxDepth is the deepest nesting of one message: a scalar has depth 0, an
// array or object 1 more than its deepest element.
const MaxDepth = 127

// Reason says why a body is not JSON message text.
type Reason uint8

const (
	Truncated      Reason = iota + 1 // the body ends inside a value
	Unexpected                       // a character that no grammar rule allows here
	BadNumber                        // not a number of RFC 8259
	BadEscape                        // an unknown or incomplete escape in a string
	ControlChar                      // a raw control character in a string
	BadUTF8                          // bytes that are not UTF-8 in a string
	TooDeep                          // a message nested deeper than MaxDepth
	TrailingData                     // something follows the value
	NothingPresent                   // no value: an empty body, or whitespace alone
)

var reasons = [...]string{
	Truncated:      "the JSON text ends inside a value",
	Unexpected:     "unexpected character in the JSON text",
	BadNumber:      "malformed number in the JSON text",
	BadEscape:      "malformed escape in a JSON string",
	ControlChar:    "unescaped control character in a JSON string",
	BadUTF8:        "a JSON string is not UTF-8",
	TooDeep:        "a JSON message is nested deeper than 127",
	TrailingData:   "data after the JSON text",
	NothingPresent: "the body holds no JSON text",
}

// Error refuses a body. Its text holds the offset and the reason, and nothing
// of the body, so it can go to a client.
type Error struct {
	// Offset is the byte of the body where the fault was found.
	Offset int
	Reason Reason
}

func (e *Error) Error() string {
	return reasons[e.Reason] + " at byte " + strconv.Itoa(e.Offset)
}

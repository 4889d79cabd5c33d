package protocol

// Code names a refusal in an error body. Clients match it and nothing else
// (section 11).
type Code string

type codeFacts struct {
	status  int
	refuses bool
	message string
}

// Status returns the HTTP status that a code comes with, 500 for a code this
// package does not know. CodeUnsupported also comes with 405.
func (c Code) Status() int {
	if f, ok := codes[c]; ok {
		return f.status
	}
	return 500
}

// Message returns the code's fixed message; it names nothing of the request or
// the server.
func (c Code) Message() string {
	if f, ok := codes[c]; ok {
		return f.message
	}
	return codes[CodeInternal].message
}

// ProvesRefusal reports that an answer to a write with this code says that the
// request applied nothing and never will (section 11.1): a 4xx other than 408
// by its status, a 408 or a 5xx only by a code that is sent when nothing was
// proposed or the apply refused it.
func (c Code) ProvesRefusal() bool {
	f, ok := codes[c]
	if !ok {
		return false
	}
	if f.status/100 == 4 && f.status != 408 {
		return true
	}
	return f.refuses
}

const hexDigits = "0123456789abcdef"

// AppendErrorBody appends the error body of code to dst: one line of JSON
// without a final LF, fit for an SSE event. An empty message stands for the
// code's own. The message must be the server's words, never the client's; what
// could break the line or the JSON is escaped, other bytes outside ASCII become
// question marks.
func AppendErrorBody(dst []byte, code Code, message string) []byte {
	if message == "" {
		message = code.Message()
	}
	dst = append(dst, `{"error":{"code":"`...)
	dst = appendText(dst, string(code))
	dst = append(dst, `","message":"`...)
	dst = appendText(dst, message)
	return append(dst, `"}}`...)
}

func appendText(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == '<' || c == '>' || c == '&':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c > '~':
			dst = append(dst, '?')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

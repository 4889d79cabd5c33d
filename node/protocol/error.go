package protocol

// Error is a refusal of a request for its shape. It is safe to answer as it is:
// the message is fixed text.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

func refusal(code Code, message string) *Error { return &Error{Code: code, Message: message} }

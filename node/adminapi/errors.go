package adminapi

import (
	"fmt"
	"net/http"
)

// Code names why a request failed. Codes are part of the API.
type Code string

const (
	CodeBadRequest         Code = "BAD_REQUEST"         // the request can never succeed as it is
	CodeNotFound           Code = "NOT_FOUND"           // no such path
	CodeMethodNotAllowed   Code = "METHOD_NOT_ALLOWED"  // see the Allow header
	CodeUnsupportedMedia   Code = "UNSUPPORTED_MEDIA"   // the body must be application/json
	CodeTooLarge           Code = "TOO_LARGE"           // the body exceeds MaxRequestBytes
	CodeForbidden          Code = "FORBIDDEN"           // sent by a web page
	CodeNotInitialized     Code = "NOT_INITIALIZED"     // the node belongs to no cluster yet
	CodeAlreadyInitialized Code = "ALREADY_INITIALIZED" // the node belongs to a cluster, or to another init
	CodeClusterFull        Code = "CLUSTER_FULL"        // no room for another node
	CodeNotLeader          Code = "NOT_LEADER"          // ask the node at Leader
	CodeUnavailable        Code = "UNAVAILABLE"         // nothing was done; try again
	CodeOutcomeUnknown     Code = "OUTCOME_UNKNOWN"     // may have been done; try again with the same token
	CodeInternal           Code = "INTERNAL"            // see the node's log
)

// HTTPStatus is the status that carries a code.
func (c Code) HTTPStatus() int {
	switch c {
	case CodeBadRequest:
		return http.StatusBadRequest
	case CodeNotFound:
		return http.StatusNotFound
	case CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case CodeUnsupportedMedia:
		return http.StatusUnsupportedMediaType
	case CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeForbidden:
		return http.StatusForbidden
	case CodeNotInitialized, CodeAlreadyInitialized, CodeClusterFull:
		return http.StatusConflict
	case CodeNotLeader:
		return http.StatusMisdirectedRequest
	case CodeUnavailable, CodeOutcomeUnknown:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Error is a node's refusal. It is the body of every answer that is not 2xx.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Remedy says what to do about it; may be empty.
	Remedy string `json:"remedy,omitempty"`
	// Leader is the admin address (host:port) to ask instead, with NOT_LEADER;
	// empty when the leader is not known.
	Leader string `json:"leader,omitempty"`
}

// Refuse makes an Error with a formatted message.
func Refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Try sets the remedy and returns e.
func (e *Error) Try(remedy string) *Error {
	e.Remedy = remedy
	return e
}

func (e *Error) Error() string {
	if e.Remedy == "" {
		return fmt.Sprintf("%s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("%s: %s: %s", e.Code, e.Message, e.Remedy)
}

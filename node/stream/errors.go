package stream

import "errors"

var (
	// ErrUnsupported is returned for a command or record of a version, kind or
	// field that this build does not know. A newer build wrote it; guessing at
	// the rest would make this replica differ from its peers, so apply stops.
	ErrUnsupported = errors.New("stream: written by a newer version")
	// ErrMalformed is returned for bytes that no version writes.
	ErrMalformed = errors.New("stream: malformed encoding")

	errNoGroup = errors.New("stream: the group has no record")
)

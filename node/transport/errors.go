package transport

import (
	"errors"
	"fmt"
)

// Reasons for refusing or cutting a peer. Test with errors.Is.
var (
	ErrWrongCluster = errors.New("peer belongs to another cluster")
	ErrWrongNode    = errors.New("peer is not the node that was addressed")
	ErrVersion      = errors.New("peer speaks another protocol version")
	ErrBusy         = errors.New("peer has no room for another connection")
	// ErrProtocol is anything that no Runnel peer sends: a wrong magic, a broken
	// checksum, a frame beyond its bounds.
	ErrProtocol = errors.New("not a valid peer frame")
	// ErrPlainAddress is plain TCP on an address other than loopback.
	ErrPlainAddress = errors.New("peer links without TLS are allowed on loopback only")
	ErrNoAddress    = errors.New("no address is known for this node")
	ErrClosed       = errors.New("transport is closed")
)

// HandshakeError says why two nodes do not talk. Both sides hold one: the
// dialing side in PeerStatus.Err, the accepting side in its log.
type HandshakeError struct {
	Err    error  // one of the sentinels above
	Remote string // remote address
	Want   string // what this node expected
	Got    string // what the peer said
}

func (e *HandshakeError) Error() string {
	return fmt.Sprintf("handshake with %s: %v: want %s, got %s", e.Remote, e.Err, e.Want, e.Got)
}

func (e *HandshakeError) Unwrap() error { return e.Err }

func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Defaults of Config.
const (
	DefaultMaxMessage = 48 << 20
	DefaultQueueBytes = 64 << 20
)

// Config describes this node's end of the peer links.
type Config struct {
	Cluster string // cluster id, 1 to 64 bytes
	Node    uint64 // our node id, not 0

	// Listen is the address to accept peers on. Listener, when set, is used
	// instead; the transport closes it.
	Listen   string
	Listener net.Listener

	// TLS turns on mutual TLS. Without it both ends must be on loopback.
	TLS *TLSFiles

	// Clock is the wall clock that frames carry. Default time.Now.
	Clock func() time.Time

	// MaxMessage bounds one raft message in bytes, encoded, both ways.
	MaxMessage int
	// QueueBytes bounds what is queued for one peer's bulk link, not below
	// MaxMessage; the beat link has an eighth of it beside.
	QueueBytes int

	Logger  *slog.Logger
	Handler Handler

	// Resolve returns the address (host:port) of a node.
	Resolve func(node uint64) (addr string, ok bool)
	// Dial opens a connection. Default TCP with keep-alive.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Handler receives what comes from peers. It is called from many goroutines.
type Handler interface {
	// HandleRaft takes messages over. It must not block for long: it holds up
	// the connection they came on.
	HandleRaft(from uint64, msgs []Message)
	// Unreachable says that messages to node were lost, or that it could not be
	// reached. It comes again with every failed attempt to connect.
	Unreachable(node uint64)
}

// timing holds every wait of the package.
type timing struct {
	dial        time.Duration // TCP and TLS
	handshake   time.Duration
	ping        time.Duration // between pings of a link
	silence     time.Duration // without an answer: the peer is gone (beat)
	bulkSilence time.Duration
	write       time.Duration // one frame, or an answer
	idle        time.Duration // without a frame: an accepted connection ends
	body        time.Duration // from a frame's prefix to its end
	backoffMin  time.Duration
	backoffMax  time.Duration
	stale       time.Duration // age at which a message for a link that is down is dropped
}

func defaultTiming() timing {
	return timing{
		dial: 3 * time.Second, handshake: 3 * time.Second,
		ping: 500 * time.Millisecond, silence: 3 * time.Second, bulkSilence: 10 * time.Second,
		write: 5 * time.Second, idle: 10 * time.Second, body: 10 * time.Second,
		backoffMin: 20 * time.Millisecond, backoffMax: time.Second, stale: time.Second,
	}
}

func (c *Config) complete() error {
	if c.Cluster == "" || len(c.Cluster) > maxClusterID {
		return fmt.Errorf("cluster id of %d bytes, allowed are 1 to %d", len(c.Cluster), maxClusterID)
	}
	if c.Node == 0 {
		return errors.New("node id 0 is not a node")
	}
	if c.Handler == nil || c.Resolve == nil {
		return errors.New("transport needs a Handler and a Resolve function")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = DefaultMaxMessage
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = DefaultQueueBytes
	}
	if c.MaxMessage < maxWhole || c.MaxMessage > 1<<30 {
		return fmt.Errorf("MaxMessage %d is outside %d to %d bytes", c.MaxMessage, maxWhole, 1<<30)
	}
	if c.QueueBytes < c.MaxMessage+itemOverhead {
		return fmt.Errorf("QueueBytes %d is below one message of MaxMessage %d bytes", c.QueueBytes, c.MaxMessage)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

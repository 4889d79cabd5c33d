package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// maxHandshakes bounds connections that have not said who they are.
	maxHandshakes = 64
	// maxPeers bounds the nodes that this one talks to, in each direction.
	maxPeers = 1024
)

// inboundKey: a node has one connection of each kind to us. A newer one
// replaces the older, which a peer that restarted has forgotten.
type inboundKey struct {
	node uint64
	kind kind
}

// session is a connection past its handshake; done closes when its last
// message was handed over. Sessions are numbered in the order in which their
// connections were accepted, which their handshakes may end out of.
type session struct {
	number uint64
	conn   net.Conn
	done   chan struct{}
}

// Serve accepts peers until Close, which makes it return nil.
func (t *Transport) Serve() error {
	for number := uint64(1); ; number++ {
		conn, err := t.listener.Accept()
		if t.ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept peers: %w", err)
			}
			// Out of descriptors, most likely: peers retry, so wait a little.
			t.log.Warn("accepting a peer failed", "err", err)
			if !t.sleep(t.timing.backoffMax) {
				return nil
			}
			continue
		}
		select {
		case t.handshakes <- struct{}{}:
		default:
			t.counters.refused.Add(1)
			conn.Close()
			continue
		}
		if !t.spawn(func() { t.receive(number, conn) }) {
			conn.Close()
		}
	}
}

// receive handles one accepted connection from its handshake to its end.
func (t *Transport) receive(number uint64, raw net.Conn) {
	stop := t.closeWithTransport(raw)
	defer stop()
	conn, hello, err := t.identify(raw)
	<-t.handshakes
	if err != nil {
		t.refuse(raw, err)
		raw.Close()
		return
	}
	key := inboundKey{node: hello.From, kind: kind(hello.Code)}
	s := &session{number: number, conn: conn, done: make(chan struct{})}
	if !t.adopt(key, s) {
		abort(conn)
		return
	}
	t.sample(key, hello.Clock)
	// Whoever reaches us is likely to be reachable: do not sit out a back-off.
	t.hurry(hello.From)
	err = t.pump(key, conn)
	t.dismiss(key, s)
	abort(conn)
	if t.ctx.Err() == nil {
		t.log.Info("peer connection ended", "from", key.node, "kind", key.kind.String(), "err", err)
	}
}

// identify makes the TLS handshake, if there is one, and ours.
func (t *Transport) identify(conn net.Conn) (net.Conn, greeting, error) {
	if t.serverTLS == nil {
		if !IsLoopback(conn.RemoteAddr()) {
			return nil, greeting{}, ErrPlainAddress
		}
	} else {
		// The deadline of our own handshake covers TLS too: it is set first.
		if err := conn.SetDeadline(time.Now().Add(t.timing.handshake)); err != nil {
			return nil, greeting{}, err
		}
		secure := tls.Server(conn, t.serverTLS)
		if err := secure.HandshakeContext(t.ctx); err != nil {
			return nil, greeting{}, fmt.Errorf("TLS: %w", err)
		}
		conn = secure
	}
	hello, err := t.welcome(conn)
	return conn, hello, err
}

// pump hands over what arrives, and answers pings.
func (t *Transport) pump(key inboundKey, conn net.Conn) error {
	r := t.newReader(conn, key.node, t.timing.idle)
	var pong frameBuffer
	for {
		e, msgs, size, err := r.next()
		if err != nil {
			if errors.Is(err, ErrProtocol) || errors.Is(err, ErrWrongCluster) || errors.Is(err, ErrWrongNode) {
				t.counters.broken.Add(1)
			}
			return err
		}
		t.sample(key, e.Clock)
		if e.Count == 0 {
			frame := beginFrame(pong.get(frameHead))
			sealFrame(frame, t.envelope(0))
			if err := conn.SetWriteDeadline(time.Now().Add(t.timing.write)); err != nil {
				return err
			}
			if _, err := conn.Write(frame); err != nil {
				return fmt.Errorf("answer ping: %w", err)
			}
			continue
		}
		t.counters.received(len(msgs), size)
		if len(msgs) > 0 {
			t.cfg.Handler.HandleRaft(key.node, msgs)
		}
	}
}

func (t *Transport) roomFor(key inboundKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.inbound[key]
	return known || len(t.inbound) < 2*maxPeers
}

// adopt makes s the connection of its kind and waits for the older one to end,
// so that what it still hands over does not come between newer messages. It
// returns false when s is the older one.
func (t *Transport) adopt(key inboundKey, s *session) bool {
	t.mu.Lock()
	old := t.inbound[key]
	if old != nil && old.number > s.number {
		t.mu.Unlock()
		return false
	}
	t.inbound[key] = s
	t.mu.Unlock()
	if old != nil {
		abort(old.conn)
		<-old.done
	}
	return true
}

func (t *Transport) dismiss(key inboundKey, s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(s.done)
	if t.inbound[key] == s {
		delete(t.inbound, key)
	}
}

// refuse counts and logs a connection that did not get past its handshake,
// each reason of each host once until another one comes.
func (t *Transport) refuse(conn net.Conn, err error) {
	if t.ctx.Err() != nil || errors.Is(err, io.EOF) {
		return // probes of the port connect and say nothing
	}
	t.counters.refused.Add(1)
	host, _, splitErr := net.SplitHostPort(conn.RemoteAddr().String())
	if splitErr != nil {
		host = conn.RemoteAddr().String()
	}
	// The port changes with each attempt and would make every line new.
	reason := err.Error()
	var he *HandshakeError
	if errors.As(err, &he) {
		reason = he.Err.Error() + he.Got
	}
	t.mu.Lock()
	repeated := t.refusals[host] == reason
	if len(t.refusals) >= maxHandshakes {
		clear(t.refusals)
	}
	t.refusals[host] = reason
	t.mu.Unlock()
	if !repeated {
		t.log.Warn("refused a peer", "remote", conn.RemoteAddr().String(), "err", err)
	}
}

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// peer is another node as we reach it: a link of each kind.
type peer struct {
	node       uint64
	bulk, beat *link
}

// link keeps one outgoing connection to a peer: dial, handshake, write until
// it breaks, wait, again.
type link struct {
	t     *Transport
	node  uint64
	kind  kind
	queue *queue
	hurry chan struct{} // holds a token when a wait should end early

	mu    sync.Mutex
	conn  net.Conn // nil: down
	since time.Time
	err   error
	addr  string
}

func (t *Transport) newLink(node uint64, k kind, limit int) *link {
	return &link{t: t, node: node, kind: k, queue: newQueue(limit, t.cfg.MaxMessage), hurry: make(chan struct{}, 1), since: time.Now()}
}

func (l *link) run() {
	wait := l.t.timing.backoffMin
	for l.t.ctx.Err() == nil {
		began := time.Now()
		err := l.once()
		if l.t.ctx.Err() != nil {
			return
		}
		l.down(err)
		l.t.cfg.Handler.Unreachable(l.node)
		// A connection that held was no failed attempt; one that is accepted
		// and cut at once is.
		if time.Since(began) > l.t.timing.backoffMax {
			wait = l.t.timing.backoffMin
		}
		if !l.pause(wait) {
			return
		}
		wait = min(2*wait, l.t.timing.backoffMax)
	}
}

// once lives one connection from dial to end.
func (l *link) once() error {
	addr, ok := l.t.cfg.Resolve(l.node)
	if !ok {
		return ErrNoAddress
	}
	conn, welcome, err := l.dial(addr)
	if err != nil {
		return err
	}
	defer abort(conn)
	l.t.sample(inboundKey{node: l.node, kind: l.kind}, welcome.Clock)
	l.dropStale()
	l.up(conn, addr)
	return l.drive(conn)
}

func (l *link) dial(addr string) (net.Conn, greeting, error) {
	ctx, cancel := context.WithTimeout(l.t.ctx, l.t.timing.dial)
	defer cancel()
	raw, err := l.t.cfg.Dial(ctx, addr)
	if err != nil {
		return nil, greeting{}, fmt.Errorf("dial: %w", err)
	}
	stop := l.t.closeWithTransport(raw)
	defer stop()
	conn := raw
	switch {
	case l.t.clientTLS != nil:
		secure, err := l.secure(ctx, raw, addr)
		if err != nil {
			raw.Close()
			return nil, greeting{}, fmt.Errorf("TLS: %w", err)
		}
		conn = secure
	case !IsLoopback(raw.RemoteAddr()):
		raw.Close()
		return nil, greeting{}, fmt.Errorf("dial %s: %w", raw.RemoteAddr(), ErrPlainAddress)
	}
	welcome, err := l.t.greet(conn, l.node, l.kind)
	if err != nil {
		raw.Close()
		return nil, greeting{}, err
	}
	return conn, welcome, nil
}

func (l *link) secure(ctx context.Context, raw net.Conn, addr string) (net.Conn, error) {
	cfg := l.t.clientTLS
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	conn := tls.Client(raw, cfg)
	return conn, conn.HandshakeContext(ctx)
}

// drive writes until the connection breaks or the peer falls silent.
func (l *link) drive(conn net.Conn) error {
	stop := l.t.closeWithTransport(conn)
	defer stop()
	silent := make(chan error, 1)
	go func() { // ends with the connection, which once closes
		silent <- l.listen(conn)
		abort(conn) // a writer that is stuck must not wait for its deadline
	}()
	err := l.write(conn, silent)
	abort(conn)
	if heard := <-silent; err == nil || errors.Is(err, net.ErrClosed) {
		err = heard
	}
	return err
}

// write is the loop of the writing side.
func (l *link) write(conn net.Conn, silent chan error) error {
	w := &writer{link: l, conn: conn}
	defer w.endLarge()
	ticker := time.NewTicker(l.t.timing.ping)
	defer ticker.Stop()
	var lastLoss time.Time
	for {
		wrote, err := w.next()
		if err != nil {
			return err
		}
		if time.Since(lastLoss) > l.t.timing.ping && l.queue.overflow() {
			lastLoss = time.Now()
			l.t.cfg.Handler.Unreachable(l.node)
		}
		if wrote {
			// Under load the pings must still go: their answers prove the peer.
			select {
			case <-ticker.C:
				if err := w.ping(); err != nil {
					return err
				}
			default:
			}
			continue
		}
		select {
		case <-l.queue.wake:
		case <-ticker.C:
			if err := w.ping(); err != nil {
				return err
			}
		case err := <-silent:
			silent <- err // drive waits for it too
			return err
		case <-l.t.ctx.Done():
			return ErrClosed
		}
	}
}

// listen reads the answers to pings. On the beat connection silence means that
// the peer is gone, or that the way to it is; the bulk connection is given
// longer, because an answer waits behind the bytes that are in flight.
func (l *link) listen(conn net.Conn) error {
	silence := l.t.timing.silence
	if l.kind == kindBulk {
		silence = l.t.timing.bulkSilence
	}
	r := l.t.newReader(conn, l.node, silence)
	for {
		e, msgs, _, err := r.next()
		if err != nil {
			return fmt.Errorf("no answer from peer: %w", err)
		}
		if e.Count != 0 || len(msgs) != 0 {
			return protocolError("messages in an answer")
		}
		l.t.sample(inboundKey{node: l.node, kind: l.kind}, e.Clock)
	}
}

func (l *link) up(conn net.Conn, addr string) {
	l.mu.Lock()
	l.conn, l.addr, l.err, l.since = conn, addr, nil, time.Now()
	l.mu.Unlock()
	l.t.log.Info("peer connected", "node", l.node, "kind", l.kind.String(), "addr", addr)
}

func (l *link) down(err error) {
	l.mu.Lock()
	was, before := l.conn, l.err
	l.conn, l.err = nil, err
	if was != nil {
		l.since = time.Now()
	}
	l.mu.Unlock()
	l.t.counters.failures.Add(1)
	l.dropStale()
	if was != nil || before == nil || reason(before) != reason(err) {
		l.t.log.Warn("peer not connected", "node", l.node, "kind", l.kind.String(), "err", err)
	}
	// What the beat connection learnt holds for the peer: a bulk connection to
	// a dead peer would take far longer to notice.
	if was != nil && l.kind == kindBeat {
		l.t.cutBulk(l.node)
	}
}

// reason is an error's text without what changes from attempt to attempt.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + op.Err.Error()
	}
	return err.Error()
}

// cut closes the connection, if there is one; run makes a new one.
func (l *link) cut() {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		abort(conn)
	}
}

func (l *link) dropStale() {
	messages, bytes := l.queue.dropBefore(time.Now().Add(-l.t.timing.stale))
	l.t.counters.dropped(messages, bytes)
}

// pause waits for about d, or until the peer is known to be back, but never
// less than the shortest back-off: two nodes that cut each other's connections
// must not spin. The jitter keeps nodes that lost the same peer from returning
// in step.
func (l *link) pause(d time.Duration) bool {
	if !l.t.sleep(l.t.timing.backoffMin) {
		return false
	}
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.hurry:
	case <-l.t.ctx.Done():
		return false
	}
	return true
}

func (l *link) wakeUp() {
	select {
	case l.hurry <- struct{}{}:
	default:
	}
}

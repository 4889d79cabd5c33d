package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Transport is a node's end of all its peer links.
type Transport struct {
	cfg         Config
	timing      timing
	log         *slog.Logger
	fingerprint uint64
	began       time.Time // origin of monotonic time
	listener    net.Listener
	serverTLS   *tls.Config
	clientTLS   *tls.Config
	handshakes  chan struct{}
	counters    counters
	unsendable  sync.Once

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	inbound  map[inboundKey]*session
	refusals map[string]string // host to its last reason

	peersMu sync.RWMutex
	peers   map[uint64]*peer

	offsetsMu sync.Mutex
	offsets   map[uint64]*offsetWindow
}

// New loads the certificates and listens. Peers are accepted by Serve; links
// are dialed as soon as something is sent, or Connect asks for it.
func New(cfg Config) (*Transport, error) { return newTransport(cfg, defaultTiming()) }

func newTransport(cfg Config, timing timing) (*Transport, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	t := &Transport{
		cfg: cfg, timing: timing, log: cfg.Logger,
		fingerprint: Fingerprint(cfg.Cluster),
		began:       time.Now(),
		handshakes:  make(chan struct{}, maxHandshakes),
		inbound:     make(map[inboundKey]*session),
		refusals:    make(map[string]string),
		peers:       make(map[uint64]*peer),
		offsets:     make(map[uint64]*offsetWindow),
		listener:    cfg.Listener,
	}
	if err := t.prepare(); err != nil {
		if cfg.Listener != nil {
			err = errors.Join(err, cfg.Listener.Close())
		}
		return nil, err
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// prepare loads what New must not start without.
func (t *Transport) prepare() (err error) {
	if files := t.cfg.TLS; files != nil {
		if t.serverTLS, err = files.Server(); err != nil {
			return fmt.Errorf("peer TLS: %w", err)
		}
		if t.clientTLS, err = files.Client(); err != nil {
			return fmt.Errorf("peer TLS: %w", err)
		}
	}
	if t.cfg.Dial == nil {
		dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
		}}
		if t.cfg.TLS == nil {
			dialer.Control = loopbackOnly
		}
		t.cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", addr)
		}
	}
	if t.listener == nil {
		if t.listener, err = Listen(t.cfg.Listen, t.cfg.TLS != nil); err != nil {
			return fmt.Errorf("peer listener: %w", err)
		}
		return nil
	}
	if t.cfg.TLS == nil && !IsLoopback(t.listener.Addr()) {
		return fmt.Errorf("peer listener on %s: %w", t.listener.Addr(), ErrPlainAddress)
	}
	return nil
}

// Addr is the address that peers are accepted on.
func (t *Transport) Addr() net.Addr { return t.listener.Addr() }

// Send queues messages for a node. It never blocks and keeps no reference to
// the slice; the messages' entries must not change afterwards. What finds no
// room, may not be sent or has no peer is dropped and counted.
func (t *Transport) Send(node uint64, msgs []Message) {
	if len(msgs) == 0 {
		return
	}
	p := t.peer(node)
	if p == nil {
		t.counters.dropped(len(msgs), 0)
		return
	}
	unsent := 0
	for i := range msgs {
		if !carried(msgs[i].Raft.Type) {
			unsent++
		}
	}
	now := time.Now()
	dropped, bytes, oversized := p.beat.queue.push(msgs, now, goesOnBeat)
	t.counters.dropped(dropped, bytes)
	dropped, bytes, more := p.bulk.queue.push(msgs, now, goesOnBulk)
	t.counters.dropped(dropped, bytes)
	t.counters.dropped(unsent, 0)
	if unsent+oversized+more > 0 {
		// A fault of the caller's: every such message would say the same.
		t.unsendable.Do(func() {
			t.log.Error("raft messages can't be sent: their type is not carried or they exceed MaxMessage",
				"node", node, "not_carried", unsent, "oversized", oversized+more)
		})
	}
}

// Connect opens the links to a node before there is something to send, so
// that its clock is known and the first message does not wait.
func (t *Transport) Connect(node uint64) { t.peer(node) }

// peer returns the node's links, made on first use; nil when the node can't
// be a peer.
func (t *Transport) peer(node uint64) *peer {
	t.peersMu.RLock()
	p := t.peers[node]
	t.peersMu.RUnlock()
	if p != nil || node == t.cfg.Node || node == 0 {
		return p
	}
	t.peersMu.Lock()
	defer t.peersMu.Unlock()
	if p = t.peers[node]; p != nil || len(t.peers) >= maxPeers {
		return p
	}
	p = &peer{
		node: node,
		bulk: t.newLink(node, kindBulk, t.cfg.QueueBytes),
		beat: t.newLink(node, kindBeat, t.cfg.QueueBytes/8),
	}
	if !t.spawn(p.bulk.run) || !t.spawn(p.beat.run) {
		return nil
	}
	t.peers[node] = p
	return p
}

// hurry ends the back-off of a node's links, which are made if need be.
func (t *Transport) hurry(node uint64) {
	if _, ok := t.cfg.Resolve(node); !ok {
		return
	}
	if p := t.peer(node); p != nil {
		p.bulk.wakeUp()
		p.beat.wakeUp()
	}
}

func (t *Transport) cutBulk(node uint64) {
	t.peersMu.RLock()
	p := t.peers[node]
	t.peersMu.RUnlock()
	if p != nil {
		p.bulk.cut()
	}
}

func (t *Transport) envelope(count int) envelope {
	return envelope{Cluster: t.fingerprint, Sender: t.cfg.Node, Clock: t.cfg.Clock().UnixMilli(), Count: uint32(count)}
}

// spawn starts a goroutine that Close waits for.
func (t *Transport) spawn(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(f)
	return true
}

// closeWithTransport closes conn when the transport closes, until stop.
func (t *Transport) closeWithTransport(conn net.Conn) (stop func() bool) {
	return context.AfterFunc(t.ctx, func() { abort(conn) })
}

// abort closes the socket at once. Closing a TLS connection in good manners
// writes to a peer that may not read, and can take seconds.
func abort(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	conn.Close()
}

func (t *Transport) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// Close stops accepting, closes all connections and waits for their
// goroutines, at the longest until ctx ends. Queued messages are dropped.
func (t *Transport) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	err := t.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	done := make(chan struct{})
	go func() {
		t.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("close peer links: %w", ctx.Err())
	}
}

package cluster

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Fault is what happens to bytes on their way from one node to another.
type Fault int

const (
	Pass   Fault = iota
	Refuse       // connections end, and new ones end at once
	Hold         // bytes stay on their way; nobody is told
)

type pair struct{ from, to int }

// Network carries everything that nodes say to each other and to clients.
// Nodes are named by their index, clients by outside.
type Network struct {
	mu      sync.Mutex
	faults  map[pair]Fault
	delays  map[pair]time.Duration
	down    map[int]bool
	routes  map[*conn]struct{}
	changed chan struct{} // closed at each change
	closed  bool
	work    sync.WaitGroup
}

const outside = -1

// NewNetwork returns a network without faults that ends with the test.
func NewNetwork(t testing.TB) *Network {
	n := &Network{
		faults: map[pair]Fault{}, delays: map[pair]time.Duration{}, down: map[int]bool{},
		routes: map[*conn]struct{}{}, changed: make(chan struct{}),
	}
	t.Cleanup(n.close)
	return n
}

// Set puts a fault on one direction.
func (n *Network) Set(from, to int, f Fault) {
	n.update(func() { n.faults[pair{from, to}] = f })
}

// Isolate puts a fault on both directions between one node and the others.
func (n *Network) Isolate(node, nodes int, f Fault) {
	n.update(func() {
		for i := range nodes {
			if i != node {
				n.faults[pair{i, node}], n.faults[pair{node, i}] = f, f
			}
		}
	})
}

// Delay holds up every piece of one direction.
func (n *Network) Delay(from, to int, d time.Duration) {
	n.update(func() { n.delays[pair{from, to}] = d })
}

// Heal takes all faults away; nodes that are down stay down.
func (n *Network) Heal() {
	n.update(func() { clear(n.faults); clear(n.delays) })
}

// SetDown cuts a node off from everyone, clients included.
func (n *Network) SetDown(node int, down bool) {
	n.update(func() { n.down[node] = down })
}

func (n *Network) update(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	for c := range n.routes {
		if n.refuses(c.pair) {
			c.end()
		}
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *Network) refuses(p pair) bool {
	return n.closed || n.down[p.from] || n.down[p.to] ||
		n.faults[p] == Refuse || n.faults[pair{p.to, p.from}] == Refuse
}

func (n *Network) close() {
	n.update(func() { n.closed = true })
	n.work.Wait()
}

// Proxy is one address in front of one of a node's planes.
type Proxy struct {
	Addr string
	net  *Network
	node int
	// peers: who dials is read from the greeting of the peer protocol.
	peers    bool
	listener net.Listener
	mu       sync.Mutex
	target   string
}

// Listen opens a proxy for a plane of node. Its target is set when it is known.
func (n *Network) Listen(t testing.TB, node int, peers bool) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), net: n, node: node, peers: peers, listener: l}
	t.Cleanup(func() { _ = l.Close() })
	n.work.Go(p.accept)
	return p
}

// SetTarget says where the plane listens now.
func (p *Proxy) SetTarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.net.work.Go(func() { p.serve(c) })
	}
}

func (p *Proxy) serve(in net.Conn) {
	defer in.Close()
	var hello []byte
	from := outside
	if p.peers {
		var err error
		if hello, from, err = readHello(in); err != nil {
			return
		}
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	if target == "" {
		return
	}
	out, err := net.DialTimeout("tcp", target, 3*time.Second)
	if err != nil {
		return
	}
	defer out.Close()
	c := &conn{pair: pair{from, p.node}, in: in, out: out, done: make(chan struct{})}
	if !p.net.add(c) {
		return
	}
	defer p.net.remove(c)
	var pumps sync.WaitGroup
	pumps.Go(func() { p.net.pump(c, in, out, hello, c.pair) })
	pumps.Go(func() { p.net.pump(c, out, in, nil, pair{p.node, from}) })
	pumps.Wait()
}

// readHello reads the greeting that a peer link begins with
// (docs/formats/peer.md) and returns it with the index of the node that dialed:
// the harness lets nodes join in order, so node id i+1 is node i.
func readHello(c net.Conn) (hello []byte, from int, err error) {
	const head = 33
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	hello = make([]byte, head)
	if _, err = io.ReadFull(c, hello); err != nil {
		return nil, 0, err
	}
	rest := make([]byte, int(hello[head-1])+4)
	if _, err = io.ReadFull(c, rest); err != nil {
		return nil, 0, err
	}
	return append(hello, rest...), int(binary.LittleEndian.Uint64(hello[8:])) - 1, nil
}

// conn is one connection through a proxy.
type conn struct {
	pair    pair
	in, out net.Conn
	once    sync.Once
	done    chan struct{}
}

func (c *conn) end() {
	c.once.Do(func() {
		close(c.done)
		_ = c.in.Close()
		_ = c.out.Close()
	})
}

func (n *Network) add(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuses(c.pair) {
		return false
	}
	n.routes[c] = struct{}{}
	return true
}

func (n *Network) remove(c *conn) {
	c.end()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.routes, c)
}

// pump carries one direction of a connection.
func (n *Network) pump(c *conn, src, dst net.Conn, first []byte, dir pair) {
	defer c.end()
	buf := make([]byte, 64<<10)
	for data := first; ; {
		if len(data) > 0 {
			if !n.travel(c, dir) {
				return
			}
			if _, err := dst.Write(data); err != nil {
				return
			}
		}
		k, err := src.Read(buf)
		if k == 0 && err != nil {
			return
		}
		data = buf[:k]
	}
}

// travel returns when a piece has arrived; false when it never will.
func (n *Network) travel(c *conn, dir pair) bool {
	n.mu.Lock()
	delay := n.delays[dir]
	n.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.done:
			return false
		}
	}
	for {
		n.mu.Lock()
		held, changed := n.faults[dir] == Hold, n.changed
		n.mu.Unlock()
		if !held {
			return true
		}
		select {
		case <-changed:
		case <-c.done:
			return false
		}
	}
}

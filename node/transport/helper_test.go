package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// patience bounds every wait of the tests; it is not reached when they pass.
const patience = time.Minute

// quick pings and retries often, and gives nothing up because the machine is
// loaded: messages are lost only where a test makes it so.
func quick() timing {
	t := defaultTiming()
	t.ping = 50 * time.Millisecond
	t.backoffMax = 200 * time.Millisecond
	t.silence, t.bulkSilence, t.write, t.idle, t.body, t.stale = patience, patience, patience, patience, patience, patience
	return t
}

// recorder is a Handler that keeps what it gets.
type recorder struct {
	mu          sync.Mutex
	changed     chan struct{} // closed at each change
	batches     [][]Message
	from        []uint64
	unreachable map[uint64]int
}

func newRecorder() *recorder {
	return &recorder{changed: make(chan struct{}), unreachable: make(map[uint64]int)}
}

func (r *recorder) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) HandleRaft(from uint64, msgs []Message) {
	r.note(func() {
		r.batches = append(r.batches, msgs)
		r.from = append(r.from, from)
	})
}

func (r *recorder) Unreachable(node uint64) { r.note(func() { r.unreachable[node]++ }) }

func (r *recorder) messages() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.batches...)
}

func (r *recorder) losses(node uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unreachable[node]
}

// await waits until done holds, which is tried after each change.
func (r *recorder) await(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

func (r *recorder) awaitMessages(t testing.TB, n int) []Message {
	t.Helper()
	r.await(t, "messages", func() bool { return len(r.messages()) >= n })
	return r.messages()
}

// poll waits for something that no handler tells.
func poll(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// directory is the Resolve of a test's nodes.
type directory struct {
	mu    sync.Mutex
	addrs map[uint64]string
}

func newDirectory() *directory { return &directory{addrs: make(map[uint64]string)} }

func (d *directory) set(node uint64, addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs[node] = addr
}

func (d *directory) resolve(node uint64) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	addr, ok := d.addrs[node]
	return addr, ok
}

type testNode struct {
	*Transport
	*recorder
	log *logBuffer
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// startNode runs a node on loopback and enters it into the directory.
func startNode(t testing.TB, d *directory, id uint64, change ...func(*Config, *timing)) *testNode {
	t.Helper()
	n := &testNode{recorder: newRecorder(), log: new(logBuffer)}
	cfg := Config{
		Cluster: "test", Node: id, Listen: "127.0.0.1:0", Handler: n.recorder, Resolve: d.resolve,
		Logger: slog.New(slog.NewTextHandler(n.log, nil)),
	}
	tm := quick()
	for _, f := range change {
		f(&cfg, &tm)
	}
	tr, err := newTransport(cfg, tm)
	if err != nil {
		t.Fatal(err)
	}
	n.Transport = tr
	if _, known := d.resolve(id); !known {
		d.set(id, tr.Addr().String())
	}
	served := make(chan error, 1)
	go func() { served <- tr.Serve() }()
	t.Cleanup(func() {
		n.stop(t)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return n
}

func (n *testNode) stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// awaitUp waits until n's links to node are connected.
func (n *testNode) awaitUp(t testing.TB, node uint64) {
	t.Helper()
	n.Connect(node)
	poll(t, "links to come up", func() bool { return n.peerStatus(node).Up })
}

func (n *testNode) peerStatus(node uint64) PeerStatus {
	for _, p := range n.Peers() {
		if p.Node == node {
			return p
		}
	}
	return PeerStatus{}
}

// checkGoroutines fails when the test leaves goroutines of this package.
func checkGoroutines(t testing.TB) {
	t.Cleanup(func() {
		var stacks string
		poll(t, "goroutines to end", func() bool {
			b := make([]byte, 1<<20)
			stacks = string(b[:runtime.Stack(b, true)])
			return !strings.Contains(stacks, "transport.(*Transport)") && !strings.Contains(stacks, "transport.(*link)")
		})
	})
}

func heartbeat(group uint32, commit uint64) Message {
	return Message{Group: group, Raft: raftpb.Message{Type: raftpb.MsgHeartbeat, From: 1, To: 2, Term: 3, Commit: commit}}
}

func appendOf(group uint32, index uint64, size int) Message {
	data := bytes.Repeat([]byte{byte(index)}, size)
	return Message{Group: group, Raft: raftpb.Message{
		Type: raftpb.MsgApp, From: 1, To: 2, Term: 3, LogTerm: 3, Index: index - 1,
		Entries: []raftpb.Entry{{Term: 3, Index: index, Data: data}},
	}}
}

// proxy forwards TCP until it is told to swallow what comes, as a machine that
// lost its power or a path that drops packets does.
type proxy struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	thawed *sync.Cond
	frozen bool
	closed bool
	conns  []net.Conn
	wg     sync.WaitGroup
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target}
	p.thawed = sync.NewCond(&p.mu)
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.thawed.Broadcast()
		l.Close()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		if p.closed {
			in.Close()
			out.Close()
		}
		p.mu.Unlock()
		p.wg.Go(func() { p.copy(in, out) })
		p.wg.Go(func() { p.copy(out, in) })
	}
}

func (p *proxy) copy(from, to net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		for p.frozen && !p.closed {
			p.thawed.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				from.Close()
			}
			to.Close()
			return
		}
	}
}

func (p *proxy) freeze(frozen bool) {
	p.mu.Lock()
	p.frozen = frozen
	p.mu.Unlock()
	p.thawed.Broadcast()
}

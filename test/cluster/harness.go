package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnel.dev/runnel/node"
	"runnel.dev/runnel/node/adminapi"
)

// Patience bounds every wait of the package for something that must happen.
const Patience = 60 * time.Second

// Rounds is how often a test repeats its faults: few, or RUNNEL_ROUNDS.
func Rounds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("RUNNEL_ROUNDS")); err == nil && n > 0 {
		return n
	}
	return few
}

// Seed returns the source of a test's choices and logs its seed; RUNNEL_SEED
// repeats one.
func Seed(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("RUNNEL_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("RUNNEL_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// Cluster is a cluster of nodes in this process.
type Cluster struct {
	ID     string
	Token  string
	Groups uint32
	RF     int
	Net    *Network
	Nodes  []*Node
	t      testing.TB
}

// Node is one node of a Cluster through all its starts.
type Node struct {
	cluster *Cluster
	index   int
	fs      *powerFS
	skew    atomic.Int64
	join    []int

	client, admin, peer *Proxy

	log io.Writer
	// started ends when a start in the background does.
	started chan error

	mu      sync.Mutex
	running *node.Node
	// powerless: what the node says about its end does not count any more.
	powerless *atomic.Bool
}

// New returns a cluster whose nodes are not started.
func New(t testing.TB, nodes, rf int, groups uint32) *Cluster {
	t.Helper()
	c := &Cluster{ID: "test-cluster", Token: "init-token", Groups: groups, RF: rf, Net: NewNetwork(t), t: t}
	for range nodes {
		c.Add()
	}
	t.Cleanup(func() {
		for _, n := range c.Nodes {
			n.Stop()
		}
	})
	return c
}

// Form starts all nodes, lets them join in order and waits for the groups.
func Form(t testing.TB, nodes, rf int, groups uint32) *Cluster {
	t.Helper()
	c := New(t, nodes, rf, groups)
	for i, n := range c.Nodes {
		n.Start()
		if i == 0 {
			c.Init()
		}
		n.AwaitMember()
	}
	c.AwaitReady()
	return c
}

// Add makes one more node, whose join list names all the others that are there.
func (c *Cluster) Add() *Node {
	i := len(c.Nodes)
	n := &Node{cluster: c, index: i, fs: newPowerFS()}
	n.client, n.admin, n.peer = c.Net.Listen(c.t, i, false), c.Net.Listen(c.t, i, false), c.Net.Listen(c.t, i, true)
	for k := range c.Nodes {
		n.join = append(n.join, k)
	}
	n.log = io.Discard
	if os.Getenv("RUNNEL_NODE_LOGS") != "" {
		n.log = os.Stderr
	}
	c.Nodes = append(c.Nodes, n)
	return n
}

// InitRequest is the request that forms the cluster.
func (c *Cluster) InitRequest() adminapi.InitRequest {
	return adminapi.InitRequest{ClusterID: c.ID, Token: c.Token, Groups: c.Groups, ReplicationFactor: c.RF, Nodes: c.RF}
}

// Init forms the cluster on its first node.
func (c *Cluster) Init() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	client := c.Nodes[0].AdminClient()
	defer client.Close()
	if _, err := client.Init(ctx, c.InitRequest()); err != nil {
		c.t.Fatalf("init: %v", err)
	}
}

// URLs returns the base URLs of all nodes.
func (c *Cluster) URLs() []string {
	var out []string
	for _, n := range c.Nodes {
		out = append(out, n.URL())
	}
	return out
}

// AwaitReady returns when every running node knows a leader of each of its groups.
func (c *Cluster) AwaitReady() {
	c.t.Helper()
	for _, n := range c.Nodes {
		if r := n.current(); r != nil {
			ctx, cancel := context.WithTimeout(context.Background(), Patience)
			err := r.WaitReady(ctx)
			cancel()
			if err != nil {
				c.t.Fatalf("node %d: %v; status %+v", n.index, err, n.Status())
			}
		}
	}
}

// Eventually polls until done says true.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !EventuallyWithin(Patience, done) {
		t.Fatalf("%s: not within %v", what, Patience)
	}
}

// EventuallyWithin polls until done says true or the time is over.
func EventuallyWithin(d time.Duration, done func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); ; <-tick.C {
		if done() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// URL is the node's base URL, the same through all its starts.
func (n *Node) URL() string { return "http://" + n.client.Addr }

// Skew sets the node's clock apart from the true one.
func (n *Node) Skew(d time.Duration) { n.skew.Store(int64(d)) }

func (n *Node) now() time.Time { return time.Now().Add(time.Duration(n.skew.Load())) }

// Config is what the node is started with.
func (n *Node) Config() node.Config {
	cfg := node.Config{
		DataDir: "/data",
		Zone:    fmt.Sprintf("zone-%d", n.index),
		Client:  node.Client{Listen: "127.0.0.1:0", URL: n.URL()},
		Admin:   node.Plane{Listen: "127.0.0.1:0", Advertise: n.admin.Addr},
		Peer:    node.Plane{Listen: "127.0.0.1:0", Advertise: n.peer.Addr},
		Health:  "127.0.0.1:0",
		Limits:  node.Limits{BlockCacheBytes: 8 << 20, RecordCacheBytes: 4 << 20, LogCacheBytes: 8 << 20},
		FS:      n.fs,
		Clock:   n.now,
		Logger:  slog.New(slog.NewTextHandler(n.log, nil)).With("n", n.index),
	}
	for _, k := range n.join {
		cfg.Join = append(cfg.Join, n.cluster.Nodes[k].admin.Addr)
	}
	return cfg
}

// TryStart starts the node and returns why it refuses.
func (n *Node) TryStart() error {
	cfg := n.Config()
	// The listeners are opened here, so that the proxies know where to.
	for _, l := range []struct {
		proxy *Proxy
		addr  *string
	}{{n.client, &cfg.Client.Listen}, {n.admin, &cfg.Admin.Listen}, {n.peer, &cfg.Peer.Listen}} {
		*l.addr = freeAddr(n.cluster.t)
		l.proxy.SetTarget(*l.addr)
	}
	powerless := new(atomic.Bool)
	cfg.OnFatal = func(err error) {
		if !powerless.Load() {
			n.cluster.t.Errorf("node %d stops: %v", n.index, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	n.cluster.Net.SetDown(n.index, false)
	r, err := node.Start(ctx, cfg)
	if err != nil {
		n.cluster.Net.SetDown(n.index, true)
		return err
	}
	n.mu.Lock()
	n.running, n.powerless = r, powerless
	n.mu.Unlock()
	return nil
}

// Start starts the node, which must not refuse.
func (n *Node) Start() {
	n.cluster.t.Helper()
	if err := n.TryStart(); err != nil {
		n.cluster.t.Fatalf("start node %d: %v", n.index, err)
	}
}

func (n *Node) current() *node.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running
}

// Stop ends the node in order. Its data stays.
func (n *Node) Stop() {
	n.mu.Lock()
	r := n.running
	n.running = nil
	n.mu.Unlock()
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		n.cluster.t.Errorf("shutdown of node %d: %v", n.index, err)
	}
	n.cluster.Net.SetDown(n.index, true)
}

// PowerLoss ends the nodes as a loss of power at one moment would. They are
// started again by Start.
func PowerLoss(rng *rand.Rand, nodes ...*Node) {
	var restores []func()
	for _, n := range nodes {
		left, restore := n.fs.cut(rng)
		n.fs = left
		restores = append(restores, restore)
	}
	var ends sync.WaitGroup
	for i, n := range nodes {
		n.cluster.Net.SetDown(n.index, true)
		n.mu.Lock()
		r := n.running
		n.running = nil
		n.mu.Unlock()
		if r == nil {
			restores[i]()
			continue
		}
		n.powerless.Store(true)
		ends.Go(func() {
			// The node ends without a word: its time is over before it begins.
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			var ended sync.WaitGroup
			ended.Go(func() { _ = r.Shutdown(ctx) })
			n.awaitSilence()
			restores[i]()
			ended.Wait()
		})
	}
	ends.Wait()
}

// abandon ends what a start that was overtaken by a power loss has left.
func (n *Node) abandon() {
	n.mu.Lock()
	r := n.running
	n.running = nil
	if n.powerless != nil {
		n.powerless.Store(true)
	}
	n.mu.Unlock()
	n.cluster.Net.SetDown(n.index, true)
	if r != nil {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		_ = r.Shutdown(ctx)
	}
}

// awaitSilence returns when the ending node has let go of its peer plane, after
// which it says nothing to anyone. One that the power loss caught on its way to
// be a member can't before its disk goes on; it has no peers yet.
func (n *Node) awaitSilence() {
	n.peer.mu.Lock()
	target := n.peer.target
	n.peer.mu.Unlock()
	EventuallyWithin(2*time.Second, func() bool {
		c, err := net.DialTimeout("tcp", target, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
}

// AdminClient returns a client of the node's admin plane.
func (n *Node) AdminClient() *adminapi.Client {
	return adminapi.NewClient(n.admin.Addr, adminapi.Options{Timeout: 10 * time.Second})
}

// Status asks the node; the zero value when it does not answer.
func (n *Node) Status() adminapi.Status {
	c := n.AdminClient()
	defer c.Close()
	s, _ := c.Status(context.Background())
	return s
}

// AwaitMember returns when the node knows who it is.
func (n *Node) AwaitMember() {
	n.cluster.t.Helper()
	Eventually(n.cluster.t, fmt.Sprintf("node %d is a member", n.index), func() bool {
		return n.Status().NodeID != 0
	})
}

// freeAddr picks a free port below those that outgoing connections take.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 200 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		l, err := net.Listen("tcp", addr)
		if err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// freePorts picks a run of ports none of which is taken.
func freePorts(t testing.TB, count int) int {
	t.Helper()
	for range 200 {
		base := 20000 + rand.IntN(10000-count)
		free := true
		for i := range count {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+i))
			if err != nil {
				free = false
				break
			}
			_ = l.Close()
		}
		if free {
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"runnel.dev/runnel/node/apply"
	"runnel.dev/runnel/node/basestore"
	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/meta"
)

// Node is one stream node.
type Node struct {
	cfg   Config
	log   *slog.Logger
	token string

	store    *basestore.Store
	registry *live.Registry
	machine  *apply.Machine

	// who is the persisted identity, nil for an empty node; written under joining.
	// It is set before the admin plane opens, long before member is: a node that
	// replays its log must not pass for an empty one.
	who atomic.Pointer[identity]
	// member is set once the node belongs to a cluster and its groups run.
	member atomic.Pointer[member]
	// joining guards the way from empty to member: one at a time, and none once
	// the node has ended.
	joining sync.Mutex
	ended   bool

	clientListener net.Listener
	planes         planes

	// Word that the meta group's state or some leadership changed, for the two
	// loops that act on it.
	replicaWork, metaWork chan struct{}
	// life is the context of everything the node runs; stop ends it.
	life      context.Context
	stop      context.CancelFunc
	work      sync.WaitGroup
	fatalOnce sync.Once
}

// Start opens the data directory and starts the node. An error says what is
// wrong and what to do; nothing is left running after one.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &Node{
		cfg:         cfg,
		log:         cfg.Logger,
		registry:    live.NewRegistry(live.Limits{}),
		replicaWork: make(chan struct{}, 1),
		metaWork:    make(chan struct{}, 1),
		life:        life,
		stop:        stop,
	}
	if err := n.open(); err != nil {
		_ = n.Shutdown(ctx)
		return nil, err
	}
	return n, nil
}

// open goes as far as the data directory and the configuration allow: a member
// serves, an empty node joins or waits.
func (n *Node) open() error {
	if err := n.loadClientTLS(); err != nil {
		return err
	}
	id, err := n.openStore()
	if err != nil {
		return err
	}
	if n.clientListener, err = net.Listen("tcp", n.cfg.Client.Listen); err != nil {
		return fmt.Errorf("client.listen: %w", err)
	}
	n.cfg.resolve(n.clientListener.Addr())
	// Held until the node is what its data says: an init or a join that the admin
	// plane takes meanwhile waits and then meets a member.
	n.joining.Lock()
	defer n.joining.Unlock()
	if err := n.openPlanes(); err != nil {
		return err
	}
	switch {
	case id != nil:
		return n.become(n.life, id)
	case len(n.cfg.Join) > 0:
		n.work.Go(func() { n.joinLoop(n.life) })
	default:
		n.log.Info("empty: waiting for init", "admin", n.cfg.Admin.Advertise)
	}
	return nil
}

// openStore opens the base store and returns the node's identity, nil when it
// is empty.
func (n *Node) openStore() (id *identity, err error) {
	n.makeRoom()
	n.store, err = basestore.Open(basestore.Options{
		FS:               n.cfg.FS,
		Dir:              n.baseDir(),
		CacheBytes:       n.cfg.Limits.BlockCacheBytes,
		RecordCacheBytes: n.cfg.Limits.RecordCacheBytes,
		Logger:           n.log,
		OnFatal:          n.fatal,
	})
	if errors.Is(err, syscall.EAGAIN) {
		return nil, fmt.Errorf("%s is in use by another process: a data directory belongs to one node (%w)", n.cfg.DataDir, err)
	}
	if err != nil {
		return nil, err
	}
	if n.token, err = loadToken(n.store); err != nil {
		return nil, fmt.Errorf("join token: %w", err)
	}
	if n.machine, err = apply.New(n.store, n.registry, n.metaApplied); err != nil {
		return nil, err
	}
	if id, err = loadIdentity(n.store); err != nil {
		return nil, err
	}
	n.who.Store(id)
	return id, n.checkLog(id != nil)
}

func (n *Node) baseDir() string { return filepath.Join(n.cfg.DataDir, "base") }

// resolve fills the advertised addresses that were left open.
func (c *Config) resolve(client net.Addr) {
	c.Client.Listen = client.String()
	if c.Client.URL == "" {
		scheme := "http://"
		if c.Client.Cert != "" {
			scheme = "https://"
		}
		c.Client.URL = scheme + c.Client.Listen
	}
}

// addresses are what the node tells the cluster about itself.
func (n *Node) addresses() meta.Addresses {
	return meta.Addresses{Client: n.cfg.Client.URL, Admin: n.cfg.Admin.Advertise, Peer: n.cfg.Peer.Advertise}
}

// URL returns the base URL of the client plane.
func (n *Node) URL() string { return n.cfg.Client.URL }

// AdminAddr returns the host:port of the admin plane.
func (n *Node) AdminAddr() string { return n.cfg.Admin.Advertise }

// HealthAddr returns the host:port of the health plane, empty when off.
func (n *Node) HealthAddr() string { return n.cfg.Health }

// fatal reports the first error after which the node must not go on.
func (n *Node) fatal(err error) {
	n.fatalOnce.Do(func() {
		n.log.Error("the node stops: it can't go on with what it has", "err", err)
		if n.cfg.OnFatal != nil {
			n.cfg.OnFatal(err)
		}
	})
}

// Shutdown ends the node: no new requests, leaders moved where that is quick,
// what is applied made durable. ctx bounds what may be left out: handing over,
// requests in progress and the groups' last work. Closing the log and the store
// after that takes as long as the disk does.
func (n *Node) Shutdown(ctx context.Context) error {
	if m := n.member.Load(); m != nil {
		m.handOver(ctx)
	} else {
		n.stop() // a join in progress ends
	}
	n.joining.Lock()
	n.ended = true
	n.joining.Unlock()
	n.registry.EndAll(live.Stopped)
	errs := []error{n.closePlanes(ctx)}
	n.stop()
	if m := n.member.Load(); m != nil {
		errs = append(errs, m.close(ctx))
	}
	n.work.Wait()
	if n.clientListener != nil {
		_ = n.clientListener.Close()
	}
	if n.store != nil {
		if _, err := n.store.Sync(); err != nil {
			errs = append(errs, err)
		}
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}

// metaApplied runs on the goroutine that applies: it only leaves word.
func (n *Node) metaApplied(*meta.State) {
	for _, c := range []chan struct{}{n.replicaWork, n.metaWork} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

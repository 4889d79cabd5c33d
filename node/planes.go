package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"runnel.dev/runnel/node/admin"
	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/streamhttp"
	"runnel.dev/runnel/node/transport"
)

// planes are the servers of a node.
type planes struct {
	client    *http1.Server
	clientTLS *tls.Config // nil for plain HTTP
	admin     *admin.Server
	health    *http.Server
	// peer waits for the node to become a member, which serves it.
	peer net.Listener
}

// openPlanes listens on the inner planes and serves admin and health, so that
// a port that is taken is said before anything else happens.
func (n *Node) openPlanes() error {
	secure := n.cfg.TLS != nil
	peer, err := transport.Listen(n.cfg.Peer.Listen, secure)
	if err != nil {
		return fmt.Errorf("peer.listen: %w", err)
	}
	n.planes.peer = peer
	advertise(&n.cfg.Peer, peer.Addr())
	n.planes.admin, err = admin.Listen(n.cfg.Admin.Listen, n.cfg.TLS, (*adminNode)(n), n.log)
	if err != nil {
		return fmt.Errorf("admin.listen: %w", err)
	}
	advertise(&n.cfg.Admin, n.planes.admin.Addr())
	n.serve("admin", n.planes.admin.Serve)
	if n.cfg.Health == "" {
		return nil
	}
	l, err := net.Listen("tcp", n.cfg.Health)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	n.cfg.Health = l.Addr().String()
	n.planes.health = &http.Server{
		Handler:           n.healthHandler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // a profile takes its time
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	n.serve("health", func() error { return n.planes.health.Serve(l) })
	return nil
}

// advertise fills a plane's address once its port is known.
func advertise(p *Plane, addr net.Addr) {
	p.Listen = addr.String()
	if p.Advertise == "" {
		p.Advertise = p.Listen
	}
}

// serve runs a plane until it is shut down.
func (n *Node) serve(plane string, serve func() error) {
	n.work.Go(func() {
		err := serve()
		if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, http1.ErrServerClosed) {
			n.log.Error("plane ended", "plane", plane, "err", err)
		}
	})
}

// serveClients opens the client plane of a member.
func (n *Node) serveClients(m *member) {
	s := &http1.Server{
		Handler: streamhttp.New(m, streamhttp.Config{LiveReaders: n.cfg.Limits.LiveReaders}),
		Limits:  http1.Limits{MaxConns: n.cfg.Client.Connections},
		Logger:  n.log,
	}
	serve := func() error { return s.Serve(n.clientListener) }
	if cfg := n.planes.clientTLS; cfg != nil {
		serve = func() error { return s.ServeTLS(n.clientListener, cfg) }
	}
	n.planes.client = s
	n.serve("client", serve)
}

// loadClientTLS reads the client plane's certificate, so that a wrong one ends
// the start and not a membership that was just taken.
func (n *Node) loadClientTLS() error {
	if n.cfg.Client.Cert == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(n.cfg.Client.Cert, n.cfg.Client.Key)
	if err != nil {
		return fmt.Errorf("client.cert: %w", err)
	}
	n.planes.clientTLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	return nil
}

// closePlanes lets requests in progress end, clients' first.
func (n *Node) closePlanes(ctx context.Context) error {
	// Streams end when their watches do; a client that holds on is cut.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if s := n.planes.client; s != nil && s.Shutdown(ctx) != nil {
		_ = s.Close()
	}
	if s := n.planes.health; s != nil && s.Shutdown(ctx) != nil {
		_ = s.Close()
	}
	if n.planes.admin != nil {
		_ = n.planes.admin.Close(ctx)
	}
	if n.planes.peer != nil && n.member.Load() == nil {
		_ = n.planes.peer.Close() // a member's transport closes it
	}
	return nil
}

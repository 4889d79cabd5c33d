package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves a Handler. Set the exported fields before the first Serve.
type Server struct {
	Handler Handler
	Limits  Limits
	// Logger gets handler panics and accept failures; nil means slog.Default.
	Logger *slog.Logger

	dateCache
	limits   Limits // with defaults
	shutting atomic.Bool
	open     atomic.Int64 // connections, whoever serves them

	mu        sync.Mutex
	started   bool
	h2c       *offered
	standard  []*http.Server // those that serve HTTP/2 and TLS
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	wg        sync.WaitGroup // lean connections
}

// Serve accepts clear-text connections from l until Shutdown or Close and
// returns ErrServerClosed then. HTTP/1.x is served by the lean loop, HTTP/2
// with prior knowledge by net/http. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if err := s.start(l); err != nil {
		l.Close()
		return err
	}
	defer s.forget(l)
	return s.accept(l, turnedAway, s.serveLean)
}

// ServeTLS accepts TLS connections, HTTP/1.1 and HTTP/2, served by net/http.
// cfg has the certificates. It closes l.
func (s *Server) ServeTLS(l net.Listener, cfg *tls.Config) error {
	if err := s.start(l); err != nil {
		l.Close()
		return err
	}
	defer s.forget(l)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	hs := s.newStandard(&protocols)
	hs.TLSConfig = cfg.Clone()
	conns := newOffered(l.Addr())
	ended := make(chan error, 1)
	go func() {
		ended <- hs.ServeTLS(conns, "", "")
		_ = conns.Close()
		l.Close()
	}()
	err := s.accept(l, "", func(nc net.Conn) { s.offerCounted(conns, nc) })
	_ = conns.Close()
	if served := <-ended; !s.shutting.Load() && !errors.Is(served, net.ErrClosed) {
		return served
	}
	return err
}

// start registers a listener, and what all listeners share the first time.
func (s *Server) start(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutting.Load() {
		return ErrServerClosed
	}
	if !s.started {
		s.started = true
		s.limits = s.Limits.withDefaults()
		s.listeners = make(map[net.Listener]struct{})
		s.conns = make(map[*conn]struct{})
		s.h2c = newOffered(l.Addr())
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		hs := s.newStandardLocked(&protocols)
		go func() { _ = hs.Serve(s.h2c) }() // ends with ErrServerClosed
	}
	s.listeners[l] = struct{}{}
	return nil
}

func (s *Server) forget(l net.Listener) {
	l.Close()
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
}

func (s *Server) newStandard(p *http.Protocols) *http.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newStandardLocked(p)
}

func (s *Server) newStandardLocked(p *http.Protocols) *http.Server {
	lim := &s.limits
	hs := &http.Server{
		Handler:           newAdapter(s.Handler, s.limits, s.logger()),
		Protocols:         p,
		ReadHeaderTimeout: lim.HeadTimeout,
		IdleTimeout:       lim.IdleTimeout,
		MaxHeaderBytes:    lim.MaxHeadBytes,
		ErrorLog:          slog.NewLogLogger(s.logger().Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			SendPingTimeout:      lim.IdleTimeout,
			PingTimeout:          lim.HeadTimeout,
			WriteByteTimeout:     lim.WriteTimeout,
		},
	}
	s.standard = append(s.standard, hs)
	return hs
}

func (s *Server) logger() *slog.Logger {
	if s.Logger != nil {
		return s.Logger
	}
	return slog.Default()
}

// turnedAway answers a connection beyond MaxConns.
const turnedAway = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// accept runs serve, which must not block, on every connection within MaxConns.
// The others are sent full and closed; the send buffer of a new connection
// takes that without blocking.
func (s *Server) accept(l net.Listener, full string, serve func(net.Conn)) error {
	var pause time.Duration
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.shutting.Load() {
				return ErrServerClosed
			}
			if !isTemporary(err) {
				return err
			}
			// Out of descriptors: those that close make room.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.logger().Warn("accept failed", slog.Any("error", err), slog.Duration("retry_in", pause))
			time.Sleep(pause)
			continue
		}
		pause = 0
		if n := s.open.Add(1); s.limits.MaxConns > 0 && n > int64(s.limits.MaxConns) {
			s.open.Add(-1)
			nc.SetDeadline(time.Now().Add(time.Second))
			_, _ = nc.Write([]byte(full))
			nc.Close()
			continue
		}
		serve(nc)
	}
}

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func (s *Server) serveLean(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	if s.shutting.Load() {
		s.mu.Unlock()
		s.open.Add(-1)
		nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		handedOff := c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		if !handedOff {
			s.open.Add(-1)
		}
	}()
}

func (s *Server) offerCounted(to *offered, nc net.Conn) bool {
	counted := &countedConn{Conn: nc, release: func() { s.open.Add(-1) }}
	if to.offer(counted) {
		return true
	}
	_ = counted.Close()
	return false
}

// Shutdown stops accepting, closes idle connections and waits for the others to
// answer their current request. When ctx ends first it closes them and returns
// the context's error. Streamed answers end only when their handlers return.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.stop() {
		if c.state.CompareAndSwap(stateIdle, stateClosing) {
			c.nc.Close()
		}
	}
	s.mu.Lock()
	standard := s.standard
	s.mu.Unlock()
	ended := make(chan error, len(standard)+1)
	go func() {
		s.wg.Wait()
		ended <- nil
	}()
	for _, hs := range standard {
		go func() { ended <- hs.Shutdown(ctx) }()
	}
	var failed error
	for range len(standard) + 1 {
		select {
		case err := <-ended:
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			_ = s.Close()
			return ctx.Err()
		}
	}
	return failed
}

// Close closes the listeners and all connections at once. Handlers see failing
// reads and writes and a closed Done.
func (s *Server) Close() error {
	for _, c := range s.stop() {
		c.nc.Close()
	}
	s.mu.Lock()
	standard := s.standard
	s.mu.Unlock()
	var failed error
	for _, hs := range standard {
		failed = errors.Join(failed, hs.Close())
	}
	return failed
}

// stop ends accepting and returns the lean connections.
func (s *Server) stop() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutting.Store(true)
	for l := range s.listeners {
		l.Close()
	}
	if s.h2c != nil {
		_ = s.h2c.Close()
	}
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"runnel.dev/runnel/node/transport"
)

// Server is the plane's listener and its connections.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen opens the plane on addr. With files it is mutual TLS; without, an
// address other than loopback is refused with transport.ErrPlainAddress.
// logger may be nil.
func Listen(addr string, files *transport.TLSFiles, n Node, logger *slog.Logger) (*Server, error) {
	var secure *tls.Config
	if files != nil {
		// Operators and joining nodes call too: the CA's signature is enough.
		open := *files
		open.Name = ""
		var err error
		if secure, err = open.Server(); err != nil {
			return nil, fmt.Errorf("admin TLS: %w", err)
		}
		secure.NextProtos = []string{"http/1.1"}
	}
	l, err := transport.Listen(addr, secure != nil)
	if err != nil {
		return nil, fmt.Errorf("admin listener: %w", err)
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Server{listener: l, http: &http.Server{
		Handler:           NewHandler(n, logger),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}}, nil
}

// Addr is the address that was bound.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve answers until Close, which makes it return nil.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin plane: %w", err)
	}
	return nil
}

// Close stops listening, waits for the requests under way until ctx ends, and
// then cuts them.
func (s *Server) Close(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("close the admin plane: %w", err), s.http.Close())
	}
	// A listener that was never served is not the HTTP server's.
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

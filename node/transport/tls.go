package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// TLSFiles names the PEM files of a node's mutual TLS. They are read once, by
// Server or Client.
type TLSFiles struct {
	CA   string // certificates that may have signed a peer's
	Cert string // our certificate, followed by its intermediates
	Key  string // our private key
	// Name is the DNS name that the other side's certificate must carry. Nodes
	// of one cluster share an identity, so this is how a node tells its like
	// from others that the same CA signed. Empty: a server accepts whatever the
	// CA signed, a client expects the host that it dials.
	Name string
}

// Server returns the configuration of the accepting side: TLS 1.3, and a client
// certificate that the CA signed and that carries Name.
func (f TLSFiles) Server() (*tls.Config, error) {
	c, pool, err := f.load()
	if err != nil {
		return nil, err
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs = pool
	if name := f.Name; name != "" {
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if err := s.PeerCertificates[0].VerifyHostname(name); err != nil {
				return fmt.Errorf("client certificate: %w", err)
			}
			return nil
		}
	}
	return c, nil
}

// Client returns the configuration of the dialing side. When Name is empty the
// caller sets ServerName to the host that it dials.
func (f TLSFiles) Client() (*tls.Config, error) {
	c, pool, err := f.load()
	if err != nil {
		return nil, err
	}
	c.RootCAs = pool
	c.ServerName = f.Name
	return c, nil
}

func (f TLSFiles) load() (*tls.Config, *x509.CertPool, error) {
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("read CA certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("read CA certificates: %s holds none in PEM form", f.CA)
	}
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("read certificate and key: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}, pool, nil
}

// IsLoopback says whether an address is reachable from this machine only:
// loopback IP, or no IP at all (a pipe, a Unix socket).
func IsLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// Listen listens on addr; without TLS it refuses an address that is not
// loopback with ErrPlainAddress. The check is made on what was bound, so that
// a host name or an empty host can't slip through.
func Listen(addr string, secure bool) (net.Listener, error) {
	if !secure {
		if err := requireLoopback(addr); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	if !secure && !IsLoopback(l.Addr()) {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", l.Addr(), ErrPlainAddress), l.Close())
	}
	return l, nil
}

// requireLoopback refuses literal addresses before they are bound; names are
// left to the check of what they resolve to.
func requireLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && !ip.IsLoopback()) {
		return fmt.Errorf("address %s: %w", addr, ErrPlainAddress)
	}
	return nil
}

// loopbackOnly is a net.Dialer's Control: it sees the resolved address before
// the first packet leaves.
func loopbackOnly(_, address string, _ syscall.RawConn) error {
	return requireLoopback(address)
}

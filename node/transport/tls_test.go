package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority is a CA that lives as long as its test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.key, a.cert = a.sign(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(t *testing.T, name string, c *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.Subject = pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".crt", "CERTIFICATE", der)
	a.write(t, name+".key", "PRIVATE KEY", keyDER)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, parsed
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// files issues a certificate for the DNS name and returns its TLS files; a peer
// is expected to carry the name "node".
func (a *authority) files(t *testing.T, dns string) *TLSFiles {
	t.Helper()
	a.sign(t, dns, &x509.Certificate{
		DNSNames: []string{dns}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	at := func(name string) string { return filepath.Join(a.dir, name) }
	return &TLSFiles{CA: at("ca.crt"), Cert: at(dns + ".crt"), Key: at(dns + ".key"), Name: "node"}
}

func withTLS(f *TLSFiles) func(*Config, *timing) {
	return func(c *Config, _ *timing) { c.TLS = f }
}

func TestPeersTalkOverMutualTLS(t *testing.T) {
	checkGoroutines(t)
	files := newAuthority(t).files(t, "node")
	for _, c := range []struct {
		name   string
		listen string
		expect string
	}{
		{"by the name that nodes share", "127.0.0.1:0", "node"},
		{"by the host that is dialed", "127.0.0.1:0", ""},
		{"on every interface", "0.0.0.0:0", "node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := *files
			f.Name = c.expect
			d := newDirectory()
			secure := func(cfg *Config, _ *timing) { cfg.TLS, cfg.Listen = &f, c.listen }
			a, b := startNode(t, d, 1, secure), startNode(t, d, 2, secure)
			_, port, err := net.SplitHostPort(b.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			d.set(2, net.JoinHostPort("127.0.0.1", port))
			a.Send(2, []Message{heartbeat(1, 1), appendOf(1, 1, 3<<20)})
			b.awaitMessages(t, 2)
		})
	}
}

func TestPeersWithoutTheRightCertificateAreRefused(t *testing.T) {
	checkGoroutines(t)
	ca := newAuthority(t)
	right := ca.files(t, "node")
	foreign := newAuthority(t).files(t, "node")
	operator := ca.files(t, "operator")
	stranger := *foreign // trusts our CA, but is not known to it
	stranger.CA = right.CA
	for _, c := range []struct {
		name           string
		dialer, server func(*Config, *timing)
	}{
		{"a dialer of another CA", withTLS(foreign), withTLS(right)},
		{"a dialer that our CA did not sign", withTLS(&stranger), withTLS(right)},
		{"a dialer with another identity", withTLS(operator), withTLS(right)},
		{"a server with another identity", withTLS(right), withTLS(operator)},
		{"a dialer without TLS", func(*Config, *timing) {}, withTLS(right)},
		{"a server without TLS", withTLS(right), func(*Config, *timing) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDirectory()
			quickly := func(_ *Config, tm *timing) { tm.handshake, tm.dial = time.Second, time.Second }
			b := startNode(t, d, 2, c.server, quickly)
			a := startNode(t, d, 1, c.dialer, quickly)
			a.Send(2, []Message{heartbeat(1, 1)})
			if err := dialError(t, a); err == nil {
				t.Error("no error")
			}
			poll(t, "the accepting side to refuse", func() bool { return b.Stats().Refused > 0 })
			if b.sessions() != 0 || len(b.messages()) != 0 {
				t.Error("the peer was let in")
			}
		})
	}
}

func TestOlderTLSIsRefused(t *testing.T) {
	files := newAuthority(t).files(t, "node")
	d := newDirectory()
	b := startNode(t, d, 2, withTLS(files))
	cfg, err := files.Client()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.MinVersion != tls.VersionTLS13 {
		t.Errorf("the dialing side allows %#x", cfg.MinVersion)
	}
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if conn, err := tls.Dial("tcp", b.Addr().String(), cfg); err == nil {
		conn.Close()
		t.Error("TLS 1.2 was accepted")
	}
}

func TestPlainTCPIsRefusedBeyondLoopback(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:0"} {
		t.Run("listen on "+listen, func(t *testing.T) {
			_, err := New(Config{Cluster: "test", Node: 1, Listen: listen, Handler: newRecorder(), Resolve: newDirectory().resolve})
			if !errors.Is(err, ErrPlainAddress) {
				t.Errorf("err = %v", err)
			}
		})
	}
	t.Run("a listener that was made elsewhere", func(t *testing.T) {
		l, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(Config{Cluster: "test", Node: 1, Listener: l, Handler: newRecorder(), Resolve: newDirectory().resolve})
		if !errors.Is(err, ErrPlainAddress) {
			t.Errorf("err = %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error("the listener was not closed")
		}
	})
	t.Run("dial", func(t *testing.T) {
		d := newDirectory()
		d.set(2, "192.0.2.1:4439")
		a := startNode(t, d, 1)
		if err := dialError(t, a); !errors.Is(err, ErrPlainAddress) {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("a dialer that was given", func(t *testing.T) {
		d := newDirectory()
		d.set(2, "peer:1")
		a := startNode(t, d, 1, func(c *Config, _ *timing) {
			c.Dial = func(context.Context, string) (net.Conn, error) {
				here, there := net.Pipe()
				there.Close()
				return farConn{here}, nil
			}
		})
		if err := dialError(t, a); !errors.Is(err, ErrPlainAddress) {
			t.Errorf("err = %v", err)
		}
	})
}

// farConn is a connection to another machine.
type farConn struct{ net.Conn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4439} }

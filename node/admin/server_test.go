package admin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"runnel.dev/runnel/node/adminapi"
	"runnel.dev/runnel/node/transport"
)

func startServer(t *testing.T, addr string, files *transport.TLSFiles) *Server {
	t.Helper()
	s, err := Listen(addr, files, good(), nil)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(s.Close(ctx), <-served); err != nil {
			t.Error(err)
		}
	})
	return s
}

// selfSigned writes a certificate that is its own CA.
func selfSigned(t *testing.T, name string) *transport.TLSFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := &transport.TLSFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), Name: name}
	f.CA = f.Cert
	for path, block := range map[string]*pem.Block{f.Cert: {Type: "CERTIFICATE", Bytes: der}, f.Key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func statusWith(t *testing.T, addr string, files *transport.TLSFiles) error {
	t.Helper()
	var o adminapi.Options
	if files != nil {
		cfg, err := files.Client()
		if err != nil {
			t.Fatal(err)
		}
		o.TLS = cfg
	}
	c := adminapi.NewClient(addr, o)
	defer c.Close()
	_, err := c.Status(t.Context())
	return err
}

func TestThePlaneServesLoopbackWithoutTLS(t *testing.T) {
	s := startServer(t, "127.0.0.1:0", nil)
	if err := statusWith(t, s.Addr().String(), nil); err != nil {
		t.Error(err)
	}
}

func TestThePlaneWithoutTLSIsRefusedBeyondLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		if _, err := Listen(addr, nil, good(), nil); !errors.Is(err, transport.ErrPlainAddress) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestThePlaneAsksForACertificateOfItsCA(t *testing.T) {
	files := selfSigned(t, "node")
	s := startServer(t, "0.0.0.0:0", files)
	_, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", port)
	if err := statusWith(t, addr, files); err != nil {
		t.Errorf("with the right certificate: %v", err)
	}
	stranger := selfSigned(t, "node")
	stranger.CA = files.CA
	if err := statusWith(t, addr, stranger); err == nil {
		t.Error("a certificate of another CA was accepted")
	}
	if err := statusWith(t, addr, nil); err == nil {
		t.Error("plain HTTP was accepted")
	}
}

func TestAPlaneThatNeverServedCloses(t *testing.T) {
	s, err := Listen("127.0.0.1:0", nil, good(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", s.Addr().String())
	if err != nil {
		t.Fatalf("the address is still taken: %v", err)
	}
	l.Close()
}

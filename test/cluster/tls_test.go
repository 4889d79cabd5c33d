package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"runnel.dev/runnel/node"
	"runnel.dev/runnel/node/adminapi"
	"runnel.dev/runnel/node/transport"
)

// authority is a CA that lives as long as a test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir(), key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.path("ca.crt"), "CERTIFICATE", der)
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// issue writes name.crt and name.key, good for 127.0.0.1 and the DNS name.
func (a *authority) issue(t *testing.T, name string) transport.TLSFiles {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.path(name+".crt"), "CERTIFICATE", der)
	writePEM(t, a.path(name+".key"), "EC PRIVATE KEY", secret)
	return transport.TLSFiles{CA: a.path("ca.crt"), Cert: a.path(name + ".crt"), Key: a.path(name + ".key"), Name: name}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Three nodes with one identity on the inner planes and TLS for clients form a
// cluster, replicate, and redirect from one to the other by HTTP/2.
func TestAClusterRunsByTLSOnEveryPlane(t *testing.T) {
	a := newAuthority(t)
	files := a.issue(t, "nodes.test")
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()

	var nodes []*node.Node
	for i := range 3 {
		cfg := node.Config{
			DataDir: t.TempDir(),
			Client:  node.Client{Listen: "127.0.0.1:0", Cert: files.Cert, Key: files.Key},
			Admin:   node.Plane{Listen: "127.0.0.1:0"},
			Peer:    node.Plane{Listen: "127.0.0.1:0"},
			TLS:     &files,
			Logger:  slog.New(slog.DiscardHandler),
			OnFatal: func(err error) { t.Errorf("node %d stopped: %v", i+1, err) },
		}
		if i > 0 {
			cfg.Join = []string{nodes[0].AdminAddr()}
		}
		n, err := node.Start(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			end, cancel := context.WithTimeout(context.Background(), Patience)
			defer cancel()
			if err := n.Shutdown(end); err != nil {
				t.Errorf("shutdown: %v", err)
			}
		})
		nodes = append(nodes, n)
	}

	stranger := newAuthority(t)
	strange := stranger.issue(t, "nodes.test")
	strange.CA = files.CA
	if _, err := adminClient(t, strange, nodes[0].AdminAddr()).Status(ctx); err == nil {
		t.Error("a caller of another CA was answered on the admin plane")
	}
	request := adminapi.InitRequest{ClusterID: "tls", Token: "t", Groups: 4, ReplicationFactor: 3, Nodes: 3}
	if _, err := adminClient(t, files, nodes[0].AdminAddr()).Init(ctx, request); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		Eventually(t, "member", func() bool { return n.Ready() })
		if err := n.WaitReady(ctx); err != nil {
			t.Fatalf("node %d: %v", i+1, err)
		}
	}

	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	web := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true},
		Timeout:   Patience,
	}
	defer web.CloseIdleConnections()
	for i, n := range nodes {
		url := n.URL() + "/secure/stream"
		call(t, web, http.MethodPut, url, nil)
		call(t, web, http.MethodPost, url, []byte{'0' + byte(i)})
	}
	if got := call(t, web, http.MethodGet, nodes[2].URL()+"/secure/stream?offset=-1&consistency=leader", nil); got != "012" {
		t.Errorf("read %q, want 012", got)
	}
}

func adminClient(t *testing.T, files transport.TLSFiles, addr string) *adminapi.Client {
	t.Helper()
	cfg, err := files.Client()
	if err != nil {
		t.Fatal(err)
	}
	c := adminapi.NewClient(addr, adminapi.Options{TLS: cfg})
	t.Cleanup(c.Close)
	return c
}

// call follows redirects with the same method and body and returns the answer's body.
func call(t *testing.T, web *http.Client, method, url string, body []byte) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode >= 300 || resp.ProtoMajor != 2 {
		t.Fatalf("%s %s: %s by %s: %s", method, url, resp.Status, resp.Proto, out)
	}
	return string(out)
}

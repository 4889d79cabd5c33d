package node

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/transport"
)

func TestAWrongConfigurationIsRefusedWithTheFieldAndTheRemedy(t *testing.T) {
	for _, test := range []struct{ name, yaml, wants string }{
		{"no data directory", `zone: a`, "dataDir is missing"},
		{"an unknown key", "dataDir: /d\nlisten: x", "listen"},
		{"a client address without a port", "dataDir: /d\nclient: {listen: localhost}", `client.listen: "localhost" is not host:port`},
		{"an admin plane for all without TLS", "dataDir: /d\nadmin: {listen: '0.0.0.0:4438'}", "admin.listen: \"0.0.0.0:4438\" is not loopback: set tls"},
		{"a peer plane for all without TLS", "dataDir: /d\npeer: {listen: '10.0.0.1:4439'}", "peer.listen"},
		{"a certificate without its key", "dataDir: /d\nclient: {cert: c}", "client.cert and client.key go together"},
		{"a client URL without a scheme", "dataDir: /d\nclient: {url: 'host:4437'}", "client.url"},
		{"a client URL with a path", "dataDir: /d\nclient: {url: 'http://host/x'}", "client.url"},
		{"a client plane on all interfaces without a URL", "dataDir: /d\nclient: {listen: '0.0.0.0:4437'}", "set client.url"},
		{"a client plane on every address without a URL", "dataDir: /d\nclient: {listen: ':4437'}", "set client.url"},
		{"a peer plane on all interfaces without an address", "dataDir: /d\ntls: {ca: a, cert: b, key: c}\npeer: {listen: '[::]:4439'}", "set peer.advertise"},
		{"a peer to join without a port", "dataDir: /d\njoin: [host]", `join: "host" is not the host:port`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := ReadConfig(strings.NewReader(test.yaml))
			if err == nil {
				err = c.Validate()
			}
			if err == nil || !strings.Contains(err.Error(), test.wants) {
				t.Errorf("error %v, want one with %q", err, test.wants)
			}
		})
	}
}

func TestAShortConfigurationGetsItsDefaults(t *testing.T) {
	c, err := ReadConfig(strings.NewReader("dataDir: /d\nclient: {url: 'http://host:4437/'}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	got := []string{c.Client.Listen, c.Admin.Listen, c.Peer.Listen, c.Client.URL}
	want := []string{"127.0.0.1:4437", "127.0.0.1:4438", "127.0.0.1:4439", "http://host:4437"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if c.FS == nil || c.Clock == nil || c.Logger == nil {
		t.Error("file system, clock and logger should have defaults")
	}
}

func TestInnerPlanesMayListenAnywhereWithTLS(t *testing.T) {
	c := Config{DataDir: "/d", TLS: &transport.TLSFiles{}, Admin: Plane{Listen: "10.0.0.1:4438"}, Peer: Plane{Listen: "10.0.0.1:4439"}}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestAnEmptyNodeWithAWrongClientCertificateDoesNotStart(t *testing.T) {
	cfg := testConfig(vfs.NewMem())
	cfg.Client.Cert, cfg.Client.Key = filepath.Join(t.TempDir(), "none.crt"), filepath.Join(t.TempDir(), "none.key")
	n, err := Start(t.Context(), cfg)
	if err == nil {
		stopNode(t, n)
	}
	if err == nil || !strings.Contains(err.Error(), "client.cert") {
		t.Errorf("error %v, want one with client.cert", err)
	}
}

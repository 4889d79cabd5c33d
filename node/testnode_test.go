package node

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// patience bounds every wait for what must happen.
const patience = 30 * time.Second

func testConfig(fs vfs.FS) Config {
	return Config{
		DataDir: "/data", FS: fs, Logger: slog.New(slog.DiscardHandler), Health: "127.0.0.1:0",
		Client: Client{Listen: "127.0.0.1:0"}, Admin: Plane{Listen: "127.0.0.1:0"}, Peer: Plane{Listen: "127.0.0.1:0"},
	}
}

// startNode starts a node in memory that ends with the test.
func startNode(t *testing.T, cfg Config) *Node {
	t.Helper()
	n, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopNode(t, n) })
	return n
}

func stopNode(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// startAlone starts a node that is a cluster of one with two groups.
func startAlone(t *testing.T) *Node {
	t.Helper()
	n := startNode(t, testConfig(vfs.NewMem()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.InitAlone(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return n
}

package conformance

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"runnel.dev/runnel/node"
)

// The official suite against a durable single node, on the bucketed surface.
func TestOfficialSuite(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err := node.Start(ctx, node.Config{
		DataDir: t.TempDir(),
		Client:  node.Client{Listen: "127.0.0.1:0"},
		Admin:   node.Plane{Listen: "127.0.0.1:0"},
		Peer:    node.Plane{Listen: "127.0.0.1:0"},
		Logger:  slog.New(slog.DiscardHandler),
		OnFatal: func(err error) { t.Errorf("the node stopped: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	if err := n.InitAlone(ctx, 4); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	Run(t, n.URL())
}

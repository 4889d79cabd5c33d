package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"runnel.dev/runnel/node"
)

func devCommand() *cobra.Command {
	var listen, health, dataDir string
	var groups uint32
	var profiling bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run one durable node with everything, no set-up",
		Long: `Run one durable node with everything, no set-up.

The node keeps its streams in the data directory: stop it, start it again, and
they are there. Every acknowledged append was synced to disk. Press Ctrl-C to stop.`,
		Example: `  runnel dev
  runnel dev --listen 127.0.0.1:8080 --data-dir /var/lib/runnel`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			started := time.Now()
			dir, err := filepath.Abs(dataDir)
			if err != nil {
				return err
			}
			cfg := node.Config{
				DataDir: dir,
				Client:  node.Client{Listen: listen, URL: localURL(listen)},
				// One node has no peers: its inner planes take any free port.
				Admin:  node.Plane{Listen: "127.0.0.1:0"},
				Peer:   node.Plane{Listen: "127.0.0.1:0"},
				Health: health, Profiling: profiling,
			}
			return serve(cmd.Context(), cfg, func(ctx context.Context, n *node.Node) error {
				ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
				defer cancel()
				if err := n.InitAlone(ctx, groups); err != nil {
					return err
				}
				if err := n.WaitReady(ctx); err != nil {
					return err
				}
				greet(cmd.OutOrStdout(), n.URL(), dir, time.Since(started))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:4437", "host:port of the client plane")
	cmd.Flags().StringVar(&health, "health", "", "host:port for /healthz, /readyz and /metrics (off when empty)")
	cmd.Flags().BoolVar(&profiling, "profiling", false, "serve /debug/pprof on the health plane")
	cmd.Flags().StringVar(&dataDir, "data-dir", "runnel-data", "directory that holds the node's data; made when missing")
	cmd.Flags().Uint32Var(&groups, "groups", 16, "Raft groups of a new data directory; fixed from then on")
	return cmd
}

// localURL is how this machine reaches a plane that listens on all interfaces;
// empty when the address says so itself.
func localURL(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" || (host != "" && host != "0.0.0.0" && host != "::") {
		return ""
	}
	return "http://127.0.0.1:" + port
}

func greet(w io.Writer, url, dir string, took time.Duration) {
	fmt.Fprintf(w, `Runnel is ready on %s (%d ms), data in %s

  curl -X PUT %[1]s/demo/hello -H 'Content-Type: text/plain'
  curl -X POST %[1]s/demo/hello -H 'Content-Type: text/plain' -d 'hi'
  curl '%[1]s/demo/hello?offset=-1'
  curl -N '%[1]s/demo/hello?offset=now&live=sse'
`, url, took.Milliseconds(), dir)
}

// Command runnel runs stream nodes and the tools around them.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "runnel:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	var level string
	cmd := &cobra.Command{
		Use:   "runnel",
		Short: "Durable streams: append over HTTP, read from any offset, tail live",
		Long: `Runnel keeps timelines behind URLs: append over HTTP, read from any offset,
tail live over SSE. Every acknowledged append is on the disks of a majority.

Start with one node and no set-up:

  runnel dev
  curl -X PUT http://127.0.0.1:4437/demo/hello -H 'Content-Type: text/plain'
  curl -X POST http://127.0.0.1:4437/demo/hello -H 'Content-Type: text/plain' -d 'hi'
  curl 'http://127.0.0.1:4437/demo/hello?offset=-1'`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			var l slog.Level
			if err := l.UnmarshalText([]byte(level)); err != nil {
				return fmt.Errorf("--log-level: %q is none of debug, info, warn, error", level)
			}
			slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})))
			return nil
		},
	}
	cmd.PersistentFlags().StringVar(&level, "log-level", "info", "debug, info, warn or error; logs go to standard error")
	cmd.AddCommand(devCommand(), nodeCommand(), initCommand(), statusCommand(), clusterCommand(), benchCommand(), versionCommand())
	return cmd
}

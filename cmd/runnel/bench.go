package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"runnel.dev/runnel/cmd/runnel/bench"
)

func benchCommand() *cobra.Command {
	var o bench.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure any Durable Streams server by its URL",
		Long: `Measure any Durable Streams server by its URL: rates, latencies at p50, p99 and
p99.9, the CPU that a request costs this client, and the server's CPU and memory
when its process ids are given.`,
		Example: `  runnel bench multi-stream --streams 500 --pid "$(pgrep -f 'runnel dev')"
  runnel bench fan-out --subscribers 1000 --rate 50
  runnel bench replay --clients 100 --events 2000 --bytes 1024`,
	}
	f := cmd.PersistentFlags()
	f.StringSliceVar(&o.Targets, "url", []string{"http://127.0.0.1:4437"}, "base URLs of the server's nodes; streams are spread over them")
	f.StringVar(&o.PathPrefix, "path-prefix", "/", "path before the bucket; /v1/stream/ reaches servers of the base protocol")
	f.StringVar(&o.Bucket, "bucket", "bench", "bucket of the streams; - leaves it out of the path")
	f.StringVar(&o.ContentType, "content-type", "text/plain", "content type of the streams")
	f.IntSliceVar(&o.PIDs, "pid", nil, "process ids of the server on this machine")
	f.BoolVar(&asJSON, "json", false, "print one line of JSON")
	run := func(cmd *cobra.Command, measure func(context.Context) (*bench.Report, error)) error {
		r, err := measure(cmd.Context())
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		if asJSON {
			return r.WriteJSON(cmd.OutOrStdout())
		}
		return r.WriteText(cmd.OutOrStdout())
	}
	cmd.AddCommand(multiStreamCommand(&o, run), fanOutCommand(&o, run), replayCommand(&o, run))
	return cmd
}

// measured runs one scenario and prints its report.
type measured = func(*cobra.Command, func(context.Context) (*bench.Report, error)) error

func multiStreamCommand(o *bench.Options, run measured) *cobra.Command {
	var m bench.MultiStream
	cmd := &cobra.Command{
		Use:   "multi-stream",
		Short: "Append to many streams, one closed-loop writer each",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.Options = *o
			return run(cmd, func(ctx context.Context) (*bench.Report, error) { return bench.RunMultiStream(ctx, m) })
		},
	}
	cmd.Flags().IntVar(&m.Streams, "streams", 500, "streams, each with a writer and a connection of its own")
	cmd.Flags().IntVar(&m.Bytes, "bytes", 256, "bytes of one append")
	cmd.Flags().DurationVar(&m.Duration, "duration", 0, "how long to measure (default 30s)")
	cmd.Flags().DurationVar(&m.WarmUp, "warm-up", 0, "how long to write before measuring (default 3s)")
	return cmd
}

func fanOutCommand(o *bench.Options, run measured) *cobra.Command {
	var m bench.FanOut
	cmd := &cobra.Command{
		Use:   "fan-out",
		Short: "Tail one stream with many SSE readers and measure publish to receive",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.Options = *o
			return run(cmd, func(ctx context.Context) (*bench.Report, error) { return bench.RunFanOut(ctx, m) })
		},
	}
	cmd.Flags().IntVar(&m.Subscribers, "subscribers", 100, "SSE readers")
	cmd.Flags().IntVar(&m.Rate, "rate", 50, "events a second")
	cmd.Flags().IntVar(&m.Bytes, "bytes", 256, "bytes of one event")
	cmd.Flags().DurationVar(&m.Duration, "duration", 0, "how long to write (default 30s)")
	return cmd
}

func replayCommand(o *bench.Options, run measured) *cobra.Command {
	var m bench.Replay
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Read a whole stream with many clients at once",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.Options = *o
			return run(cmd, func(ctx context.Context) (*bench.Report, error) { return bench.RunReplay(ctx, m) })
		},
	}
	cmd.Flags().IntVar(&m.Clients, "clients", 100, "clients that read at the same time")
	cmd.Flags().IntVar(&m.Events, "events", 2000, "events in the stream")
	cmd.Flags().IntVar(&m.Bytes, "bytes", 1024, "bytes of one event")
	return cmd
}

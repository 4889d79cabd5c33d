package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"runnel.dev/runnel/node/adminapi"
	"runnel.dev/runnel/node/transport"
)

// tlsFlags are the files of the caller's identity on the admin plane.
type tlsFlags struct{ files transport.TLSFiles }

func (f *tlsFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.files.CA, "ca", "", "PEM file of the CA that signed the nodes' certificates")
	cmd.Flags().StringVar(&f.files.Cert, "cert", "", "PEM file of the caller's certificate")
	cmd.Flags().StringVar(&f.files.Key, "key", "", "PEM file of the caller's key")
}

// client returns a client of an admin plane: by TLS when files are given.
func (f *tlsFlags) client(addr string) (*adminapi.Client, error) {
	var o adminapi.Options
	if f.files != (transport.TLSFiles{}) {
		cfg, err := f.files.Client()
		if err != nil {
			return nil, err
		}
		o.TLS = cfg
	}
	return adminapi.NewClient(addr, o), nil
}

type initOptions struct {
	tlsFlags
	admin     string
	clusterID string
	token     string
	groups    uint32
	rf        int
	nodes     int
	wait      bool
}

func initCommand() *cobra.Command {
	var o initOptions
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a cluster of an empty node",
		Long: `Make a cluster of an empty node, once in the cluster's life.

The other nodes join it by their configuration's "join" list. Groups are placed
when --nodes nodes have joined. Repeating the call with the same --cluster-id and
--token changes nothing.`,
		Example: `  runnel init --admin 127.0.0.1:4438 --cluster-id prod-eu --token "$(uuidgen)" --nodes 3`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			fmt.Fprint(out, "initializing")
			err := o.run(ctx, func() { fmt.Fprint(out, ".") })
			fmt.Fprintln(out)
			if err == nil {
				state := "initialized"
				if o.wait {
					state = "ready"
				}
				fmt.Fprintf(out, "cluster %s is %s\n", o.clusterID, state)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.admin, "admin", "127.0.0.1:4438", "host:port of the node's admin plane")
	cmd.Flags().StringVar(&o.clusterID, "cluster-id", "", "the cluster's id: 1 to 64 of A-Z a-z 0-9 . _ -; it never changes (random when empty)")
	cmd.Flags().StringVar(&o.token, "token", "", "makes the call repeatable; keep it until it has succeeded (random when empty)")
	cmd.Flags().Uint32Var(&o.groups, "groups", 64, "number of Raft groups, fixed for the cluster's life")
	cmd.Flags().IntVar(&o.rf, "replication-factor", 3, "replicas of each group: 1, 3 or 5")
	cmd.Flags().IntVar(&o.nodes, "nodes", 3, "nodes that must have joined before groups are placed")
	cmd.Flags().BoolVar(&o.wait, "wait", true, "wait until every group has a leader")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait for the node to answer, and for the leaders")
	o.add(cmd)
	return cmd
}

// run initializes the node and, when asked, waits for the groups. step is
// called on the way. The caller bounds it by ctx.
func (o *initOptions) run(ctx context.Context, step func()) error {
	client, err := o.client(o.admin)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := o.init(ctx, client, step); err != nil || !o.wait {
		return err
	}
	for {
		status, err := client.Status(ctx)
		if err == nil && status.State == adminapi.StateServing && status.Leaderless == 0 {
			return nil
		}
		if err := pause(ctx, step); err != nil {
			return fmt.Errorf("waiting for the groups' leaders (are all %d nodes running?): %w", o.nodes, err)
		}
	}
}

func (o *initOptions) init(ctx context.Context, client *adminapi.Client, step func()) error {
	for {
		status, err := client.Status(ctx)
		switch {
		case err == nil && status.ClusterID != "" && (o.clusterID == "" || o.clusterID == status.ClusterID) && o.token == "":
			o.clusterID = status.ClusterID // made by an earlier run
			return nil
		case err == nil:
			if o.clusterID == "" {
				o.clusterID = "runnel-" + randomID()
			}
			if o.token == "" {
				o.token = randomID()
			}
			_, err = client.Init(ctx, adminapi.InitRequest{
				ClusterID: o.clusterID, Token: o.token, Groups: o.groups, ReplicationFactor: o.rf, Nodes: o.nodes,
			})
			return err
		}
		if waitErr := pause(ctx, step); waitErr != nil {
			return fmt.Errorf("the admin plane at %s does not answer: %w", o.admin, err)
		}
	}
}

func pause(ctx context.Context, step func()) error {
	step()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func statusCommand() *cobra.Command {
	var f tlsFlags
	var addr string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show a node and its cluster as the node sees them",
		Example: `  runnel status --admin 127.0.0.1:4438`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := f.client(addr)
			if err != nil {
				return err
			}
			defer client.Close()
			s, err := client.Status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(s)
			}
			printStatus(cmd.OutOrStdout(), &s)
			return nil
		},
	}
	cmd.Flags().StringVar(&addr, "admin", "127.0.0.1:4438", "host:port of the node's admin plane")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the whole status as JSON")
	f.add(cmd)
	return cmd
}

func printStatus(w io.Writer, s *adminapi.Status) {
	fmt.Fprintf(w, "cluster %s, node %d: %s\n", orNone(s.ClusterID), s.NodeID, s.State)
	if s.Message != "" {
		fmt.Fprintln(w, s.Message)
	}
	fmt.Fprintf(w, "groups %d: %d replicas here, %d lead, %d without a known leader, %d stopped\n",
		s.Groups, s.Replicas, s.Leading, s.Leaderless, s.Stopped)
	if s.ClockSuspect {
		fmt.Fprintln(w, "this node's clock is far from its peers': it leads nothing until they agree")
	}
	for _, p := range s.Peers {
		state := "connected"
		if !p.Connected {
			state = "not connected"
			if p.Error != "" {
				state += ": " + p.Error
			}
		}
		fmt.Fprintf(w, "node %d  %s  zone %s  %s\n", p.NodeID, p.Client, orNone(p.Zone), state)
	}
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

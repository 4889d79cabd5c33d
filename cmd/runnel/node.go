package main

import (
	"github.com/spf13/cobra"

	"runnel.dev/runnel/node"
)

func nodeCommand() *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "node --config FILE",
		Short: "Run one node of a cluster",
		Long: `Run one node of a cluster from a configuration file.

A node with data goes on where it stopped. An empty one joins the cluster whose
admin addresses "join" lists, or waits for "runnel init" when it lists none.

  dataDir: /var/lib/runnel        # this node's own directory
  zone: eu-1a                     # replicas are spread over zones first
  join: [10.0.0.1:4438]           # admin planes of the cluster to join
  client: {listen: 0.0.0.0:4437, url: http://node-2.example:4437}
  admin:  {listen: 0.0.0.0:4438, advertise: node-2.example:4438}
  peer:   {listen: 0.0.0.0:4439, advertise: node-2.example:4439}
  health: 0.0.0.0:4440            # /healthz, /readyz, /metrics
  tls: {cert: node.crt, key: node.key, ca: ca.crt}   # admin and peer planes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := node.ReadConfigFile(config)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, nil)
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "the node's configuration file (YAML)")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

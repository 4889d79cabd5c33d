package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// localCluster is a cluster of child processes on this machine's loopback.
type localCluster struct {
	dataDir   string
	nodes     int
	basePort  int
	groups    uint32
	rf        int
	profiling bool
	out       io.Writer
	processes []*exec.Cmd
	ended     int // nodes that ended while the cluster was formed
}

func clusterCommand() *cobra.Command {
	c := &localCluster{}
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Run a replicated cluster of processes on this machine",
		Long: `Run a replicated cluster of processes on this machine, for trying things out.

Each node is a process with a directory, a log file and four ports of its own.
Kill one with kill -9 and watch the others go on; start the same command again
and the cluster goes on with its data. Press Ctrl-C to stop all of them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.out = cmd.OutOrStdout()
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&c.dataDir, "data-dir", "runnel-cluster", "directory that holds the nodes' directories")
	cmd.Flags().IntVar(&c.nodes, "nodes", 3, "number of nodes")
	cmd.Flags().IntVar(&c.rf, "replication-factor", 3, "replicas of each group: 1, 3 or 5")
	cmd.Flags().Uint32Var(&c.groups, "groups", 16, "Raft groups of a new cluster; fixed from then on")
	cmd.Flags().BoolVar(&c.profiling, "profiling", false, "serve /debug/pprof on the health planes")
	cmd.Flags().IntVar(&c.basePort, "base-port", 4437, "client port of the first node; node i takes the four ports from base + 10·i")
	return cmd
}

func (c *localCluster) clientURL(i int) string {
	return fmt.Sprintf("http://127.0.0.1:%d", c.basePort+10*i)
}
func (c *localCluster) admin(i int) string { return fmt.Sprintf("127.0.0.1:%d", c.basePort+10*i+1) }

func (c *localCluster) dir(i int) string {
	return filepath.Join(c.dataDir, fmt.Sprintf("node-%d", i+1))
}

func (c *localCluster) logFile(i int) string { return filepath.Join(c.dir(i), "node.log") }

func (c *localCluster) run(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if c.dataDir, err = filepath.Abs(c.dataDir); err != nil {
		return err
	}
	exits := make(chan nodeExit, c.nodes)
	defer c.stop()
	for i := range c.nodes {
		if err := c.start(self, i, exits); err != nil {
			return err
		}
	}
	if err := c.form(ctx, exits); err != nil {
		return err
	}
	for i := range c.nodes {
		fmt.Fprintf(c.out, "node %d  %s  (pid %d, log %s)\n", i+1, c.clientURL(i), c.processes[i].Process.Pid, c.logFile(i))
	}
	fmt.Fprintf(c.out, "\n  curl -X PUT -L %[1]s/demo/hello -H 'Content-Type: text/plain'\n  curl -X POST -L %[1]s/demo/hello -H 'Content-Type: text/plain' -d 'hi'\n  curl -L '%[1]s/demo/hello?offset=-1'\n", c.clientURL(0))
	for left := c.nodes - c.ended; left > 0; {
		select {
		case <-ctx.Done():
			return nil
		case e := <-exits:
			left--
			fmt.Fprintf(c.out, "node %d ended: %s; %d of %d nodes are left\n", e.node+1, e.how, left, c.nodes)
		}
	}
	return errors.New("no node is left")
}

// nodeExit says how the process of a node, counted from 0, ended.
type nodeExit struct {
	node int
	how  string
}

func (c *localCluster) start(self string, i int, exits chan<- nodeExit) error {
	if err := os.MkdirAll(c.dir(i), 0o700); err != nil {
		return err
	}
	config := filepath.Join(c.dir(i), "config.yaml")
	if err := os.WriteFile(config, []byte(c.config(i)), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(c.logFile(i), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "node", "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return err
	}
	c.processes = append(c.processes, cmd)
	go func() {
		_ = cmd.Wait()
		_ = log.Close()
		exits <- nodeExit{node: i, how: cmd.ProcessState.String()}
	}()
	return nil
}

func (c *localCluster) config(i int) string {
	port := c.basePort + 10*i
	var join string
	if i > 0 {
		var peers []string
		for k := range c.nodes {
			if k != i {
				peers = append(peers, c.admin(k))
			}
		}
		join = fmt.Sprintf("join: [%s]\n", strings.Join(peers, ", "))
	}
	return fmt.Sprintf(`dataDir: %q
zone: zone-%d
%sclient: {listen: "127.0.0.1:%d"}
admin: {listen: "127.0.0.1:%d"}
peer: {listen: "127.0.0.1:%d"}
health: "127.0.0.1:%d"
profiling: %t
`, filepath.Join(c.dir(i), "data"), i+1, join, port, port+1, port+2, port+3, c.profiling)
}

// form runs init on the first node, which changes nothing on a cluster that
// has been formed, and waits until every group has a leader. A node that
// ends meanwhile is reported; without the first one it gives up.
func (c *localCluster) form(ctx context.Context, exits <-chan nodeExit) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	fmt.Fprintf(c.out, "forming a cluster of %d nodes", c.nodes)
	defer fmt.Fprintln(c.out)
	opts := initOptions{admin: c.admin(0), groups: c.groups, rf: c.rf, nodes: c.nodes, wait: true}
	formed := make(chan error, 1)
	go func() { formed <- opts.run(ctx, func() { fmt.Fprint(c.out, ".") }) }()
	for {
		select {
		case err := <-formed:
			return err
		case e := <-exits:
			c.ended++
			why := fmt.Errorf("node %d ended: %s: %s (log %s)", e.node+1, e.how, c.lastLine(e.node), c.logFile(e.node))
			if e.node == 0 { // the one that init talks to
				cancel()
				<-formed
				return why
			}
			fmt.Fprintf(c.out, "\n%v\n", why)
		}
	}
}

// lastLine returns the last line of a node's log, where a node that did not
// start says why.
func (c *localCluster) lastLine(i int) string {
	log, err := os.ReadFile(c.logFile(i))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return lines[len(lines)-1]
}

// stop ends all processes: SIGTERM, and SIGKILL for what is left.
func (c *localCluster) stop() {
	for _, p := range c.processes {
		_ = p.Process.Signal(syscall.SIGTERM)
	}
	deadline := time.Now().Add(shutdownTimeout)
	for _, p := range c.processes {
		for p.Process.Signal(syscall.Signal(0)) == nil && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		_ = p.Process.Kill()
	}
}

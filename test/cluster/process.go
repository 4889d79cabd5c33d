package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"runnel.dev/runnel/node/adminapi"
)

var built struct {
	once sync.Once
	path string
	err  error
	out  []byte
}

// Binary builds cmd/runnel once and returns the program's path.
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		dir, err := os.MkdirTemp("", "runnel-cluster-test")
		if err != nil {
			built.err = err
			return
		}
		built.path = filepath.Join(dir, "runnel")
		built.out, built.err = exec.Command("go", "build", "-o", built.path, "runnel.dev/runnel/cmd/runnel").CombinedOutput()
	})
	if built.err != nil {
		t.Fatalf("build: %v\n%s", built.err, built.out)
	}
	return built.path
}

// removeBinary takes the built program away again.
func removeBinary() {
	if built.path != "" {
		_ = os.RemoveAll(filepath.Dir(built.path))
	}
}

// Process is one run of the program.
type Process struct {
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
	err  error
}

// output keeps what a process printed.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Run starts the program; the test kills it at its end.
func Run(t testing.TB, args ...string) *Process {
	t.Helper()
	p := &Process{cmd: exec.Command(Binary(t), args...), out: &output{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("runnel %s printed\n%s", strings.Join(args, " "), p.out)
		}
	})
	return p
}

// Kill ends the process as kill -9 does and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends a signal.
func (p *Process) Signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

// Wait returns how the process ended.
func (p *Process) Wait(t testing.TB) error {
	t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(Patience):
		t.Fatalf("the process does not end; it printed\n%s", p.out)
		return nil
	}
}

// AwaitOutput returns when the process has printed text.
func (p *Process) AwaitOutput(t testing.TB, text string) {
	t.Helper()
	Eventually(t, fmt.Sprintf("the process prints %q", text), func() bool {
		if strings.Contains(p.out.String(), text) {
			return true
		}
		select {
		case <-p.done:
			t.Fatalf("the process ended (%v) before it printed %q:\n%s", p.err, text, p.out)
		default:
		}
		return false
	})
}

// Processes is a cluster of node processes.
type Processes struct {
	t     testing.TB
	nodes []*processNode
}

type processNode struct {
	config, admin, url string
	run                *Process
}

// StartProcesses forms a cluster of three processes.
func StartProcesses(t testing.TB, groups uint32) *Processes {
	t.Helper()
	c := &Processes{t: t}
	dir := t.TempDir()
	for i := range 3 {
		n := &processNode{config: filepath.Join(dir, fmt.Sprintf("node-%d.yaml", i)), admin: freeAddr(t)}
		client := freeAddr(t)
		n.url = "http://" + client
		text := fmt.Sprintf("dataDir: %q\nzone: zone-%d\nclient: {listen: %q}\nadmin: {listen: %q}\npeer: {listen: %q}\nhealth: %q\n",
			filepath.Join(dir, fmt.Sprintf("node-%d", i)), i, client, n.admin, freeAddr(t), freeAddr(t))
		if i > 0 {
			text += fmt.Sprintf("join: [%s]\n", c.nodes[0].admin)
		}
		if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, n)
		n.start(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	args := []string{"init", "--admin", c.nodes[0].admin, "--cluster-id", "processes", "--token", "t", "--groups", fmt.Sprint(groups)}
	if out, err := exec.CommandContext(ctx, Binary(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	c.AwaitLeaders()
	return c
}

func (n *processNode) start(t testing.TB) { n.run = Run(t, "node", "--config", n.config) }

func (n *processNode) status() adminapi.Status {
	c := adminapi.NewClient(n.admin, adminapi.Options{Timeout: 5 * time.Second})
	defer c.Close()
	s, _ := c.Status(context.Background())
	return s
}

// URLs returns the base URLs of all nodes.
func (c *Processes) URLs() (out []string) {
	for _, n := range c.nodes {
		out = append(out, n.url)
	}
	return out
}

// AwaitLeaders returns when every node serves and knows all leaders.
func (c *Processes) AwaitLeaders() {
	c.t.Helper()
	Eventually(c.t, "all nodes serve and know their leaders", func() bool {
		for _, n := range c.nodes {
			if s := n.status(); s.State != adminapi.StateServing || s.Leaderless > 0 || s.Replicas == 0 {
				return false
			}
		}
		return true
	})
}

// LeaderOf returns the node that leads a stream's group.
func (c *Processes) LeaderOf(stream string) *processNode {
	c.t.Helper()
	var leader *processNode
	Eventually(c.t, "a node leads "+stream, func() bool {
		for _, n := range c.nodes {
			client := NewClient([]string{n.url})
			a, err := client.Once(context.Background(), "HEAD", n.url+stream, nil, nil)
			client.Close()
			if err == nil && a.Status == 200 {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

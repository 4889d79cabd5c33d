package cluster

import (
	"fmt"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	code := m.Run()
	removeBinary()
	os.Exit(code)
}

// mostGap is what the loss of a leader may cost writers: an election, and the
// retries of clients that find out.
const mostGap = 10 * time.Second

func TestWritersAreBackSecondsAfterTheLeadersProcessIsKilled(t *testing.T) {
	c := StartProcesses(t, 4)
	l := StartLoad(t, c.URLs(), 3)
	l.AwaitProgress(t, 20)
	for round := range Rounds(2) {
		leader := c.LeaderOf(l.Streams[round%3].Stream)
		l.Gap()
		leader.run.Kill()
		l.AwaitProgress(t, 20)
		gap := l.Gap()
		t.Logf("round %d: kill -9 of the leader cost writers %v", round, gap)
		if gap > mostGap {
			t.Errorf("round %d: writers stood still for %v", round, gap)
		}
		leader.start(t)
		c.AwaitLeaders()
	}
	l.Check(t)
}

func TestAllProcessesKilledAtOnceLoseNothing(t *testing.T) {
	c := StartProcesses(t, 4)
	l := StartLoad(t, c.URLs(), 3)
	for round := range Rounds(2) {
		l.AwaitProgress(t, 20)
		l.Gap()
		for _, n := range c.nodes {
			_ = n.run.cmd.Process.Kill()
		}
		for _, n := range c.nodes {
			n.run.Kill()
			n.start(t)
		}
		c.AwaitLeaders()
		l.AwaitProgress(t, 20)
		t.Logf("round %d: kill -9 of all three cost writers %v", round, l.Gap())
	}
	l.Check(t)
}

func TestALeaderThatIsStoppedAndGoesOnIsNoLeader(t *testing.T) {
	c := StartProcesses(t, 4)
	l := StartLoad(t, c.URLs(), 2)
	l.AwaitProgress(t, 20)
	leader := c.LeaderOf(l.Streams[0].Stream)
	l.Gap()
	leader.run.Signal(t, syscall.SIGSTOP)
	// Clients that ask the stopped process wait for their own deadline, so the
	// proof of progress is a writer that asks the others.
	var others []string
	for _, n := range c.nodes {
		if n != leader {
			others = append(others, n.url)
		}
	}
	client := NewClient(others)
	defer client.Close()
	began := time.Now()
	Eventually(t, "another node leads", func() bool {
		a, err := client.Once(t.Context(), http.MethodHead, others[0]+l.Streams[0].Stream, nil, nil)
		if err != nil {
			return false
		}
		return a.Status == 200 || (a.Status == 307 && a.Header.Get("Location") == others[1]+l.Streams[0].Stream)
	})
	t.Logf("another node led after %v", time.Since(began))
	leader.run.Signal(t, syscall.SIGCONT)
	l.AwaitProgress(t, 20)
	c.AwaitLeaders()
	l.Check(t)
}

func TestSIGTERMIsGraceful(t *testing.T) {
	c := StartProcesses(t, 4)
	l := StartLoad(t, c.URLs(), 2)
	for i, n := range c.nodes {
		l.AwaitProgress(t, 20)
		l.Gap()
		began := time.Now()
		n.run.Signal(t, syscall.SIGTERM)
		if err := n.run.Wait(t); err != nil {
			t.Errorf("node %d ended with %v:\n%s", i, err, n.run.out)
		}
		took := time.Since(began)
		l.AwaitProgress(t, 10)
		gap := l.Gap()
		t.Logf("node %d: SIGTERM to exit %v, cost writers %v", i, took, gap)
		if took > 15*time.Second || gap > mostGap {
			t.Errorf("node %d: SIGTERM took %v and cost writers %v", i, took, gap)
		}
		n.start(t)
		c.AwaitLeaders()
	}
	l.Check(t)
}

func TestDevKeepsItsDataOverRestarts(t *testing.T) {
	dir, addr := t.TempDir(), freeAddr(t)
	url := "http://" + addr
	client := NewClient([]string{url})
	defer client.Close()
	want := ""
	for i, end := range []func(*Process){
		func(p *Process) { p.Signal(t, syscall.SIGTERM) },
		func(p *Process) { p.Signal(t, syscall.SIGINT) },
		func(p *Process) { p.Kill() },
		func(p *Process) { p.Signal(t, syscall.SIGTERM) },
	} {
		began := time.Now()
		p := Run(t, "dev", "--data-dir", dir, "--listen", addr)
		p.AwaitOutput(t, "Runnel is ready on "+url)
		t.Logf("ready after %v", time.Since(began))
		if err := client.Create(t.Context(), "/demo/kept"); err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf("run %d;", i)
		a, err := client.Once(t.Context(), http.MethodPost, url+"/demo/kept", headers("Content-Type", "text/plain"), fmt.Appendf(nil, "run %d;", i))
		if err != nil || a.Status != 204 {
			t.Fatalf("append: %v, %v", a, err)
		}
		a, err = client.Once(t.Context(), http.MethodGet, url+"/demo/kept?offset=-1", nil, nil)
		if err != nil || string(a.Body) != want {
			t.Fatalf("run %d reads %q, %v; want %q", i, a.Body, err, want)
		}
		client.Close()
		end(p)
		if err := p.Wait(t); err != nil && i != 2 {
			t.Errorf("run %d ended with %v:\n%s", i, err, p.out)
		}
	}
}

func TestTheClusterCommandFormsAndFormsAgain(t *testing.T) {
	dir := t.TempDir()
	port := freePorts(t, 40)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	urls := []string{url, fmt.Sprintf("http://127.0.0.1:%d", port+10), fmt.Sprintf("http://127.0.0.1:%d", port+20)}
	client := NewClient(urls)
	defer client.Close()
	for run := range 2 {
		p := Run(t, "cluster", "--data-dir", dir, "--base-port", fmt.Sprint(port), "--groups", "4")
		p.AwaitOutput(t, "curl -L")
		if err := client.Create(t.Context(), "/demo/cluster"); err != nil {
			t.Fatal(err)
		}
		for i, u := range urls {
			a, err := client.Follow(t.Context(), http.MethodPost, u, "/demo/cluster", headers("Content-Type", "text/plain"), []byte("x"))
			if err != nil || a.Status != 204 || a.Next() != int64(run*3+i+1) {
				t.Fatalf("run %d, node %d: %v, %v", run, i, a, err)
			}
		}
		p.Signal(t, syscall.SIGTERM)
		if err := p.Wait(t); err != nil {
			t.Errorf("run %d ended with %v:\n%s", run, err, p.out)
		}
		for _, u := range urls {
			if _, err := client.Once(t.Context(), http.MethodGet, u+"/demo/cluster", nil, nil); err == nil {
				t.Errorf("run %d: the node at %s is still there", run, u)
			}
		}
	}
}

package cluster

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/adminapi"
)

// initOnce calls init with a deadline of its own.
func initOnce(n *Node, r adminapi.InitRequest) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client := n.AdminClient()
	defer client.Close()
	_, err := client.Init(ctx, r)
	return err
}

func code(err error) adminapi.Code {
	var e *adminapi.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// stride is how many syncs lie between the crashes of a sweep: every sync is
// met with RUNNEL_ROUNDS, else some, others each time.
func stride() int {
	if Rounds(0) > 0 {
		return 1
	}
	return 5
}

// R13: init is one init however often it is interrupted.
func TestTrapR13_InitThatIsRepeatedAfterACrashAtAnyStepIsOneInit(t *testing.T) {
	rng := Seed(t)
	for step := 1 + rng.IntN(stride()); ; step += stride() {
		c := New(t, 1, 1, 2)
		n := c.Nodes[0]
		reached := n.fs.StopAfter(step)
		n.startAside()
		crashed := false
		select {
		case <-reached:
			crashed = true
		case err := <-n.started:
			if err != nil {
				t.Fatal(err)
			}
			answered := make(chan error, 1)
			go func() { answered <- initOnce(n, c.InitRequest()) }()
			select {
			case <-reached:
				crashed = true
			case err := <-answered:
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
			}
		}
		if !crashed {
			n.fs.Disarm()
			if step < 10 {
				t.Errorf("start and init made fewer than %d syncs", step)
			}
			t.Logf("there are fewer than %d syncs", step)
			return
		}
		PowerLoss(rng, n)
		n.endOfStart()
		n.Start()
		if err := initOnce(n, c.InitRequest()); err != nil {
			t.Fatalf("step %d: init after the crash: %v", step, err)
		}
		other := c.InitRequest()
		other.Token = "another"
		if err := initOnce(n, other); code(err) != adminapi.CodeAlreadyInitialized {
			t.Errorf("step %d: another init: %v, want %s", step, err, adminapi.CodeAlreadyInitialized)
		}
		if s := n.Status(); s.ClusterID != c.ID || s.NodeID != 1 || s.Groups != 2 {
			t.Errorf("step %d: %+v", step, s)
		}
		c.AwaitReady()
		n.Stop()
	}
}

// R13: a node that crashes while it joins is one member, not one more each time.
func TestTrapR13_AJoinThatIsRepeatedAfterACrashAtAnyStepIsOneMember(t *testing.T) {
	rng := Seed(t)
	for step := 1 + rng.IntN(stride()); ; step += stride() {
		c := Form(t, 1, 1, 2)
		n := c.Add()
		crashed := crashWhileJoining(t, c, n, step)
		if crashed {
			// What the old start still does reaches nobody.
			c.Net.SetDown(0, true)
			PowerLoss(rng, n)
			n.endOfStart()
			c.Net.SetDown(0, false)
			n.Start()
			Eventually(t, "the joiner holds the cluster's state", n.holdsState)
		}
		if s := n.Status(); s.NodeID != 2 || s.ClusterID != c.ID {
			t.Fatalf("step %d: node %d of %q, want 2: a join was counted twice", step, s.NodeID, s.ClusterID)
		}
		if got := len(c.Nodes[0].Status().Peers); got != 1 {
			t.Fatalf("step %d: the cluster has %d other members, want 1", step, got)
		}
		n.Stop()
		c.Nodes[0].Stop()
		if !crashed {
			t.Logf("there are fewer than %d syncs", step)
			if step < 10 {
				t.Errorf("start and join made fewer than %d syncs", step)
			}
			return
		}
	}
}

// crashWhileJoining starts a joiner and stops it at its step-th sync; false when
// it was a member with all that belongs to it before.
func crashWhileJoining(t *testing.T, c *Cluster, n *Node, step int) bool {
	t.Helper()
	reached := n.fs.StopAfter(step)
	n.startAside()
	crashed := false
	Eventually(t, "the joiner crashes or is done", func() bool {
		select {
		case <-reached:
			crashed = true
			return true
		default:
			return n.holdsState()
		}
	})
	if !crashed {
		n.fs.Disarm()
	}
	return crashed
}

// holdsState says that the node is a member and has applied the cluster's facts.
func (n *Node) holdsState() bool {
	s := n.Status()
	return s.NodeID != 0 && s.Groups == int(n.cluster.Groups) && n.current() != nil
}

// startAside starts the node in the background.
func (n *Node) startAside() {
	started := make(chan error, 1)
	n.started = started
	go func() {
		defer close(started)
		started <- n.TryStart()
	}()
}

// endOfStart waits for a start that the power loss overtook, and ends the node
// that may have come of it.
func (n *Node) endOfStart() {
	select {
	case <-n.started:
	case <-time.After(Patience):
		n.cluster.t.Fatal("a start hangs")
	}
	n.abandon()
}

// R13: the meta group's voters rise with the members: after three have joined
// it outlives any of them.
func TestTrapR13_TheMetaGroupOutlivesItsFirstNode(t *testing.T) {
	rng := Seed(t)
	c := Form(t, 3, 3, 2)
	PowerLoss(rng, c.Nodes[0])
	Eventually(t, "another node leads the meta group", func() bool {
		a, b := c.Nodes[1].Status(), c.Nodes[2].Status()
		return a.MetaLeader > 1 && a.MetaLeader == b.MetaLeader
	})
	// It takes changes: a fourth node joins.
	n := c.Add()
	n.join = []int{1, 2}
	n.Start()
	n.AwaitMember()
	if s := n.Status(); s.NodeID != 4 {
		t.Errorf("the fourth node is node %d", s.NodeID)
	}
	c.Nodes[0].Start()
	c.AwaitReady()
	Eventually(t, "all know all", func() bool {
		for _, n := range c.Nodes {
			if len(n.Status().Peers) != 3 {
				return false
			}
		}
		return true
	})
}

func TestInitOnANodeWhosePeersHaveDataRefuses(t *testing.T) {
	c := Form(t, 3, 3, 2)
	c.Nodes[1].Stop()
	c.Nodes[2].Stop()
	// One of three can't take a member in, but it can say whose it is.
	Eventually(t, "the meta group has no leader", func() bool { return c.Nodes[0].Status().MetaLeader == 0 })
	n := c.Add()
	n.join = []int{0}
	n.Start()
	err := initOnce(n, c.InitRequest())
	if code(err) != adminapi.CodeAlreadyInitialized || !strings.Contains(err.Error(), c.ID) {
		t.Errorf("init: %v, want %s naming the cluster", err, adminapi.CodeAlreadyInitialized)
	}
	if s := n.Status(); s.ClusterID != "" {
		t.Errorf("the node became a member of %q", s.ClusterID)
	}
}

// R4, U37, U56: a node never begins anew beside data that is left of it.
func TestTrapR4_ANodeThatLostAPartOfItsDataRefusesToStart(t *testing.T) {
	rng := Seed(t)
	other := Form(t, 1, 1, 2)
	other.Nodes[0].Stop()
	for _, test := range []struct {
		name   string
		damage func(n *Node)
		wants  string
	}{
		{"the log is gone", func(n *Node) { remove(t, n, "wal") }, "log"},
		{"the base store is gone", func(n *Node) { remove(t, n, "base") }, "base"},
		{"the log is another cluster's", func(n *Node) {
			remove(t, n, "wal")
			replace(t, n, other.Nodes[0], "wal")
		}, "cluster"},
		{"the base store is another cluster's", func(n *Node) {
			remove(t, n, "base")
			replace(t, n, other.Nodes[0], "base")
		}, "cluster"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := New(t, 1, 1, 2)
			c.ID = "cluster-one"
			n := c.Nodes[0]
			n.Start()
			c.Init()
			c.AwaitReady()
			// Of what was applied nothing may have been synced: the base store alone
			// must not look like a replica that has yet to begin.
			PowerLoss(rng, n)
			test.damage(n)
			err := n.TryStart()
			if err == nil {
				t.Fatalf("the node starts; status %+v", n.Status())
			}
			t.Log(err)
			if !strings.Contains(err.Error(), test.wants) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q should be one line that names the %s", err, test.wants)
			}
		})
	}
}

func remove(t *testing.T, n *Node, dir string) {
	t.Helper()
	if err := n.fs.RemoveAll(path.Join("/data", dir)); err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, n, from *Node, dir string) {
	t.Helper()
	p := path.Join("/data", dir)
	if ok, err := vfs.Clone(from.fs.MemFS, n.fs.MemFS, p, p, vfs.CloneSync); err != nil || !ok {
		t.Fatalf("copy %s: %v, %v", p, ok, err)
	}
}

package node

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/basestore"
	"runnel.dev/runnel/node/meta"
	"runnel.dev/runnel/node/stream"
)

// placed returns the node's state with one more group, whose only replica is
// placed on it.
func placed(n *Node, replica uint64, born bool) *meta.State {
	s := *n.machine.Meta()
	p := meta.Placement{Node: n.member.Load().id.NodeID, Replica: replica}
	g := meta.Group{Genesis: &meta.Genesis{Voters: []meta.Placement{p}, History: 7}, Placement: []meta.Placement{p}}
	if born {
		g.Born = []uint64{replica}
	}
	s.Groups = append(s.Groups[:len(s.Groups):len(s.Groups)], g)
	return &s
}

// R4: the votes and acknowledgements of a replica are gone with its data.
func TestTrapR4_ABornReplicaWithoutDataIsReportedLostAndNeverMadeAgain(t *testing.T) {
	n := startAlone(t)
	m := n.member.Load()
	const lost = 99
	for range 2 {
		if err := m.replicas.reconcile(t.Context(), placed(n, lost, true)); err != nil {
			t.Fatal(err)
		}
	}
	if !m.replicas.isLost(lost) {
		t.Error("the replica is not reported lost")
	}
	if s := m.host.Status(3); s.Replica != 0 {
		t.Errorf("replica %d of group 3 runs", s.Replica)
	}
	states, err := n.store.Replicas()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		if s.ID == lost {
			t.Error("the replica was created")
		}
	}
	status, err := (*adminNode)(n).Status(t.Context())
	if err != nil || !strings.Contains(status.Message, "lost") {
		t.Errorf("status %+v, %v: should say that a replica is lost", status, err)
	}
	if !n.Ready() {
		t.Error("a lost replica must not make the node unready: its other groups serve")
	}
}

func TestTrapR4_AReplicaThatWasDestroyedOrReplacedHereIsNotMadeAgain(t *testing.T) {
	n := startAlone(t)
	m := n.member.Load()
	old := basestore.Replica{Group: 3, ID: 50}
	if err := n.store.CreateReplica(old, stream.Group{}); err != nil {
		t.Fatal(err)
	}
	if err := n.store.DestroyReplica(old); err != nil {
		t.Fatal(err)
	}
	if err := m.replicas.reconcile(t.Context(), placed(n, 50, false)); err != nil {
		t.Fatal(err)
	}
	if !m.replicas.isLost(50) || m.host.Status(3).Replica != 0 {
		t.Error("a destroyed replica was made again")
	}
}

func TestAGenesisReplicaIsCreatedStartedAndReportedOnce(t *testing.T) {
	n := startAlone(t)
	m := n.member.Load()
	state := n.machine.Meta()
	for i := range state.Groups {
		if !state.AllBorn(i) {
			t.Errorf("group %d is not reported born: %+v", i, state.Groups[i])
		}
	}
	// Once more changes nothing.
	if err := m.replicas.reconcile(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	states, err := n.store.Replicas()
	if err != nil || len(states) != 3 {
		t.Errorf("replicas %v, %v: want the meta group's and two", states, err)
	}
}

func TestARestartedNodeStartsItsReplicasAndNoOthers(t *testing.T) {
	fs := vfs.NewMem()
	first, err := Start(t.Context(), testConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := first.InitAlone(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := first.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	id := *first.member.Load().id
	stopNode(t, first)

	n := startNode(t, testConfig(fs))
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if got := n.member.Load().id; got.ClusterID != id.ClusterID || got.NodeID != id.NodeID || got.MetaReplica != id.MetaReplica {
		t.Errorf("identity %+v after the restart, %+v before", got, id)
	}
	if err := n.InitAlone(ctx, 5); err != nil || len(n.machine.Meta().Groups) != 2 {
		t.Errorf("init on a member: %v, %d groups, want 2 as before", err, len(n.machine.Meta().Groups))
	}
}

package raftgroup

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// storm runs random load, faults and membership changes for d of virtual time.
func (w *world) storm(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		for range w.rng.IntN(4) {
			w.randomCall()
		}
		if w.rng.IntN(40) == 0 {
			w.randomFault()
		}
		w.step()
	}
}

func (w *world) randomCall() {
	g := w.groups[w.rng.IntN(len(w.groups))]
	i := w.leader(g)
	if i < 0 || w.rng.IntN(8) == 0 {
		i = w.rng.IntN(len(w.nodes))
	}
	n := w.nodes[i]
	if !n.up {
		return
	}
	switch k := w.rng.IntN(100); {
	case k < 60:
		w.append(i, g, w.rng.IntN(200))
	case k < 61:
		w.append(i, g, 100<<10)
	case k < 97:
		w.read(i, g)
	case k < 98:
		n.host.TransferLeaderAsync(g, replicaOf(g, w.rng.IntN(len(w.nodes))), w.now.Add(time.Second))
	default:
		w.randomConf(n, g)
	}
}

// randomConf makes any node a voter or a learner; two changes make it joint.
func (w *world) randomConf(n *simNode, g GroupID) {
	var cc raftpb.ConfChangeV2
	for range 1 + w.rng.IntN(2) {
		typ := raftpb.ConfChangeAddNode
		if w.rng.IntN(3) == 0 {
			typ = raftpb.ConfChangeAddLearnerNode
		}
		cc.Changes = append(cc.Changes, raftpb.ConfChangeSingle{Type: typ, NodeID: replicaOf(g, w.rng.IntN(len(w.nodes)))})
	}
	n.host.ChangeConfAsync(g, cc, w.now.Add(time.Second))
}

func (w *world) randomFault() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch w.rng.IntN(9) {
	case 0, 1:
		if n.up {
			n.crash(w.rng.IntN(2) == 0)
		} else {
			n.start()
		}
	case 2:
		for _, m := range w.nodes {
			if !m.up {
				m.start()
			}
		}
	case 3:
		for _, m := range w.nodes {
			w.cut[[2]int{n.i, m.i}] = w.rng.IntN(2) == 0
			w.cut[[2]int{m.i, n.i}] = w.rng.IntN(2) == 0
		}
	case 4:
		clear(w.cut)
	case 5:
		w.loss, w.repeat, w.syncs = w.rng.IntN(20), w.rng.IntN(20), 20+w.rng.IntN(80)
	case 6:
		for g, mark := range n.machine.sync() {
			if n.up {
				n.host.SetDurable(g, mark.applied.Index)
			}
		}
	case 7:
		n.host.SetClockSuspect(w.rng.IntN(2) == 0)
	case 8:
		n.host.Campaign(w.groups[w.rng.IntN(len(w.groups))])
	}
}

func runStorm(t *testing.T, seed uint64, d time.Duration) (*world, uint64) {
	w := newWorld(t, seed, 4, 2)
	w.storm(d)
	w.heal()
	w.check(func(g GroupID) []int { return w.members(g) })
	return w, w.trace.Sum64()
}

// members are the nodes whose replica is in the group's configuration.
func (w *world) members(g GroupID) []int {
	conf := w.nodes[w.leader(g)].host.Status(g).Conf
	var out []int
	for _, id := range append(conf.Voters, conf.Learners...) {
		out = append(out, nodeOf(g, id))
	}
	return out
}

// TestDeterministic: the same seed gives the same trace, message for message;
// no acknowledged write is lost or doubled, replicas agree, reads and writes
// are linearizable.
func TestDeterministic(t *testing.T) {
	seeds := 8
	if testing.Short() {
		seeds = 3
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			w, first := runStorm(t, seed, 10*time.Second)
			again, second := runStorm(t, seed, 10*time.Second)
			if first != second {
				t.Fatalf("seed %d: two runs differ: %s", seed, firstDifference(w.log.String(), again.log.String()))
			}
			acked := 0
			for _, c := range w.calls {
				if c.ok {
					acked++
				}
			}
			if acked < 100 {
				t.Fatalf("seed %d: only %d of %d calls succeeded: this run proves little", seed, acked, len(w.calls))
			}
		})
	}
}

func firstDifference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("at byte %d:\n%.300s\n---\n%.300s", i, a[max(0, i-100):], b[max(0, i-100):])
}

package raftgroup

import (
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

func (w *world) lead(g GroupID) int {
	w.t.Helper()
	w.must(20*time.Second, "a leader", func() bool {
		l := w.leader(g)
		return l >= 0 && w.nodes[l].host.Status(g).Applied == w.nodes[l].host.Status(g).LastIndex
	})
	return w.leader(g)
}

// leadOn makes one node the leader.
func (w *world) leadOn(g GroupID, node int) {
	w.t.Helper()
	w.must(30*time.Second, "leadership moves", func() bool {
		l := w.leader(g)
		if l >= 0 && l != node {
			w.nodes[l].host.TransferLeaderAsync(g, replicaOf(g, node), w.now.Add(time.Second))
			w.run(500*time.Millisecond, func() bool { return w.leader(g) == node })
		}
		return l == node
	})
	w.lead(g)
}

func (w *world) do(p *Pending) (any, error) {
	w.t.Helper()
	var v any
	var err error
	w.must(20*time.Second, "a call ends", func() (ended bool) {
		v, err, ended = p.Poll()
		return ended
	})
	return v, err
}

func (w *world) soon() time.Time { return w.now.Add(5 * time.Second) }

func (w *world) propose(node int, g GroupID, id uint64) (any, error) {
	w.t.Helper()
	return w.do(w.nodes[node].host.ProposeAsync(g, command(id, 0), nil, w.soon()))
}

func (w *world) grp(node int, g GroupID) *group { return w.nodes[node].host.lookup(g) }

func add(typ raftpb.ConfChangeType, ids ...uint64) raftpb.ConfChangeV2 {
	var cc raftpb.ConfChangeV2
	for _, id := range ids {
		cc.Changes = append(cc.Changes, raftpb.ConfChangeSingle{Type: typ, NodeID: id})
	}
	return cc
}

// inFlight counts packets of a type that node has put on the network.
func (w *world) inFlight(typ raftpb.MessageType, from uint64) int {
	n := 0
	for _, p := range w.net {
		var m raftpb.Message
		if m.Unmarshal(p.data) == nil && m.Type == typ && m.From == from {
			n++
		}
	}
	return n
}

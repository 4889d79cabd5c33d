package node

import (
	"runnel.dev/runnel/node/apply"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/transport"
)

// Send hands the messages of one shard turn to the peers they are for.
// Messages to a replica whose node isn't known are dropped: raft sends again.
func (m *member) Send(msgs []raftgroup.Message) {
	byNode := make(map[uint64][]transport.Message, 4)
	for i := range msgs {
		node, ok := m.nodeOf(msgs[i].Group, msgs[i].To)
		if !ok || node == m.id.NodeID {
			continue
		}
		byNode[node] = append(byNode[node], transport.Message{Group: msgs[i].Group, Raft: msgs[i].Message})
	}
	for node, batch := range byNode {
		m.peers.Send(node, batch)
	}
}

// nodeOf returns the node that holds a replica.
func (m *member) nodeOf(group uint32, replica uint64) (uint64, bool) {
	state := m.state()
	if group == apply.MetaGroup {
		if n, ok := state.NodeOfMetaReplica(replica); ok {
			return n.ID, true
		}
		for _, s := range m.id.Seeds {
			if s.MetaReplica == replica {
				return s.ID, true
			}
		}
		return 0, false
	}
	if int(group) > len(state.Groups) {
		return 0, false
	}
	n, ok := state.NodeOf(int(group-1), replica)
	return n.ID, ok
}

// peerAddress returns where a node's peer plane is.
func (m *member) peerAddress(node uint64) (string, bool) {
	if n, ok := m.state().Nodes[node]; ok {
		return n.Addresses.Peer, true
	}
	for _, s := range m.id.Seeds {
		if s.ID == node {
			return s.Addresses.Peer, true
		}
	}
	return "", false
}

// HandleRaft takes messages from a peer.
func (m *member) HandleRaft(_ uint64, msgs []transport.Message) {
	for i := range msgs {
		m.host.Step(msgs[i].Group, msgs[i].Raft.To, msgs[i].Raft)
	}
}

// Unreachable tells every group with a replica on the node that it did not
// get its messages.
func (m *member) Unreachable(node uint64) {
	state := m.state()
	if n, ok := state.Nodes[node]; ok {
		m.host.ReportUnreachable(apply.MetaGroup, n.MetaReplica)
	}
	for i := range state.Groups {
		if p, ok := state.On(i, node); ok {
			m.host.ReportUnreachable(uint32(i+1), p.Replica)
		}
	}
}

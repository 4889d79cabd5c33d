package node

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"runnel.dev/runnel/node/adminapi"
	"runnel.dev/runnel/node/apply"
	"runnel.dev/runnel/node/meta"
	"runnel.dev/runnel/node/raftgroup"
)

// adminNode is the node as its admin plane sees it.
type adminNode Node

// Status says where the node is and how its peers look from here.
func (a *adminNode) Status(context.Context) (adminapi.Status, error) {
	n := (*Node)(a)
	s := adminapi.Status{State: adminapi.StateEmpty, Version: buildVersion(), Zone: n.cfg.Zone}
	m := n.member.Load()
	if m == nil {
		// empty says that the node has no data; who asks may init it.
		if id := n.who.Load(); id != nil {
			s.State, s.ClusterID, s.NodeID = adminapi.StateStarting, id.ClusterID, id.NodeID
		} else if len(n.cfg.Join) > 0 {
			s.State = adminapi.StateJoining
		}
		return s, nil
	}
	state := m.state()
	s.State = adminapi.StateServing
	if !n.Ready() {
		s.State = adminapi.StateStarting
	}
	s.ClusterID, s.NodeID, s.Groups = m.id.ClusterID, m.id.NodeID, len(state.Groups)
	for i := range state.Groups {
		status := m.host.Status(uint32(i + 1))
		if status.Replica == 0 {
			continue
		}
		s.Replicas++
		switch {
		case status.Role == raftgroup.Leader:
			s.Leading++
		case status.Leader == 0:
			s.Leaderless++
		}
		if status.ApplyStopped {
			s.Stopped++
		}
	}
	if m.replicas.anyLost() {
		s.Message = "replicas that were born on this node have lost their data; see the node's log"
	}
	if leader, ok := m.metaLeader(); ok {
		s.MetaLeader = leader.ID
	}
	s.ClockSuspect = m.clock.suspect.Load()
	s.Peers = m.peerStatus(state)
	return s, nil
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func (m *member) peerStatus(state *meta.State) []adminapi.PeerStatus {
	var out []adminapi.PeerStatus
	for _, id := range state.NodeIDs() {
		if id == m.id.NodeID || len(out) == adminapi.MaxPeers {
			continue
		}
		node := state.Nodes[id]
		out = append(out, adminapi.PeerStatus{NodeID: id, Addresses: adminapi.Addresses(node.Addresses), Zone: node.Zone})
	}
	offsets := m.peers.ClockOffsets()
	links := m.peers.Peers()
	for i := range out {
		p := &out[i]
		for _, l := range links {
			if l.Node == p.NodeID {
				p.Connected = l.Up
				if l.Err != nil {
					p.Error = l.Err.Error()
				}
			}
		}
		for _, o := range offsets {
			if o.Node == p.NodeID {
				ms := o.Offset.Milliseconds()
				p.ClockOffsetMillis = &ms
			}
		}
	}
	return out
}

// Join makes the caller a member of this node's cluster, or takes a member's
// newer addresses.
func (a *adminNode) Join(ctx context.Context, r adminapi.JoinRequest) (adminapi.JoinResponse, error) {
	m, err := a.joined()
	if err != nil {
		return adminapi.JoinResponse{}, err
	}
	if _, known := m.state().NodeByToken(r.Token); !known && len(m.state().Nodes) >= meta.MaxNodes {
		return adminapi.JoinResponse{}, adminapi.Refuse(adminapi.CodeClusterFull, "the cluster has %d nodes", meta.MaxNodes)
	}
	addresses := meta.Addresses(r.Addresses)
	result, err := m.proposeHere(ctx, &meta.Command{AddNode: &meta.AddNode{Token: r.Token, Zone: r.Zone, Addresses: addresses}})
	if err != nil {
		return adminapi.JoinResponse{}, err
	}
	self := result.(meta.Node)
	if self.Addresses != addresses || self.Zone != r.Zone {
		if _, err := m.proposeHere(ctx, &meta.Command{UpdateNode: &meta.UpdateNode{ID: self.ID, Addresses: addresses, Zone: r.Zone}}); err != nil {
			return adminapi.JoinResponse{}, err
		}
	}
	state := m.state()
	out := adminapi.JoinResponse{
		ClusterID: m.id.ClusterID, NodeID: self.ID, MetaReplica: self.MetaReplica,
		Groups: uint32(len(state.Groups)), ReplicationFactor: state.ReplicationFactor,
	}
	for _, id := range state.NodeIDs() {
		node := state.Nodes[id]
		out.Members = append(out.Members, adminapi.Member{
			NodeID: id, MetaReplica: node.MetaReplica, Addresses: adminapi.Addresses(node.Addresses), Zone: node.Zone,
		})
	}
	return out, nil
}

// Born records replicas that a member has brought into being.
func (a *adminNode) Born(ctx context.Context, r adminapi.BornRequest) (adminapi.BornResponse, error) {
	m, err := a.joined()
	if err != nil {
		return adminapi.BornResponse{}, err
	}
	born := &meta.Born{}
	for _, b := range r.Replicas {
		born.Replicas = append(born.Replicas, meta.BornReplica{Group: b.Group, Replica: b.Replica})
	}
	_, err = m.proposeHere(ctx, &meta.Command{Born: born})
	return adminapi.BornResponse{}, err
}

func (a *adminNode) joined() (*member, error) {
	m := (*Node)(a).member.Load()
	if m == nil || !m.state().Initialized() {
		return nil, adminapi.Refuse(adminapi.CodeNotInitialized, "this node belongs to no cluster yet").Try("run runnel init on the first node, or ask another one")
	}
	return m, nil
}

// proposeHere has the meta group apply a command if this node leads it, and
// turns what may go wrong into the plane's refusals.
func (m *member) proposeHere(ctx context.Context, c *meta.Command) (any, error) {
	encoded, err := c.Encode()
	if err != nil {
		return nil, err
	}
	result, err := m.host.Propose(ctx, apply.MetaGroup, encoded, nil)
	switch {
	case errors.Is(err, raftgroup.ErrNotLeader), errors.Is(err, raftgroup.ErrNoReplica):
		e := adminapi.Refuse(adminapi.CodeNotLeader, "this node does not lead the cluster's own group")
		if leader, ok := m.metaLeader(); ok && leader.ID != m.id.NodeID {
			e.Leader = leader.Addresses.Admin
		}
		return nil, e
	case errors.Is(err, raftgroup.ErrBusy), errors.Is(err, raftgroup.ErrApplyStopped):
		return nil, adminapi.Refuse(adminapi.CodeUnavailable, "the cluster's own group takes no change now").Try("try again")
	case errors.Is(err, raftgroup.ErrOutcomeUnknown):
		return nil, adminapi.Refuse(adminapi.CodeOutcomeUnknown, "the change was not seen applied").Try("repeat it with the same token")
	case err != nil:
		return nil, err
	}
	if refused, ok := result.(*meta.Refused); ok {
		return nil, adminapi.Refuse(adminapi.CodeBadRequest, "%s", refused.Reason)
	}
	return result, nil
}

// adminTimeout bounds a call from one node to another's admin plane.
const adminTimeout = 5 * time.Second

// adminClient returns a client of another node's admin plane.
func (n *Node) adminClient(addr string) (*adminapi.Client, error) {
	o := adminapi.Options{Timeout: adminTimeout}
	if n.cfg.TLS != nil {
		var err error
		if o.TLS, err = n.cfg.TLS.Client(); err != nil {
			return nil, err
		}
	}
	return adminapi.NewClient(addr, o), nil
}

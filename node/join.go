package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runnel.dev/runnel/node/adminapi"
	"runnel.dev/runnel/node/apply"
	"runnel.dev/runnel/node/meta"
	"runnel.dev/runnel/node/raftgroup"
)

// Init makes a cluster of an empty node. On a member that was made by the same
// init it answers as the first time, once the cluster's state says so.
func (a *adminNode) Init(ctx context.Context, r adminapi.InitRequest) (adminapi.InitResponse, error) {
	n := (*Node)(a)
	c := &meta.Init{
		ClusterID: r.ClusterID, Token: r.Token, Groups: r.Groups,
		ReplicationFactor: r.ReplicationFactor, InitialNodes: r.Nodes,
		Node: meta.AddNode{Token: n.token, Addresses: n.addresses(), Zone: n.cfg.Zone},
	}
	if msg := meta.ValidateInit(c); msg != "" {
		return adminapi.InitResponse{}, adminapi.Refuse(adminapi.CodeBadRequest, "%s", msg)
	}
	if err := n.initialize(ctx, c); err != nil {
		return adminapi.InitResponse{}, err
	}
	return adminapi.InitResponse{ClusterID: c.ClusterID, NodeID: n.member.Load().id.NodeID}, nil
}

func (n *Node) initialize(ctx context.Context, c *meta.Init) error {
	if err := n.begin(ctx, c); err != nil {
		return err
	}
	return n.member.Load().awaitInit(ctx)
}

// begin makes the node the member that init names, unless it is one already.
// What the node is on disk decides, not what runs yet: an identity that was
// persisted is never replaced.
func (n *Node) begin(ctx context.Context, c *meta.Init) error {
	if err := n.refuseOther(c); err != nil {
		return err // at once, also while the log is replayed
	}
	if err := poll(ctx, "the node", n.joining.TryLock); err != nil {
		return err
	}
	defer n.joining.Unlock()
	if n.ended {
		return adminapi.Refuse(adminapi.CodeUnavailable, "this node is stopping")
	}
	if err := n.refuseOther(c); err != nil || n.member.Load() != nil {
		return err
	}
	if id := n.who.Load(); id != nil {
		return n.startMember(id) // an earlier attempt failed after it had saved this
	}
	if len(n.cfg.Join) > 0 {
		if err := n.refuseIfPeersHaveData(ctx, c.ClusterID); err != nil {
			return err
		}
	}
	// The identity first: after a crash the node knows what it was about to be.
	return n.assume(&identity{ClusterID: c.ClusterID, NodeID: 1, MetaReplica: 1, InitToken: c.Token, Init: c})
}

// refuseOther refuses an init that is not the one this node was made by.
func (n *Node) refuseOther(c *meta.Init) error {
	if id := n.who.Load(); id != nil && (id.ClusterID != c.ClusterID || id.InitToken != c.Token) {
		return adminapi.Refuse(adminapi.CodeAlreadyInitialized, "this node is a member of cluster %q", id.ClusterID)
	}
	return nil
}

// assume persists an empty node's identity and acts on it.
func (n *Node) assume(id *identity) error {
	if err := id.save(n.store); err != nil {
		return fmt.Errorf("save the identity: %w", err)
	}
	n.who.Store(id)
	return n.startMember(id)
}

// startMember acts on a persisted identity. A failure ends the node: it has
// closed what it had opened, and only a new start can try again.
func (n *Node) startMember(id *identity) error {
	err := n.become(n.life, id)
	if err != nil {
		n.fatal(fmt.Errorf("start as a member of cluster %s: %w", id.ClusterID, err))
	}
	return err
}

// refuseIfPeersHaveData asks the nodes of the join list: a second cluster under
// the same id would be two histories.
func (n *Node) refuseIfPeersHaveData(ctx context.Context, cluster string) error {
	for _, addr := range n.cfg.Join {
		client, err := n.adminClient(addr)
		if err != nil {
			return err
		}
		status, err := client.Status(ctx)
		client.Close()
		if err == nil && status.ClusterID == cluster {
			return adminapi.Refuse(adminapi.CodeAlreadyInitialized, "the node at %s holds data of cluster %q", addr, cluster).Try("let this node join it")
		}
	}
	return nil
}

// awaitInit returns when the cluster's state says that it is initialized; the
// meta loop proposes the command.
func (m *member) awaitInit(ctx context.Context) error {
	return poll(ctx, "init", func() bool { return m.state().Initialized() })
}

// joinLoop asks the cluster for membership until it has it.
func (n *Node) joinLoop(ctx context.Context) {
	n.log.Info("joining", "peers", n.cfg.Join)
	for wait := 100 * time.Millisecond; ; wait = min(wait*2, 2*time.Second) {
		err := n.join(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		n.log.Info("not joined yet; trying again", "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// join asks each known admin plane once.
func (n *Node) join(ctx context.Context) error {
	n.joining.Lock()
	defer n.joining.Unlock()
	if n.ended || n.member.Load() != nil {
		return nil
	}
	if id := n.who.Load(); id != nil {
		return n.startMember(id)
	}
	var errs []error
	for _, addr := range n.cfg.Join {
		response, err := n.askToJoin(ctx, addr)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		id := &identity{ClusterID: response.ClusterID, NodeID: response.NodeID, MetaReplica: response.MetaReplica}
		for _, member := range response.Members {
			id.Seeds = append(id.Seeds, meta.Node{
				ID: member.NodeID, MetaReplica: member.MetaReplica,
				Addresses: meta.Addresses(member.Addresses), Zone: member.Zone,
			})
		}
		return n.assume(id)
	}
	return errors.Join(errs...)
}

// askToJoin asks one node, and the leader that it names. On a member it brings
// the cluster's record of the node up to date.
func (n *Node) askToJoin(ctx context.Context, addr string) (adminapi.JoinResponse, error) {
	client, err := n.adminClient(addr)
	if err != nil {
		return adminapi.JoinResponse{}, err
	}
	defer client.Close()
	return client.Join(ctx, adminapi.JoinRequest{
		Token: n.token, Zone: n.cfg.Zone, Addresses: adminapi.Addresses(n.addresses()),
	})
}

// InitAlone makes a cluster of one of an empty node; on a member it does
// nothing. Its groups have one replica.
func (n *Node) InitAlone(ctx context.Context, groups uint32) error {
	if n.member.Load() != nil {
		return nil
	}
	_, err := (*adminNode)(n).Init(ctx, adminapi.InitRequest{
		ClusterID: "dev-" + newToken()[:12], Token: newToken(), Groups: groups, ReplicationFactor: 1, Nodes: 1,
	})
	return err
}

// Ready says that the node is a member, has applied what its log held, and
// that its groups are there. It says nothing of quorum: a client must get its
// typed 503 from a ready node.
func (n *Node) Ready() bool {
	m := n.member.Load()
	if m == nil {
		return false
	}
	state := m.state()
	if !state.Initialized() || m.host.Status(apply.MetaGroup).Replaying {
		return false
	}
	for i := range state.Groups {
		p, ok := state.On(i, m.id.NodeID)
		if state.Groups[i].Genesis == nil {
			return false
		}
		if s := m.host.Status(uint32(i + 1)); ok && !m.replicas.isLost(p.Replica) && (s.Replica == 0 || s.Replaying) {
			return false
		}
	}
	return true
}

// WaitReady returns when the node is ready and knows the leaders of its groups.
func (n *Node) WaitReady(ctx context.Context) error {
	return poll(ctx, "the node", func() bool {
		m := n.member.Load()
		if m == nil || !n.Ready() {
			return false
		}
		for i := range m.state().Groups {
			s := m.host.Status(uint32(i + 1))
			if s.Replica != 0 && s.Leader == 0 {
				return false
			}
			// A leader that has applied nothing of its term can't confirm a read yet.
			if s.Role == raftgroup.Leader && s.Applied < s.Commit {
				return false
			}
		}
		return m.host.Status(apply.MetaGroup).Leader != 0
	})
}

func poll(ctx context.Context, what string, done func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"runnel.dev/runnel/node/adminapi"
	"runnel.dev/runnel/node/apply"
	"runnel.dev/runnel/node/meta"
	"runnel.dev/runnel/node/raftgroup"
)

// metaInterval is how often the loop looks without being told to: for what no
// change announces, such as a learner that has caught up.
const metaInterval = 250 * time.Millisecond

// metaLoop does the meta leader's duties: members become replicas of the meta
// group, groups without a place get one, this node's addresses are current.
func (m *member) metaLoop(ctx context.Context) {
	tick := time.NewTicker(metaInterval)
	defer tick.Stop()
	for {
		if err := m.metaStep(ctx); err != nil && ctx.Err() == nil {
			m.node.log.Warn("the cluster's own group did not take a change; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-m.node.metaWork:
		case <-tick.C:
		}
	}
}

func (m *member) metaStep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	state := m.state()
	if self, ok := state.Nodes[m.id.NodeID]; ok && (self.Addresses != m.node.addresses() || self.Zone != m.node.cfg.Zone) {
		return m.updateSelf(ctx)
	}
	status := m.host.Status(apply.MetaGroup)
	if status.Role != raftgroup.Leader {
		return nil
	}
	if !state.Initialized() {
		// A crash between the identity and the init command's apply.
		if m.id.Init == nil {
			return nil
		}
		return m.proposeMeta(ctx, &meta.Command{Init: m.id.Init})
	}
	caughtUp := func(replica uint64) bool {
		p, ok := m.host.Progress(ctx, apply.MetaGroup, replica)
		return ok && p.RecentActive && p.Match+64 >= status.LastIndex
	}
	if change := meta.PlanMembership(state, status.Conf, caughtUp); change != nil {
		return ignoreNoLeader(m.host.ChangeConf(ctx, apply.MetaGroup, *change))
	}
	if place := meta.PlanGenesis(state, drawHistory); place != nil {
		return m.proposeMeta(ctx, &meta.Command{Place: place})
	}
	return nil
}

// drawHistory draws a group's first history id: random and never zero.
func drawHistory() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:])
		if v := binary.BigEndian.Uint64(b[:]); v != 0 {
			return v
		}
	}
}

func ignoreNoLeader(err error) error {
	if errors.Is(err, raftgroup.ErrNotLeader) {
		return nil
	}
	return err
}

// proposeMeta has the meta group apply a command; this node must lead it.
// Every command is idempotent, so what went wrong is simply tried again.
func (m *member) proposeMeta(ctx context.Context, c *meta.Command) error {
	encoded, err := c.Encode()
	if err != nil {
		return err
	}
	result, err := m.host.Propose(ctx, apply.MetaGroup, encoded, nil)
	if refused, ok := result.(*meta.Refused); ok && err == nil {
		return fmt.Errorf("refused: %w", refused)
	}
	return ignoreNoLeader(err)
}

// updateSelf brings the cluster's record of this node up to date.
func (m *member) updateSelf(ctx context.Context) error {
	leader, ok := m.metaLeader()
	switch {
	case !ok:
		return nil
	case leader.ID == m.id.NodeID:
		return m.proposeMeta(ctx, &meta.Command{UpdateNode: &meta.UpdateNode{
			ID: m.id.NodeID, Addresses: m.node.addresses(), Zone: m.node.cfg.Zone,
		}})
	}
	_, err := m.node.askToJoin(ctx, leader.Addresses.Admin)
	return err
}

// reportBorn tells the meta group which genesis replicas exist here now.
func (m *member) reportBorn(ctx context.Context, born []meta.BornReplica) error {
	leader, ok := m.metaLeader()
	switch {
	case !ok:
		return nil
	case leader.ID == m.id.NodeID:
		return m.proposeMeta(ctx, &meta.Command{Born: &meta.Born{Replicas: born}})
	}
	client, err := m.node.adminClient(leader.Addresses.Admin)
	if err != nil {
		return err
	}
	defer client.Close()
	var r adminapi.BornRequest
	for _, b := range born {
		r.Replicas = append(r.Replicas, adminapi.BornReplica{Group: b.Group, Replica: b.Replica})
	}
	_, err = client.Born(ctx, r)
	return err
}

// metaLeader returns the node that leads the meta group, as far as this node
// knows.
func (m *member) metaLeader() (meta.Node, bool) {
	replica := m.host.Status(apply.MetaGroup).Leader
	if replica == 0 {
		return meta.Node{}, false
	}
	if n, ok := m.state().NodeOfMetaReplica(replica); ok {
		return n, true
	}
	for _, s := range m.id.Seeds {
		if s.MetaReplica == replica {
			return s, true
		}
	}
	return meta.Node{}, false
}

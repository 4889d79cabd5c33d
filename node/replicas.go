package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/apply"
	"runnel.dev/runnel/node/basestore"
	"runnel.dev/runnel/node/meta"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/stream"
	"runnel.dev/runnel/node/wal"
)

// replicaSet is what this node holds, group by group.
type replicaSet struct {
	member *member
	mu     sync.Mutex
	// held maps a group to the replica whose data this node has.
	held map[uint32]uint64
	// lost are replicas that were born here and whose data is missing.
	lost map[uint64]bool
}

func newReplicaSet(m *member, states []basestore.ReplicaState) *replicaSet {
	r := &replicaSet{member: m, held: map[uint32]uint64{}, lost: map[uint64]bool{}}
	for _, s := range states {
		if s.Lost {
			r.lost[s.ID] = true
			continue
		}
		r.held[s.Group] = s.ID
	}
	return r
}

// live tells the log which replicas' frames still count.
func (r *replicaSet) live(w wal.Replica) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[w.Group] == w.ID
}

// startKnown starts every replica whose data this node has. The meta group's
// comes into being here the first time.
func (r *replicaSet) startKnown() error {
	m := r.member
	r.mu.Lock()
	held := make([]uint32, 0, len(r.held))
	for g := range r.held {
		held = append(held, g)
	}
	r.mu.Unlock()
	slices.Sort(held)
	if !slices.Contains(held, apply.MetaGroup) {
		if err := r.create(apply.MetaGroup, m.id.MetaReplica, stream.Group{}); err != nil {
			return fmt.Errorf("create the meta replica: %w", err)
		}
		held = slices.Insert(held, 0, apply.MetaGroup)
	}
	for _, g := range held {
		if err := r.start(g, r.held[g]); err != nil {
			return err
		}
	}
	return nil
}

func (r *replicaSet) create(group uint32, id uint64, record stream.Group) error {
	if err := r.member.node.store.CreateReplica(basestore.Replica{Group: group, ID: id}, record); err != nil {
		return err
	}
	r.mu.Lock()
	r.held[group] = id
	r.mu.Unlock()
	return nil
}

func (r *replicaSet) start(group uint32, id uint64) error {
	err := r.member.host.Start(raftgroup.Replica{Group: group, ID: id, Genesis: r.genesis(group)})
	if err != nil {
		return fmt.Errorf("start replica %d of group %d: %w", id, group, err)
	}
	return nil
}

// genesis is the configuration that a replica which has applied nothing starts
// from. It is used only then; later the stored configuration counts.
func (r *replicaSet) genesis(group uint32) *raftpb.ConfState {
	if group == apply.MetaGroup {
		return &genesisOfMeta // counts only where it names the replica
	}
	state := r.member.state()
	if int(group) > len(state.Groups) || state.Groups[group-1].Genesis == nil {
		return nil
	}
	conf := &raftpb.ConfState{}
	for _, v := range state.Groups[group-1].Genesis.Voters {
		conf.Voters = append(conf.Voters, v.Replica)
	}
	return conf
}

// replicaLoop makes this node hold what the meta group's genesis records name.
func (m *member) replicaLoop(ctx context.Context) {
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for {
		// Links to all members: their clocks are heard, and no first message waits.
		for _, id := range m.state().NodeIDs() {
			if id != m.id.NodeID {
				m.peers.Connect(id)
			}
		}
		if err := m.replicas.reconcile(ctx, m.state()); err != nil && ctx.Err() == nil {
			m.node.log.Warn("replicas are not as the cluster says yet; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-m.node.replicaWork:
		case <-retry.C:
		}
	}
}

// reconcile creates and starts the genesis replicas of this node and reports
// them born.
func (r *replicaSet) reconcile(ctx context.Context, state *meta.State) error {
	var unreported []meta.BornReplica
	for i := range state.Groups {
		g := &state.Groups[i]
		if g.Genesis == nil {
			continue
		}
		for first, v := range g.Genesis.Voters {
			if v.Node != r.member.id.NodeID {
				continue
			}
			born := slices.Contains(g.Born, v.Replica)
			if err := r.ensure(i, v.Replica, g.Genesis.History, born, first == 0); err != nil {
				return err
			}
			if !born && !r.isLost(v.Replica) {
				unreported = append(unreported, meta.BornReplica{Group: uint32(i), Replica: v.Replica})
			}
		}
	}
	if len(unreported) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return r.member.reportBorn(ctx, unreported)
}

// ensure brings one genesis replica into being, once. A replica that was born
// and whose data is missing is never made again: its votes and its
// acknowledgements are gone with the data.
func (r *replicaSet) ensure(i int, id, history uint64, born, first bool) error {
	group := uint32(i + 1)
	r.mu.Lock()
	held, ok := r.held[group]
	r.mu.Unlock()
	switch {
	case r.isLost(id):
		return nil
	case ok && held == id && r.member.host.Status(group).Replica == id:
		return nil
	case ok && held == id:
		return r.start(group, id) // made by an earlier pass that could not start it
	}
	if born {
		return r.reportLost(group, id)
	}
	err := r.create(group, id, stream.Group{Histories: []uint64{history}})
	if errors.Is(err, basestore.ErrTombstoned) || errors.Is(err, basestore.ErrBorn) {
		return r.reportLost(group, id)
	}
	if err != nil {
		return fmt.Errorf("create replica %d of group %d: %w", id, group, err)
	}
	if err := r.start(group, id); err != nil {
		return err
	}
	if first {
		// The placer spread the first voters; leaders follow them.
		r.member.host.Campaign(group)
	}
	return nil
}

func (r *replicaSet) isLost(id uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost[id]
}

func (r *replicaSet) reportLost(group uint32, id uint64) error {
	r.mu.Lock()
	r.lost[id] = true
	r.mu.Unlock()
	r.member.node.log.Error("replica lost: it was born on this node and its data is gone; it is not made again", "group", group, "replica", id)
	return nil
}

// anyLost says that some replica's data is missing.
func (r *replicaSet) anyLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lost) > 0
}

package apply

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"runnel.dev/runnel/node/basestore"
	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/meta"
	"runnel.dev/runnel/node/raftgroup"
)

// MetaGroup is the id of the meta group. Data group i (the key hash modulo the
// count) has the id i+1.
const MetaGroup = 0

// stateKey is the blob under which the meta group keeps its state.
var stateKey = []byte("state")

// Machine is the applied state under all groups of a node.
type Machine struct {
	store  *basestore.Store
	live   *live.Registry
	meta   atomic.Pointer[meta.State]
	onMeta func(*meta.State)
	// runs keeps the memory of finished runs.
	runs sync.Pool
}

// New returns a machine over the store. Watchers in registry are woken by what
// applies; onMeta is called, on the goroutine that applies, with every new
// state of the meta group and must not block.
func New(store *basestore.Store, registry *live.Registry, onMeta func(*meta.State)) (*Machine, error) {
	m := &Machine{store: store, live: registry, onMeta: onMeta}
	state := &meta.State{}
	blob, err := store.Blob(MetaGroup, stateKey)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's state: %w", err)
	}
	if blob != nil {
		if state, err = meta.DecodeState(blob); err != nil {
			return nil, fmt.Errorf("read the cluster's state: %w", err)
		}
	}
	m.meta.Store(state)
	return m, nil
}

// Meta returns the applied state of the meta group; never nil, and never
// changed once returned.
func (m *Machine) Meta() *meta.State { return m.meta.Load() }

// Recover returns what the base store holds for a replica.
func (m *Machine) Recover(group raftgroup.GroupID, replica uint64) (raftgroup.Applied, error) {
	s, err := m.store.Replica(group)
	if errors.Is(err, basestore.ErrNoReplica) || (err == nil && s.ID != replica) {
		return raftgroup.Applied{}, nil
	}
	if err != nil {
		return raftgroup.Applied{}, err
	}
	return raftgroup.Applied{Index: s.Applied.Index, Term: s.Applied.Term, Conf: s.Applied.Conf}, nil
}

// Begin opens a batch for one turn of a shard.
func (m *Machine) Begin() raftgroup.Batch {
	return &batch{machine: m, store: m.store.NewBatch()}
}

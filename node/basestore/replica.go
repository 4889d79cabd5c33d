package basestore

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/stream"
)

// Replica names one node's copy of one group. Ids are never reused.
type Replica struct {
	Group uint32
	ID    uint64
}

// Applied is the point in a group's log that the stored state stands at.
type Applied struct {
	Index uint64
	Term  uint64
	// Conf is the configuration at Index.
	Conf raftpb.ConfState
}

// ReplicaState describes a replica that was born on this node and not destroyed.
type ReplicaState struct {
	Replica
	Applied    Applied
	Generation uint32
	// Lost says that the replica was born here and its data is missing. It must
	// be reported, and never be created again.
	Lost bool
}

// group is the live replica of a group.
type group struct {
	replica    Replica
	generation uint32
	gone       atomic.Bool
	record     atomic.Pointer[stream.Group]

	mu      sync.Mutex
	applied Applied // committed
}

func (g *group) state() ReplicaState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return ReplicaState{Replica: g.replica, Applied: g.applied, Generation: g.generation}
}

func (s *Store) group(id uint32) (*group, error) {
	if g := (*s.groups.Load())[id]; g != nil {
		return g, nil
	}
	return nil, fmt.Errorf("group %d: %w", id, ErrNoReplica)
}

// CreateReplica durably creates the replica, with g as the group's record and
// nothing applied. Errors: ErrTombstoned, ErrBorn.
func (s *Store) CreateReplica(r Replica, g stream.Group) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.mayCreate(r); err != nil {
		return fmt.Errorf("create replica %d of group %d: %w", r.ID, r.Group, err)
	}
	live := &group{replica: r, generation: firstGeneration}
	g.Histories = slices.Clone(g.Histories)
	live.record.Store(&g)
	b := s.db.NewBatch()
	set(b, bornKey(r), nil)
	set(b, headKey(r.Group, headPointer), binary.BigEndian.AppendUint32(nil, firstGeneration))
	set(b, headKey(r.Group, headApplied), appendApplied(nil, r.ID, 0, 0))
	set(b, appendKind(nil, r.Group, firstGeneration, kindGroup), stream.AppendGroup(nil, &g))
	if err := s.commitSynced(b); err != nil {
		return fmt.Errorf("create replica %d of group %d: %w", r.ID, r.Group, err)
	}
	s.setGroup(r.Group, live)
	return nil
}

func (s *Store) mayCreate(r Replica) error {
	dead, born, err := s.past(r.Group)
	switch {
	case err != nil:
		return err
	case r.ID <= dead:
		return ErrTombstoned
	case born != nil:
		return fmt.Errorf("%w: replica %d", ErrBorn, born.ID)
	}
	return nil
}

// past returns the highest destroyed replica id of a group, and the replica
// that was born and not destroyed.
func (s *Store) past(id uint32) (dead uint64, born *Replica, err error) {
	if s.closed {
		return 0, nil, ErrClosed
	}
	if dead, err = s.tombstone(id); err != nil {
		return 0, nil, err
	}
	all, err := s.bornUnder(bornKey(Replica{Group: id})[:bornGroupLen])
	if err != nil || len(all) == 0 {
		return dead, nil, err
	}
	return dead, &all[0], nil
}

// DestroyReplica durably deletes the replica's state and leaves a tombstone,
// both in one batch: no crash leaves data that a later replica of the group
// could take for its own. It does nothing when the replica is already gone.
// The caller has stopped applying to it. Errors: ErrNoReplica when the group's
// replica is an older one.
func (s *Store) DestroyReplica(r Replica) error {
	s.life.Lock()
	defer s.life.Unlock()
	dead, born, err := s.past(r.Group)
	if err == nil && r.ID > dead && born != nil && born.ID < r.ID {
		err = fmt.Errorf("%w: the node holds replica %d", ErrNoReplica, born.ID)
	}
	if err != nil {
		return fmt.Errorf("destroy replica %d of group %d: %w", r.ID, r.Group, err)
	}
	if r.ID <= dead {
		return nil
	}
	b := s.db.NewBatch()
	set(b, tombstoneKey(r.Group), binary.BigEndian.AppendUint64(nil, r.ID))
	holds := born != nil && *born == r
	if holds {
		start, end := groupSpan(r.Group)
		must(b.DeleteRange(start, end, nil))
		must(b.Delete(bornKey(r), nil))
	}
	if err := s.commitSynced(b); err != nil {
		return fmt.Errorf("destroy replica %d of group %d: %w", r.ID, r.Group, err)
	}
	if holds {
		s.setGroup(r.Group, nil)
	}
	return nil
}

// setGroup installs or removes a group's live replica. The caller holds life
// for writing, so no load and no commit is under way.
func (s *Store) setGroup(id uint32, g *group) {
	next := maps.Clone(*s.groups.Load())
	if old := next[id]; old != nil {
		old.gone.Store(true)
		s.records.dropGroup(id)
		s.tails.dropGroup(id)
	}
	if g == nil {
		delete(next, id)
	} else {
		next[id] = g
	}
	s.groups.Store(&next)
}

// Replicas returns the replicas born here and not destroyed, by group.
func (s *Store) Replicas() ([]ReplicaState, error) {
	if err := s.rlock(); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	born, err := s.allBorn()
	if err != nil {
		return nil, err
	}
	states := make([]ReplicaState, 0, len(born))
	live := *s.groups.Load()
	for _, r := range born {
		if g := live[r.Group]; g != nil && g.replica == r {
			states = append(states, g.state())
		} else {
			states = append(states, ReplicaState{Replica: r, Lost: true})
		}
	}
	return states, nil
}

// Replica returns the live replica of a group. Errors: ErrNoReplica.
func (s *Store) Replica(id uint32) (ReplicaState, error) {
	g, err := s.group(id)
	if err != nil {
		return ReplicaState{}, err
	}
	return g.state(), nil
}

// loadGroups reads the heads of all born replicas.
func (s *Store) loadGroups() error {
	groups := make(map[uint32]*group)
	s.groups.Store(&groups)
	born, err := s.allBorn()
	if err != nil {
		return err
	}
	for _, r := range born {
		g, err := s.loadGroup(r)
		if err != nil {
			return fmt.Errorf("replica %d of group %d: %w", r.ID, r.Group, err)
		}
		if g == nil {
			s.opts.Logger.Error("replica was born on this node and its data is missing", "group", r.Group, "replica", r.ID)
			continue
		}
		groups[r.Group] = g
	}
	return nil
}

// loadGroup returns nil when the replica's data is missing or another's.
func (s *Store) loadGroup(r Replica) (*group, error) {
	v, err := s.get(s.db, headKey(r.Group, headApplied))
	if err != nil || v == nil {
		return nil, err
	}
	id, index, term, err := parseApplied(v)
	if err != nil || id != r.ID {
		return nil, err
	}
	g := &group{replica: r, applied: Applied{Index: index, Term: term}}
	if v, err = s.get(s.db, headKey(r.Group, headConf)); err != nil {
		return nil, err
	}
	if err := g.applied.Conf.Unmarshal(v); err != nil {
		return nil, fmt.Errorf("%w: configuration: %w", ErrCorrupt, err)
	}
	if v, err = s.get(s.db, headKey(r.Group, headPointer)); err != nil {
		return nil, err
	}
	if len(v) != 4 {
		return nil, fmt.Errorf("%w: generation pointer of %d bytes", ErrCorrupt, len(v))
	}
	g.generation = binary.BigEndian.Uint32(v)
	if v, err = s.get(s.db, appendKind(nil, r.Group, g.generation, kindGroup)); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, fmt.Errorf("%w: no group record in generation %d", ErrCorrupt, g.generation)
	}
	rec, err := stream.DecodeGroup(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	g.record.Store(rec)
	return g, nil
}

// tombstone returns the highest destroyed replica id of a group, 0 when none.
func (s *Store) tombstone(id uint32) (uint64, error) {
	v, err := s.get(s.db, tombstoneKey(id))
	if err != nil || v == nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: tombstone of %d bytes", ErrCorrupt, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}

func (s *Store) allBorn() ([]Replica, error) { return s.bornUnder([]byte{spaceLocal, localBorn}) }

func (s *Store) bornUnder(prefix []byte) ([]Replica, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return nil, fmt.Errorf("read born replicas: %w", err)
	}
	var out []Replica
	for it.First(); it.Valid(); it.Next() {
		k := it.Key()
		if len(k) != bornGroupLen+8 {
			_ = it.Close()
			return nil, fmt.Errorf("%w: born record with a key of %d bytes", ErrCorrupt, len(k))
		}
		out = append(out, Replica{Group: binary.BigEndian.Uint32(k[2:]), ID: binary.BigEndian.Uint64(k[bornGroupLen:])})
	}
	if err := it.Close(); err != nil {
		return nil, fmt.Errorf("read born replicas: %w", err)
	}
	return out, nil
}

const appliedLen = 24

func appendApplied(dst []byte, replica, index, term uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, replica)
	dst = binary.BigEndian.AppendUint64(dst, index)
	return binary.BigEndian.AppendUint64(dst, term)
}

func parseApplied(v []byte) (replica, index, term uint64, err error) {
	if len(v) != appliedLen {
		return 0, 0, 0, fmt.Errorf("%w: applied index of %d bytes", ErrCorrupt, len(v))
	}
	return binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:]), binary.BigEndian.Uint64(v[16:]), nil
}

// set adds to a batch that is in memory only and can't fail.
func set(b *pebble.Batch, key, value []byte) { must(b.Set(key, value, nil)) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

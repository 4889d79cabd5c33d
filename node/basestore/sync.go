package basestore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Durable says that the state of a replica at Index survives power loss.
type Durable struct {
	Replica
	Index uint64
}

// Sync makes everything committed so far durable and returns the durable C of
// every live replica, by group. It costs one sync of Pebble's log, none when
// nothing was committed since the last.
func (s *Store) Sync() ([]Durable, error) {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if err := s.rlock(); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	// The Cs are read before the count: a batch is counted before its C can be
	// seen, and it is in Pebble's log before it is counted.
	durable := s.committed()
	written := s.written.Load()
	if written != s.synced {
		if err := s.write(func() error { return s.db.LogData(nil, pebble.Sync) }); err != nil {
			return nil, fmt.Errorf("sync base store: %w", err)
		}
		s.synced = written
	}
	return durable, s.failed()
}

func (s *Store) committed() []Durable {
	var out []Durable
	for _, g := range *s.groups.Load() {
		st := g.state()
		out = append(out, Durable{st.Replica, st.Applied.Index})
	}
	slices.SortFunc(out, func(a, b Durable) int { return cmp.Compare(a.Group, b.Group) })
	return out
}

// Blob returns a committed value that PutBlob set; nil when there is none, also
// when the node holds no replica of the group.
func (s *Store) Blob(group uint32, key []byte) ([]byte, error) {
	g, err := s.group(group)
	if err != nil {
		return nil, nil
	}
	var v []byte
	err = s.reading(g, func() (err error) {
		v, err = s.get(s.db, appendBlobKey(nil, group, g.generation, key))
		return err
	})
	if errors.Is(err, ErrNoReplica) {
		return nil, nil
	}
	return v, err
}

// Stats are the store's sizes, all in bytes but the counts.
type Stats struct {
	DiskBytes         uint64 // tables and log, obsolete ones included
	BlockCacheBytes   int64
	MemTableBytes     uint64
	RecordCacheBytes  int64
	TailCacheBytes    int64
	CompactionDebt    uint64 // bytes that compactions still have to move
	L0Sublevels       int    // 24 of them stall writes
	ReadAmplification int
	Replicas          int
}

// Stats returns the store's sizes; zero when it is closed or failed.
func (s *Store) Stats() Stats {
	if s.failed() != nil || s.rlock() != nil {
		return Stats{}
	}
	defer s.life.RUnlock()
	m := s.db.Metrics()
	return Stats{
		DiskBytes:         m.DiskSpaceUsage(),
		BlockCacheBytes:   m.BlockCache.Size,
		MemTableBytes:     m.MemTable.Size,
		RecordCacheBytes:  s.records.bytes(),
		TailCacheBytes:    s.tails.bytes(),
		CompactionDebt:    m.Compact.EstimatedDebt,
		L0Sublevels:       int(m.Levels[0].Sublevels),
		ReadAmplification: m.ReadAmp(),
		Replicas:          len(*s.groups.Load()),
	}
}

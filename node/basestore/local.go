package basestore

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Local returns a node-local fact, nil when it is not set.
func (s *Store) Local(name string) ([]byte, error) {
	if err := s.rlock(); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	return s.get(s.db, factKey(name))
}

// SetLocal stores a node-local fact durably; a nil value removes it. Local
// facts belong to the node and to no group: they stay when replicas go.
func (s *Store) SetLocal(name string, v []byte) error {
	if err := s.rlock(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	err := s.write(func() error {
		if v == nil {
			return s.db.Delete(factKey(name), pebble.Sync)
		}
		return s.db.Set(factKey(name), v, pebble.Sync)
	})
	if err != nil {
		return fmt.Errorf("store local fact %s: %w", name, err)
	}
	return nil
}

package basestore

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"runnel.dev/runnel/node/stream"
)

// Loader returns the group's committed state. It is valid until the replica is
// destroyed; then, and when there is no replica, its methods return
// ErrNoReplica. Producer is defined for streams that exist.
func (s *Store) Loader(id uint32) stream.Loader {
	g, _ := s.group(id)
	return loader{s, g, id}
}

type loader struct {
	s  *Store
	g  *group
	id uint32
}

func (l loader) live() error {
	if l.g == nil || l.g.gone.Load() {
		return fmt.Errorf("group %d: %w", l.id, ErrNoReplica)
	}
	return nil
}

func (l loader) Group() (*stream.Group, error) {
	if err := l.live(); err != nil {
		return nil, err
	}
	return l.g.record.Load(), nil
}

func (l loader) Lookup(key stream.Key) (*stream.Stream, error) {
	if err := l.live(); err != nil {
		return nil, err
	}
	return l.s.lookup(l.g, key)
}

func (l loader) Stream(id stream.ID) (*stream.Stream, error) {
	if err := l.live(); err != nil {
		return nil, err
	}
	return l.s.stream(l.g, id)
}

func (l loader) Producer(id stream.ID, producer string) (*stream.Producer, error) {
	if err := l.live(); err != nil {
		return nil, err
	}
	return l.s.producer(l.g, id, producer)
}

// Lookup returns the committed record of a stream, nil when there is none. It
// must not be changed. Errors: ErrNoReplica.
func (s *Store) Lookup(group uint32, key stream.Key) (*stream.Stream, error) {
	g, err := s.group(group)
	if err != nil {
		return nil, err
	}
	return s.lookup(g, key)
}

// Cached reports whether a Lookup of key, or that there is no such stream, is
// answered from memory.
func (s *Store) Cached(group uint32, key stream.Key) bool {
	return s.records.has(nameKey(group, key))
}

// CachedProducer is Cached for a producer of the stream that has the key: no
// record of either has to be read from the tables.
func (s *Store) CachedProducer(group uint32, key stream.Key, producer string) bool {
	var rec *stream.Stream
	resident := s.records.view(nameKey(group, key), func(r record) { rec = r.stream })
	if !resident || rec == nil || rec.Producers == 0 {
		return resident
	}
	return s.records.has(producerKey(group, rec.ID, producer))
}

func (s *Store) lookup(g *group, key stream.Key) (*stream.Stream, error) {
	k := nameKey(g.replica.Group, key)
	r, ok, token := s.records.get(k)
	if ok {
		return r.stream, nil
	}
	load := func() error {
		rec, err := s.loadByName(g, key)
		if err != nil {
			return err
		}
		// The cached key has strings of its own: the caller's may pin a request.
		if rec != nil {
			k = nameKey(g.replica.Group, rec.Key)
		} else {
			k.a, k.b = strings.Clone(k.a), strings.Clone(k.b)
		}
		r = s.records.loaded(k, token, record{stream: rec})
		return nil
	}
	err := s.reading(g, load)
	return r.stream, err
}

// stream finds a record by id through the id's name, which never changes: the
// name's entry is the only place where a stream record is cached.
func (s *Store) stream(g *group, id stream.ID) (*stream.Stream, error) {
	k := idKey(g.replica.Group, id)
	r, ok, token := s.records.get(k)
	if !ok {
		err := s.reading(g, func() error {
			rec, err := s.loadStream(s.db, g, id)
			if err != nil || rec == nil {
				return err
			}
			key := rec.Key
			r = s.records.loaded(k, token, record{name: &key})
			return nil
		})
		if err != nil || r.name == nil {
			return nil, err
		}
	}
	rec, err := s.lookup(g, *r.name)
	if err != nil || rec == nil || rec.ID != id {
		return nil, err
	}
	return rec, nil
}

func (s *Store) producer(g *group, id stream.ID, producer string) (*stream.Producer, error) {
	k := producerKey(g.replica.Group, id, producer)
	r, ok, token := s.records.get(k)
	if ok {
		return r.producer, nil
	}
	load := func() error {
		v, err := s.get(s.db, appendProducerKey(nil, g.replica.Group, g.generation, id, producer))
		if err != nil {
			return err
		}
		if v != nil {
			if r.producer, err = stream.DecodeProducer(v); err != nil {
				return fmt.Errorf("%w: producer of stream %d: %w", ErrCorrupt, id, err)
			}
		}
		k.a = strings.Clone(k.a)
		r = s.records.loaded(k, token, r)
		return nil
	}
	err := s.reading(g, load)
	return r.producer, err
}

// reading runs a load under life, so that a destroyed replica's records can't
// be filled in after its group was dropped from the cache.
func (s *Store) reading(g *group, load func() error) error {
	if err := s.rlock(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	if g.gone.Load() {
		return fmt.Errorf("group %d: %w", g.replica.Group, ErrNoReplica)
	}
	return load()
}

// loadByName reads the name index, then the record. Between the two a commit
// may delete the stream; then both are read again from one view.
func (s *Store) loadByName(g *group, key stream.Key) (*stream.Stream, error) {
	rec, named, err := s.readByName(s.db, g, key)
	if err != nil || rec != nil || !named {
		return rec, err
	}
	view := s.db.NewSnapshot()
	defer func() { _ = view.Close() }()
	rec, named, err = s.readByName(view, g, key)
	if err == nil && rec == nil && named {
		err = fmt.Errorf("%w: group %d: name %s has no record", ErrCorrupt, g.replica.Group, key)
	}
	return rec, err
}

func (s *Store) readByName(r pebble.Reader, g *group, key stream.Key) (rec *stream.Stream, named bool, err error) {
	v, err := s.get(r, appendName(nil, g.replica.Group, g.generation, key))
	if err != nil || v == nil {
		return nil, false, err
	}
	if len(v) != 8 {
		return nil, false, fmt.Errorf("%w: name %s has a value of %d bytes", ErrCorrupt, key, len(v))
	}
	rec, err = s.loadStream(r, g, stream.ID(binary.BigEndian.Uint64(v)))
	return rec, true, err
}

func (s *Store) loadStream(r pebble.Reader, g *group, id stream.ID) (*stream.Stream, error) {
	v, err := s.get(r, appendStreamKind(nil, g.replica.Group, g.generation, kindStream, id))
	if err != nil || v == nil {
		return nil, err
	}
	rec, err := stream.DecodeStream(v)
	if err != nil {
		return nil, fmt.Errorf("%w: record of stream %d: %w", ErrCorrupt, id, err)
	}
	return rec, nil
}

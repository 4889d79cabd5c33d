package basestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// Store is the base store of one node. Its methods may be called from any
// goroutine.
type Store struct {
	db      *pebble.DB
	opts    Options
	records *records
	tails   *tails

	// life is held for reading by everything that touches Pebble, for writing by
	// what creates or destroys a replica or closes the store: a batch can't
	// write into a range that was just deleted.
	life   sync.RWMutex
	closed bool
	// groups is replaced, never changed, under life.
	groups atomic.Pointer[map[uint32]*group]

	// syncing orders Sync calls; written counts committed batches and synced how
	// many of them the last sync covered.
	syncing sync.Mutex
	written atomic.Uint64
	synced  uint64

	jobs    chan *job // commits, run by one goroutine
	failure atomic.Pointer[error]
	broken  chan struct{} // closed with the first failure
	opened  atomic.Bool
	closing atomic.Bool
}

// Open opens the store in opts.Dir and creates it when there is none. What it
// returns with is durable. Errors: ErrFormat, ErrCorrupt, I/O errors.
func Open(opts Options) (*Store, error) {
	opts = opts.withDefaults()
	s := &Store{
		opts:    opts,
		broken:  make(chan struct{}),
		jobs:    make(chan *job),
		records: newRecords(opts.RecordCacheBytes),
		tails:   newTails(opts.TailCacheBytes),
	}
	po := pebbleOptions(opts, &pebbleLogger{log: opts.Logger, fail: s.fail})
	po.FS = watchFS{opts.FS, s}
	db, err := s.openPebble(po)
	if err != nil {
		return nil, fmt.Errorf("open base store in %s: %w", opts.Dir, err)
	}
	s.db = db
	err = s.checkFormat()
	if err == nil {
		err = s.loadGroups()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open base store in %s: %w", opts.Dir, err), s.Close())
	}
	go s.runCommits()
	s.opened.Store(true)
	if err := s.failed(); err != nil {
		return nil, fmt.Errorf("open base store in %s: %w", opts.Dir, err)
	}
	return s, nil
}

// openPebble does not wait for Pebble after a disk error: the goroutine that
// met it is parked, and Pebble tries a failed flush again for ever.
func (s *Store) openPebble(po *pebble.Options) (*pebble.DB, error) {
	type result struct {
		db  *pebble.DB
		err error
	}
	done := make(chan result, 1)
	go func() {
		db, err := pebble.Open(s.opts.Dir, po)
		// The database holds a reference of its own.
		po.Cache.Unref()
		done <- result{db, err}
	}()
	select {
	case r := <-done:
		return r.db, r.err
	case <-s.broken:
		return nil, s.failed()
	}
}

// Close closes the store after the operations under way. Everything committed
// is durable when it returns nil. A failed store is left as it is: the process
// is to stop, and Pebble would wait for goroutines that don't go on.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	// Who commits holds life, so nobody sends any more.
	close(s.jobs)
	if err := s.failed(); err != nil {
		return err
	}
	s.closing.Store(true)
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close base store: %w", err)
	}
	return nil
}

// fail keeps the first error and stops all writing. Until the store is open,
// Open returns the error and OnFatal is not told; while it closes, Close does.
func (s *Store) fail(cause error) {
	if s.closing.Load() {
		return
	}
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	if !s.failure.CompareAndSwap(nil, &err) {
		return
	}
	if s.opened.Load() {
		s.opts.OnFatal(err)
	}
	close(s.broken)
}

func (s *Store) failed() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// write runs one write of Pebble and returns when it is done, or at once when
// the store fails meanwhile: then the write never ends, see watchFS, and what
// it uses must be left alone.
func (s *Store) write(op func() error) error {
	if err := s.failed(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- op() }()
	select {
	case err := <-done:
		if err != nil {
			s.fail(err)
		}
	case <-s.broken:
	}
	return s.failed()
}

// commit commits a batch without a sync, as write does. The goroutine that
// runs commits lives as long as the store: one for each would grow its stack
// each time.
func (s *Store) commit(b *pebble.Batch) error {
	if err := s.failed(); err != nil {
		return err
	}
	j := jobPool.Get().(*job)
	j.b = b
	select {
	case s.jobs <- j:
	case <-s.broken:
		return s.failed()
	}
	select {
	case err := <-j.done:
		j.b = nil
		jobPool.Put(j)
		if err != nil {
			s.fail(err)
		}
	case <-s.broken:
	}
	return s.failed()
}

type job struct {
	b    *pebble.Batch
	done chan error
}

var jobPool = sync.Pool{New: func() any { return &job{done: make(chan error, 1)} }}

func (s *Store) runCommits() {
	for j := range s.jobs {
		j.done <- j.b.Commit(pebble.NoSync)
	}
}

// commitSynced commits a batch durably and takes it over. The caller holds life.
func (s *Store) commitSynced(b *pebble.Batch) error {
	return s.write(func() error { return errors.Join(b.Commit(pebble.Sync), b.Close()) })
}

// get returns a copy of a value, nil when there is none. The caller holds life.
func (s *Store) get(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read base store: %w", err)
	}
	out := append(make([]byte, 0, len(v)), v...)
	if err := closer.Close(); err != nil {
		return nil, fmt.Errorf("read base store: %w", err)
	}
	return out, nil
}

// rlock guards an operation; the caller unlocks life when it returns nil.
func (s *Store) rlock() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return ErrClosed
	}
	return nil
}

// checkFormat reads the format number, or writes it into a new store. A store
// that has data but no number was not written by this program.
func (s *Store) checkFormat() error {
	v, err := s.get(s.db, formatKey())
	if err != nil {
		return err
	}
	switch {
	case v == nil:
		empty, err := s.empty()
		if err != nil {
			return err
		}
		if !empty {
			return fmt.Errorf("%w: it has data but no format number", ErrFormat)
		}
		return s.write(func() error {
			return s.db.Set(formatKey(), binary.BigEndian.AppendUint32(nil, formatVersion), pebble.Sync)
		})
	case len(v) != 4:
		return fmt.Errorf("%w: format number of %d bytes", ErrCorrupt, len(v))
	}
	if n := binary.BigEndian.Uint32(v); n != formatVersion {
		return fmt.Errorf("%w: it has format %d and this program reads format %d; run the version that wrote it or a newer one",
			ErrFormat, n, formatVersion)
	}
	return nil
}

func (s *Store) empty() (bool, error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return false, err
	}
	found := it.First()
	return !found, it.Close()
}

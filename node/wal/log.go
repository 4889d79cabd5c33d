package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Log is the node's write-ahead log. Enqueue, Cut, Forget, Read, ReadRange and
// Stats may be called from any goroutine.
type Log struct {
	opts    Options
	fs      vfs.FS
	dir     string
	log     *slog.Logger
	lock    io.Closer
	dirFile vfs.File

	// mu guards what callers and the writer share.
	mu      sync.Mutex
	queue   []op
	closed  bool
	stats   Stats
	wake    chan struct{} // capacity 1: there is something to flush
	fail    atomic.Pointer[error]
	queued  atomic.Int64 // bytes
	pending atomic.Int64 // operations that are not completed

	// segMu guards the map; a segment's users are counted in it.
	segMu    sync.RWMutex
	segments map[uint64]*segment

	// flushMu makes rounds sequential. Everything below belongs to its holder.
	flushMu   sync.Mutex
	cluster   uint64
	replicas  map[Replica]*replicaState
	cur       *segment
	off       int64 // where the next batch goes; everything below is synced
	confirmed bool  // a later header, or the table, vouches for the last batch
	spares    []string
	ready     []op
	round     []op     // the present round's
	splits    []*split // in the order of their turns
	buf       []byte
	enc       encoder
	quiet     int // rounds in a row that needed little of buf
	zeros     []byte
	rotations uint64
	bytes     int64 // of the segments
	ballast   atomic.Int64
	finished  []*Write
	released  bool // by this Open: the ballast
}

type opKind uint8

const (
	opWrite opKind = iota
	opCut
	opForget
)

// op is a queued operation.
type op struct {
	kind    opKind
	replica Replica
	write   *Write
	index   uint64
}

func (o *Options) setDefaults() error {
	if o.FS == nil || o.Dir == "" {
		return errors.New("wal: a file system and a directory are required")
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	if o.MaxWriteBytes == 0 {
		o.MaxWriteBytes = DefaultMaxWriteBytes
	}
	if o.SegmentBytes < MinSegmentBytes || o.SegmentBytes%4096 != 0 {
		return fmt.Errorf("wal: segment size %d: must be a multiple of 4096 and at least %d", o.SegmentBytes, MinSegmentBytes)
	}
	if o.MaxWriteBytes < MinMaxWriteBytes || o.MaxWriteBytes > o.SegmentBytes {
		return fmt.Errorf("wal: write size %d: must be between %d and the segment size", o.MaxWriteBytes, MinMaxWriteBytes)
	}
	if o.Recycle < 0 || o.BallastBytes < 0 {
		return errors.New("wal: spare segments and ballast can't be negative")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Salt == nil {
		o.Salt = func() uint64 {
			var b [8]byte
			_, _ = rand.Read(b[:]) // never fails: the runtime stops the process instead
			return binary.LittleEndian.Uint64(b[:])
		}
	}
	return nil
}

// Enqueue hands a Write over. It is cheap: the work is done by Flush. The
// caller bounds what it has in flight; Stats.QueueBytes shows it.
func (l *Log) Enqueue(w *Write) {
	w.bytes = w.frameBytes()
	w.Err = nil
	l.queued.Add(w.bytes)
	if !l.push(op{kind: opWrite, replica: w.Replica, write: w}) {
		l.finish(w, ErrClosed)
	}
}

// Cut says that a replica's entries up to index are not needed any more. It
// takes effect in order with the replica's Writes, and becomes durable with the
// next segment's table: after a power loss the log may start earlier.
func (l *Log) Cut(r Replica, index uint64) { l.push(op{kind: opCut, replica: r, index: index}) }

// Forget drops all that is known of a replica that was destroyed.
func (l *Log) Forget(r Replica) { l.push(op{kind: opForget, replica: r}) }

func (l *Log) push(o op) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.queue = append(l.queue, o)
	l.pending.Add(1)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

// Pending says whether another Flush has something to do.
func (l *Log) Pending() bool { return l.pending.Load() > 0 }

// finish completes a Write.
func (l *Log) finish(w *Write, err error) {
	l.queued.Add(-w.bytes)
	if w.Err == nil {
		w.Err = err
	}
	if w.Done != nil {
		w.Done(w)
	}
}

// failed returns the error that ended the log, if any.
func (l *Log) failed() error {
	if p := l.fail.Load(); p != nil {
		return *p
	}
	return nil
}

// setFailed makes err final. The first one stays.
func (l *Log) setFailed(err error) error {
	err = fmt.Errorf("%w: %w", ErrFailed, err)
	if !l.fail.CompareAndSwap(nil, &err) {
		return l.failed()
	}
	return err
}

// endAll completes every accepted Write with err.
func (l *Log) endAll(err error) int {
	l.take()
	ops := l.ready
	l.ready = nil
	for _, s := range l.splits {
		ops = append(append(ops, op{kind: opWrite, write: s.write}), s.waiting...)
	}
	l.splits = nil
	l.pending.Add(-int64(len(ops)))
	n := 0
	for _, o := range ops {
		if o.kind == opWrite {
			l.finish(o.write, err)
			n++
		}
	}
	return n
}

// SetCluster gives the log its cluster's fingerprint once it is known. The
// segments from the next one on carry it, and the next round starts one.
func (l *Log) SetCluster(fingerprint uint64) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.failed(); err != nil {
		return err
	}
	if l.cluster != 0 && l.cluster != fingerprint {
		return &ClusterError{File: l.cur.name, Found: l.cluster, Expected: fingerprint}
	}
	l.cluster = fingerprint
	return nil
}

// Stats returns counters and sizes.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	st := l.stats
	l.mu.Unlock()
	st.QueueBytes = l.queued.Load()
	st.QueueWrites = l.pending.Load()
	return st
}

// publish makes the writer's numbers visible to Stats.
func (l *Log) publish(add func(*Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := &l.stats
	st.Segments, st.Bytes, st.Spares = len(l.segments), l.bytes, len(l.spares)
	st.Rotations, st.BufferBytes, st.BallastBytes = l.rotations, int64(cap(l.buf)), l.ballast.Load()
	if add != nil {
		add(st)
	}
}

func (s *Stats) addRound(writes int, bytes int64, sync time.Duration) {
	s.Rounds++
	s.Writes += uint64(writes)
	s.WrittenBytes += uint64(bytes)
	s.SyncTime += sync
	i := 0
	for i < len(SyncBounds) && sync > SyncBounds[i] {
		i++
	}
	s.SyncBuckets[i]++
}

// Close ends what is still queued with ErrClosed, confirms the last batch and
// releases the files. Stop the Writer first to have the queue written.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()

	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.endAll(ErrClosed)
	var err error
	if l.failed() == nil {
		err = l.confirm()
	}
	l.cur = nil
	return errors.Join(err, l.closeFiles())
}

func (l *Log) closeFiles() error {
	var errs []error
	l.segMu.Lock()
	for n, s := range l.segments {
		errs = append(errs, s.release())
		delete(l.segments, n)
	}
	l.segMu.Unlock()
	if l.dirFile != nil {
		errs = append(errs, l.dirFile.Close())
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Close())
	}
	return errors.Join(errs...)
}

package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

const testDir = "data/wal"

// testOptions are small enough that a few writes rotate, recycle and split.
func testOptions(fs vfs.FS) Options {
	return Options{FS: fs, Dir: testDir, Cluster: 7, SegmentBytes: MinSegmentBytes, MaxWriteBytes: MinMaxWriteBytes, Recycle: 2}
}

func mustOpen(t testing.TB, o Options) (*Log, *Recovery) {
	t.Helper()
	l, rec, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l, rec
}

// flushAll runs rounds until nothing is queued.
func flushAll(l *Log) error {
	for l.Pending() {
		if _, err := l.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// put enqueues a Write and flushes it.
func put(t testing.TB, l *Log, w *Write) *Write {
	t.Helper()
	done := false
	w.Done = func(*Write) { done = true }
	l.Enqueue(w)
	if err := flushAll(l); err != nil {
		t.Fatalf("flush: %v", err)
	}
	if !done || w.Err != nil {
		t.Fatalf("write: done %t, error %v", done, w.Err)
	}
	return w
}

func entries(term, from, to uint64, size int) []raftpb.Entry {
	var es []raftpb.Entry
	for i := from; i <= to; i++ {
		es = append(es, raftpb.Entry{Term: term, Index: i, Data: bytes.Repeat([]byte{byte(i), byte(term)}, size/2)})
	}
	return es
}

// copyFS returns the file system as it would be after kill -9: all that was
// written, synced or not.
func copyFS(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// lossFS returns the file system after a power loss that kept only what was
// synced.
func lossFS(fs *vfs.MemFS) *vfs.MemFS { return fs.CrashClone(vfs.CrashCloneCfg{}) }

// image is the model of one replica: what its log holds, cuts apart.
type image struct {
	hard    raftpb.HardState
	base    Mark // of the last reset
	cut     uint64
	applied uint64
	log     []raftpb.Entry // from base.Index+1
	gone    bool           // forgotten
}

func (m image) last() uint64 { return m.base.Index + uint64(len(m.log)) }

func (m image) apply(o modelOp) image {
	switch {
	case o.forget:
		return image{gone: true}
	case o.write == nil:
		m.cut = max(m.cut, min(o.cut, m.last()))
		return m
	}
	w := o.write
	if w.Reset != nil {
		m.base, m.log, m.cut = *w.Reset, nil, 0
	}
	if len(w.Entries) > 0 {
		keep := w.Entries[0].Index - m.base.Index - 1
		m.log = append(append([]raftpb.Entry(nil), m.log[:keep]...), w.Entries...)
	}
	if w.State != nil {
		m.hard = *w.State
	}
	if w.Applied != 0 {
		m.applied = w.Applied
	}
	return m
}

func (m image) term(index uint64) uint64 {
	if index == m.base.Index {
		return m.base.Term
	}
	return m.log[index-m.base.Index-1].Term
}

// modelOp is one operation on a replica, in the order of Enqueue.
type modelOp struct {
	write  *Write
	cut    uint64
	forget bool
}

// model knows what was asked of the log and what it acknowledged.
type model struct {
	base  map[Replica]image // recovered, hence durable
	ops   map[Replica][]modelOp
	acked map[Replica]int // the first so many operations are durable
	fails int             // Writes that ended with an error
}

func newModel() *model {
	return &model{base: map[Replica]image{}, ops: map[Replica][]modelOp{}, acked: map[Replica]int{}}
}

func (m *model) clone() *model {
	c := newModel()
	for r, v := range m.base {
		c.base[r] = v
	}
	for r, v := range m.ops {
		c.ops[r] = v[:len(v):len(v)]
	}
	for r, v := range m.acked {
		c.acked[r] = v
	}
	return c
}

// now returns the state after all operations.
func (m *model) now(r Replica) image {
	s := m.base[r]
	for _, o := range m.ops[r] {
		s = s.apply(o)
	}
	return s
}

func (m *model) enqueue(l *Log, r Replica, o modelOp) {
	m.ops[r] = append(m.ops[r], o)
	n := len(m.ops[r])
	switch {
	case o.forget:
		l.Forget(r)
	case o.write == nil:
		l.Cut(r, o.cut)
	default:
		o.write.Replica = r
		o.write.Done = func(w *Write) {
			if w.Err != nil {
				m.fails++
				return
			}
			if m.fails > 0 {
				panic("a write was acknowledged after one had failed")
			}
			m.acked[r] = n
		}
		l.Enqueue(o.write)
	}
}

// check compares what a log recovered with the model: per replica it must be
// the state after some number of operations, none of the acknowledged missing.
func (m *model) check(l *Log, rec *Recovery) error {
	seen := map[Replica]*Recovered{}
	for i := range rec.Replicas {
		seen[rec.Replicas[i].Replica] = &rec.Replicas[i]
	}
	all := map[Replica]bool{}
	for r := range m.base {
		all[r] = true
	}
	for r := range m.ops {
		all[r] = true
	}
	for r := range seen {
		if !all[r] {
			return fmt.Errorf("replica %v came from nowhere", r)
		}
	}
	for r := range all {
		if err := m.checkReplica(l, r, seen[r]); err != nil {
			return fmt.Errorf("replica %v: %w", r, err)
		}
	}
	return nil
}

func (m *model) checkReplica(l *Log, r Replica, got *Recovered) error {
	s := m.base[r]
	var errs []error
	for i := 0; ; i++ {
		if i >= m.acked[r] {
			err := s.match(l, got)
			if err == nil {
				return nil
			}
			errs = append(errs, fmt.Errorf("after %d of %d: %w", i, len(m.ops[r]), err))
		}
		if i == len(m.ops[r]) {
			return errors.Join(errs...)
		}
		s = s.apply(m.ops[r][i])
	}
}

func (m image) match(l *Log, got *Recovered) error {
	if got == nil {
		// A replica without any durable frame is not there.
		if m.gone || m.hard == (raftpb.HardState{}) && m.base == (Mark{}) && len(m.log) == 0 && m.applied == 0 {
			return nil
		}
		return errors.New("missing")
	}
	if m.gone {
		return errors.New("still there")
	}
	if got.State != m.hard || got.Applied != m.applied || got.Last().Index != m.last() {
		return fmt.Errorf("state %v applied %d last %d, want %v %d %d", got.State, got.Applied, got.Last().Index, m.hard, m.applied, m.last())
	}
	at := got.Snapshot
	if at.Index < m.base.Index || at.Index > max(m.cut, m.base.Index) || at.Term != m.term(at.Index) {
		return fmt.Errorf("log starts after %v, want in [%v, %d]", at, m.base, m.cut)
	}
	want := m.log[at.Index-m.base.Index:]
	if len(want) != len(got.Refs) {
		return fmt.Errorf("%d entries, want %d", len(got.Refs), len(want))
	}
	ents, err := l.ReadRange(got.Refs, 1<<40)
	if err != nil {
		return err
	}
	for i, e := range ents {
		w := want[i]
		if e.Index != w.Index || e.Term != w.Term || e.Type != w.Type || !bytes.Equal(e.Data, w.Data) {
			return fmt.Errorf("entry %d/%d of %d bytes, want %d/%d of %d bytes", e.Index, e.Term, len(e.Data), w.Index, w.Term, len(w.Data))
		}
	}
	return nil
}

// restart makes what was recovered the new base.
func (m *model) restart(l *Log, rec *Recovery) (*model, error) {
	c := newModel()
	for i := range rec.Replicas {
		got := &rec.Replicas[i]
		ents, err := l.ReadRange(got.Refs, 1<<40)
		if err != nil {
			return nil, err
		}
		c.base[got.Replica] = image{hard: got.State, base: got.Snapshot, applied: got.Applied, log: ents}
	}
	for r := range m.base {
		if _, ok := c.base[r]; !ok {
			c.base[r] = image{gone: true}
		}
	}
	for r := range m.ops {
		if _, ok := c.base[r]; !ok {
			c.base[r] = image{gone: true}
		}
	}
	return c, nil
}

// opGen draws operations that a raft node could make.
type opGen struct {
	rng    *rand.Rand
	nextID uint64
	live   []Replica
}

func (g *opGen) step(m *model, l *Log) {
	if len(g.live) < 3 {
		g.nextID++
		g.live = append(g.live, Replica{Group: uint32(g.nextID%3) + 1, ID: g.nextID})
	}
	i := g.rng.IntN(len(g.live))
	r := g.live[i]
	now := m.now(r)
	switch p := g.rng.IntN(100); {
	case p < 3:
		m.enqueue(l, r, modelOp{forget: true})
		g.live = append(g.live[:i:i], g.live[i+1:]...)
	case p < 25:
		m.enqueue(l, r, modelOp{cut: now.last() - min(uint64(g.rng.IntN(4)), now.last())})
	default:
		m.enqueue(l, r, modelOp{write: g.write(now)})
	}
}

func (g *opGen) write(now image) *Write {
	w := &Write{}
	term := now.hard.Term
	if g.rng.IntN(4) == 0 || term == 0 {
		term++
		w.State = &raftpb.HardState{Term: term, Vote: uint64(g.rng.IntN(3)), Commit: now.last()}
	}
	from, last := max(now.cut, now.base.Index), now.last()
	if g.rng.IntN(20) == 0 {
		last += uint64(g.rng.IntN(50))
		w.Reset = &Mark{Index: last, Term: term}
		from = last
	}
	if g.rng.IntN(5) == 0 {
		w.Applied = max(now.applied, from)
	}
	if w.State == nil && w.Reset == nil || g.rng.IntN(4) > 0 {
		first := last + 1
		if g.rng.IntN(6) == 0 {
			first -= uint64(g.rng.IntN(int(last-from) + 1)) // overwrite
		}
		for n := 1 + g.rng.IntN(4); n > 0; n-- {
			w.Entries = append(w.Entries, raftpb.Entry{Index: first, Term: term, Type: raftpb.EntryType(g.rng.IntN(3)), Data: g.data()})
			first++
		}
	}
	return w
}

func (g *opGen) data() []byte {
	n := g.rng.IntN(300)
	switch g.rng.IntN(30) {
	case 0:
		n = g.rng.IntN(12 << 10) // in parts
	case 1:
		n = g.rng.IntN(2 << 10)
	case 2:
		n = 0
	}
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.rng.Uint32())
	}
	return b
}

// opHook calls before each operation that changes the file system. It may
// return an error to inject.
func opHook(fs vfs.FS, before func(errorfs.Op) error) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead && op.Kind != errorfs.OpOpen {
			return nil
		}
		return before(op)
	}))
}

func sortReplicas(rs []Replica) {
	sort.Slice(rs, func(i, j int) bool { return rs[i].less(rs[j]) })
}

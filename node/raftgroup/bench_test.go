package raftgroup

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

// slowShelf completes what is queued after a fixed time, like a disk with group
// commit: what arrives during one sync is the next.
type slowShelf struct {
	mu    sync.Mutex
	queue []*wal.Write
	wake  chan struct{}
	sync  time.Duration
	syncs atomic.Int64
}

func (s *slowShelf) Enqueue(w *wal.Write) {
	s.mu.Lock()
	s.queue = append(s.queue, w)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *slowShelf) ReadRange([]wal.Ref, uint64) ([]raftpb.Entry, error) { panic("not in a benchmark") }

func (s *slowShelf) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.mu.Lock()
		round := s.queue
		s.queue = nil
		s.mu.Unlock()
		// Nanosleep: Go's timers are coarser than the sync they stand for.
		ts := syscall.NsecToTimespec(s.sync.Nanoseconds())
		_ = syscall.Nanosleep(&ts, nil)
		s.syncs.Add(1)
		for _, w := range round {
			for i := range w.Entries {
				w.Refs = append(w.Refs, wal.Ref{Index: w.Entries[i].Index, Term: w.Entries[i].Term})
			}
			w.Done(w)
		}
	}
}

// nullMachine answers every command with the same value.
type nullMachine struct{}

type nullBatch struct{}

var nullResult any = struct{}{}

func (nullMachine) Recover(GroupID, uint64) (Applied, error) { return Applied{}, nil }
func (nullMachine) Begin() Batch                             { return &nullBatch{} }
func (*nullBatch) Apply(_ GroupID, _, _, _ uint64, cmds [][]byte) ([]any, error) {
	results := make([]any, len(cmds))
	for i := range results {
		results[i] = nullResult
	}
	return results, nil
}
func (*nullBatch) Mark(GroupID, uint64, uint64, uint64, *raftpb.ConfState) error { return nil }
func (*nullBatch) Commit() error                                                 { return nil }
func (*nullBatch) Publish()                                                      {}
func (*nullBatch) Discard()                                                      {}

func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkPropose: one shard, 16 groups of one voter, 500 closed-loop writers
// of 256 bytes, a sync of 0.3 ms.
func BenchmarkPropose(b *testing.B) {
	const groups, writers = 16, 500
	ctx, cancel := context.WithCancel(context.Background())
	disk := &slowShelf{wake: make(chan struct{}, 1), sync: 300 * time.Microsecond}
	var running sync.WaitGroup
	running.Go(func() { disk.run(ctx) })
	h, err := NewHost(Config{
		Shards: 1, WAL: disk, Machine: nullMachine{}, Send: sendFunc(func([]Message) {}),
		OnFatal: func(err error) { b.Error(err) },
	})
	if err != nil {
		b.Fatal(err)
	}
	defer running.Wait()
	defer cancel()
	defer func() { _ = h.Stop(context.Background()) }()
	for g := range GroupID(groups) {
		if err := h.Start(Replica{Group: g, ID: 1, Genesis: &raftpb.ConfState{Voters: []uint64{1}}}); err != nil {
			b.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Second); h.Status(g).Role != Leader; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				b.Fatal("no leader")
			}
		}
	}
	header, payload := make([]byte, 48), make([]byte, 256)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	before, syncs, turns, began := cpuTime(), disk.syncs.Load(), h.Stats(), time.Now()
	var wg sync.WaitGroup
	for k := range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := h.Propose(ctx, GroupID(k%groups), header, payload); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	b.ReportMetric(float64(b.N)/took.Seconds(), "proposals/s")
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
	st := h.Stats()
	b.ReportMetric(float64(b.N)/float64(st.Entries-turns.Entries), "proposals/entry")
	b.ReportMetric(float64(b.N)/float64(st.Turns-turns.Turns), "proposals/turn")
	b.ReportMetric(float64(b.N)/float64(disk.syncs.Load()-syncs), "proposals/sync")
}

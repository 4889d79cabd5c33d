package wal

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/etcd/raft/v3/raftpb"
)

// A large Write holds up its own replica's later Writes and nobody else's.
func TestLargeWriteDoesNotHoldUpOtherGroups(t *testing.T) {
	big, small := Replica{Group: 1, ID: 1}, Replica{Group: 2, ID: 2}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	var order []string
	enqueue := func(name string, w *Write) {
		w.Done = func(*Write) { order = append(order, name) }
		l.Enqueue(w)
	}
	w := &Write{Replica: big, State: &raftpb.HardState{Term: 2}, Entries: entries(2, 1, 3, 30<<10)}
	enqueue("big", w)
	enqueue("after big", &Write{Replica: big, Entries: entries(2, 4, 4, 10)})
	rounds := 0
	for ; l.Pending(); rounds++ {
		enqueue("small", &Write{Replica: small, Entries: entries(1, uint64(rounds)+1, uint64(rounds)+1, 100)})
		before := l.Stats().WrittenBytes
		n, err := l.Flush()
		if err != nil || n == 0 {
			t.Fatalf("round %d completed %d writes: %v", rounds, n, err)
		}
		if got := l.Stats().WrittenBytes - before; got > 2*MinMaxWriteBytes {
			t.Fatalf("round %d wrote %d bytes", rounds, got)
		}
		if len(order) < rounds+1 {
			t.Fatalf("round %d held up the small write", rounds)
		}
		if order[len(order)-1] == "after big" {
			break
		}
	}
	if rounds < 20 || order[len(order)-2] != "big" && order[len(order)-3] != "big" {
		t.Fatalf("%d rounds, order %q", rounds, order)
	}
	_, rec := mustOpen(t, testOptions(lossFS(mem)))
	if got := rec.Replicas[0]; got.State.Term != 2 || len(got.Refs) != 4 {
		t.Fatalf("recovered %+v", got)
	}
	ents, err := l.ReadRange(w.Refs, 1<<20)
	if err != nil || len(ents) != 3 || !bytes.Equal(ents[2].Data, w.Entries[2].Data) {
		t.Fatalf("read %d entries: %v", len(ents), err)
	}
}

// Several large Writes take turns.
func TestLargeWritesOfSeveralGroupsTakeTurns(t *testing.T) {
	l, _ := mustOpen(t, testOptions(vfs.NewCrashableMem()))
	done := map[uint32]int{}
	rounds := 0
	for g := uint32(1); g <= 4; g++ {
		size := 40 << 10
		if g == 4 {
			size = 8 << 10
		}
		l.Enqueue(&Write{Replica: Replica{Group: g, ID: uint64(g)}, Entries: entries(1, 1, 1, size),
			Done: func(*Write) { done[g] = rounds }})
	}
	for ; l.Pending(); rounds++ {
		if _, err := l.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if len(done) != 4 || done[4] > done[1]/2 {
		t.Fatalf("rounds in which they ended: %v", done)
	}
}

// The hard state of a large Write never precedes its entries: before the last
// round nothing of it is there, whatever was synced.
func TestLargeWriteTakesEffectAsAWhole(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	put(t, l, &Write{Replica: r, State: &raftpb.HardState{Term: 1}, Entries: entries(1, 1, 5, 10)})
	l.Enqueue(&Write{Replica: r, State: &raftpb.HardState{Term: 7, Vote: 3}, Reset: &Mark{2, 1}, Entries: entries(7, 3, 40, 1000), Applied: 2})
	for l.Pending() {
		_, rec := mustOpen(t, testOptions(lossFS(mem)))
		if got := rec.Replicas[0]; got.State.Term != 1 || len(got.Refs) != 5 || got.Refs[4].Term != 1 || got.Applied != 0 {
			t.Fatalf("a part of the write is there: %+v", got)
		}
		if _, err := l.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	_, rec := mustOpen(t, testOptions(lossFS(mem)))
	if got := rec.Replicas[0]; got.State.Term != 7 || len(got.Refs) != 38 || got.Snapshot != (Mark{2, 1}) || got.Applied != 2 {
		t.Fatalf("recovered %+v", got)
	}
}

// What an unfinished large Write staged is not mixed into the next one.
func TestUnfinishedLargeWriteIsForgotten(t *testing.T) {
	r, other := Replica{Group: 1, ID: 1}, Replica{Group: 2, ID: 2}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	put(t, l, &Write{Replica: other, Entries: entries(1, 1, 1, 10)}) // keeps the segment
	l.Enqueue(&Write{Replica: r, Entries: entries(1, 1, 6, 1500)})
	if n, err := l.Flush(); n != 0 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	mem = lossFS(mem)
	l, rec := mustOpen(t, testOptions(mem))
	if len(rec.Replicas) != 1 {
		t.Fatalf("recovered %+v", rec.Replicas)
	}
	w := put(t, l, &Write{Replica: r, Entries: entries(2, 1, 8, 1500)})
	l, rec = mustOpen(t, testOptions(lossFS(mem)))
	if got := rec.Replicas[0]; len(got.Refs) != 8 || got.Refs[0] != w.Refs[0] {
		t.Fatalf("recovered %+v", got)
	}
	if ents, err := l.ReadRange(w.Refs, 1<<20); err != nil || ents[0].Term != 2 {
		t.Fatal(err)
	}
}

// The segments between the first frame of a large Write and its end stay as
// long as its entries do, and the ones that hold only its end are not enough
// once they are cut.
func TestLargeWriteAcrossSegmentsSurvivesRotation(t *testing.T) {
	r, busy := Replica{Group: 1, ID: 1}, Replica{Group: 2, ID: 2}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	w := put(t, l, &Write{Replica: r, Entries: entries(1, 1, 2, 60<<10)})
	next := uint64(0)
	churn := func() {
		for end := l.Stats().Rotations + 4; l.Stats().Rotations < end; {
			next++
			put(t, l, &Write{Replica: busy, Entries: entries(1, next, next, 1000)})
			l.Cut(busy, next-1)
		}
	}
	churn()
	m, rec := mustOpen(t, testOptions(lossFS(mem)))
	if ents, err := m.ReadRange(rec.Replicas[0].Refs, 1<<20); err != nil || len(ents) != 2 || !bytes.Equal(ents[1].Data, w.Entries[1].Data) {
		t.Fatalf("%d entries: %v", len(ents), err)
	}
	l.Cut(r, 2)
	churn()
	if n := l.Stats().Segments; n > 4 {
		t.Fatalf("%d segments are in use after the cut", n)
	}
	if _, err := l.Read(w.Refs[0]); !errors.Is(err, ErrGone) {
		t.Fatalf("a cut entry: %v", err)
	}
	if _, rec = mustOpen(t, testOptions(lossFS(mem))); rec.Replicas[0].Snapshot != (Mark{2, 1}) {
		t.Fatalf("recovered %+v", rec.Replicas[0])
	}
}

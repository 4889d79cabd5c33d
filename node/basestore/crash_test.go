package basestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
)

func isGone(err error) bool { return errors.Is(err, ErrGone) }

// history is every state that the commits led through, in their order.
type history struct {
	states []world
	synced atomic.Int64 // the position that the last Sync covered
	at     atomic.Int64 // the last position committed
}

func (h *history) add(w world) {
	h.states = append(h.states, w.clone())
}

// position finds the last state whose applied indexes are those of the store;
// a turn that drew no group repeats the state before it.
func (h *history) position(t testing.TB, s *Store, states []world) int {
	t.Helper()
	for i, w := range slices.Backward(states) {
		same := true
		for id, g := range w {
			st, err := s.Replica(id)
			same = same && err == nil && st.Applied.Index == g.applied.Index
		}
		if same {
			return i
		}
	}
	t.Fatal("the recovered indexes are not those of any prefix of the commits")
	return 0
}

// checkCrash opens what a crash left and compares it with the history.
func (h *history) checkCrash(t testing.TB, fs vfs.FS, states []world, synced int) world {
	t.Helper()
	s, err := Open(testOptions(fs))
	check(t, err)
	at := h.position(t, s, states)
	if at < synced {
		t.Fatalf("recovered position %d of %d, but %d was reported durable", at, len(states)-1, synced)
	}
	checkWorld(t, s, states[at])
	check(t, s.Close())
	return states[at]
}

func TestACrashLeavesEveryGroupAtOnePointNotBeforeTheLastSync(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { crashRun(t, seed) })
	}
}

func crashRun(t *testing.T, seed uint64) {
	rng := seeded(t, seed)
	fs := vfs.NewCrashableMem()
	w := newWorld(1, 2, 9)
	s, err := Open(testOptions(fs))
	check(t, err)
	w.create(t, s)
	for range 4 {
		h := &history{}
		h.add(w)
		for range rng.IntN(30) {
			check(t, w.turn(t, s, rng))
			h.add(w)
			if rng.IntN(6) == 0 {
				durable, err := s.Sync()
				check(t, err)
				for _, d := range durable {
					if got := w[d.Group].applied.Index; got != d.Index {
						t.Fatalf("sync reported %d for group %d, committed is %d", d.Index, d.Group, got)
					}
				}
				h.synced.Store(int64(len(h.states) - 1))
			}
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[rng.IntN(3)], RNG: rng})
		check(t, s.Close())
		w = h.checkCrash(t, crashed, h.states, int(h.synced.Load())).clone()
		// Going on from the crashed state.
		fs = crashed
		s, err = Open(testOptions(fs))
		check(t, err)
	}
	checkWorld(t, s, w)
	check(t, s.Close())
}

// TestACrashInTheMiddleOfCommits takes the clones while commits, flushes and
// compactions run.
func TestACrashInTheMiddleOfCommits(t *testing.T) {
	const turns, clones = 240, 8
	const seed = 4711
	rng := seeded(t, seed)
	fs := vfs.NewCrashableMem()
	w := newWorld(1, 2)
	s := openTest(t, testOptions(fs))
	w.create(t, s)
	h := &history{}
	h.add(w)
	type clone struct {
		fs     vfs.FS
		synced int
	}
	taken := make(chan clone, clones)
	go func() {
		defer close(taken)
		crng := rand.New(rand.NewPCG(seed, 1))
		for i := range clones {
			for deadline := time.Now().Add(time.Minute); h.at.Load() < int64(i*turns/clones); {
				if time.Now().After(deadline) {
					return
				}
				time.Sleep(time.Millisecond)
			}
			synced := int(h.synced.Load())
			taken <- clone{fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: crng}), synced}
		}
	}()
	for i := range turns {
		check(t, w.turn(t, s, rng))
		h.add(w)
		h.at.Store(int64(len(h.states) - 1))
		if i%17 == 0 {
			_, err := s.Sync()
			check(t, err)
			h.synced.Store(int64(len(h.states) - 1))
		}
	}
	n := 0
	for c := range taken {
		h.checkCrash(t, c.fs, h.states, c.synced)
		n++
	}
	if n != clones {
		t.Fatalf("took %d clones, want %d", n, clones)
	}
}

func TestTrapS9_CommitsAreNotDurableUntilOneSyncMakesThemSo(t *testing.T) {
	rng := seeded(t, 9)
	fs := vfs.NewCrashableMem()
	w := newWorld(1)
	s := openTest(t, testOptions(fs))
	w.create(t, s)
	created := w.clone()
	check(t, w.turn(t, s, rng))
	for w[1].applied.Index == 0 {
		check(t, w.turn(t, s, rng))
	}
	before := fs.CrashClone(vfs.CrashCloneCfg{})
	durable, err := s.Sync()
	check(t, err)
	if want := []Durable{{Replica{1, 1}, w[1].applied.Index}}; !slices.Equal(durable, want) {
		t.Fatalf("durable %v, want %v", durable, want)
	}
	after := fs.CrashClone(vfs.CrashCloneCfg{})
	checkWorld(t, openTest(t, testOptions(before)), created)
	checkWorld(t, openTest(t, testOptions(after)), w)
}

func TestWhatOpenRecoveredIsDurableAlthoughItWasNeverSynced(t *testing.T) {
	rng := seeded(t, 10)
	fs := vfs.NewCrashableMem()
	w := newWorld(1, 2)
	s := openTest(t, testOptions(fs))
	w.create(t, s)
	h := &history{}
	h.add(w)
	for deadline := time.Now().Add(time.Minute); ; {
		check(t, w.turn(t, s, rng))
		h.add(w)
		// The process is killed: the file system keeps what was written to it, and
		// nothing of that was synced. Pebble writes its log in the background.
		killed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		reopened, err := Open(testOptions(killed))
		check(t, err)
		// Right after it was opened again the power fails.
		failed := killed.CrashClone(vfs.CrashCloneCfg{})
		recovered := h.states[h.position(t, reopened, h.states)]
		checkWorld(t, reopened, recovered)
		check(t, reopened.Close())
		if recovered[1].applied.Index > 0 && recovered[2].applied.Index > 0 {
			checkWorld(t, openTest(t, testOptions(failed)), recovered)
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no commit reached the file system")
		}
	}
}

func TestACleanCloseKeepsEverything(t *testing.T) {
	rng := seeded(t, 11)
	fs := vfs.NewCrashableMem()
	w := newWorld(1, 2, 3)
	s, err := Open(testOptions(fs))
	check(t, err)
	w.create(t, s)
	for range 30 {
		check(t, w.turn(t, s, rng))
	}
	check(t, s.Close())
	s = openTest(t, testOptions(fs.CrashClone(vfs.CrashCloneCfg{})))
	checkWorld(t, s, w)
	states, err := s.Replicas()
	check(t, err)
	var want []ReplicaState
	for _, id := range []uint32{1, 2, 3} {
		want = append(want, ReplicaState{Replica: Replica{id, 1}, Applied: w[id].applied, Generation: 1})
	}
	if d := cmp.Diff(want, states); d != "" {
		t.Fatal(d)
	}
}

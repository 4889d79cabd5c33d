package wal

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// crashPoint is a power loss: the disk after it, and what was promised then.
type crashPoint struct {
	fs    *vfs.MemFS
	model *model
}

// A power loss strikes before every single operation on the file system, those
// of recovery included; the log continues after one of them, and so on.
func TestPowerLossAtEveryBoundary(t *testing.T) {
	seeds := 16
	if testing.Short() {
		seeds = 4
	}
	for i := range seeds {
		seed := uint64(i + 1)
		rng := rand.New(rand.NewPCG(seed, 99))
		gen := &opGen{rng: rng}
		mem := vfs.NewCrashableMem()
		m := newModel()
		for life := range 5 {
			points := liveOnce(t, seed, rng, gen, mem, m)
			for k, p := range points {
				l, rec, err := Open(crashOptions(lossFS(p.fs), seed))
				if err != nil {
					t.Fatalf("seed %d life %d boundary %d of %d: open: %v", seed, life, k, len(points), err)
				}
				if err := p.model.check(l, rec); err != nil {
					t.Fatalf("seed %d life %d boundary %d of %d: %v", seed, life, k, len(points), err)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			p := points[rng.IntN(len(points))]
			mem, m = p.fs, p.model
		}
	}
}

// crashOptions differ from seed to seed.
func crashOptions(fs vfs.FS, seed uint64) Options {
	o := testOptions(fs)
	o.Recycle = int(seed % 3)
	o.SegmentBytes <<= seed % 2
	if seed%4 == 3 {
		o.MaxWriteBytes *= 3
	}
	return o
}

// liveOnce opens the log and works with it, and returns a point before each
// change of the file system.
func liveOnce(t *testing.T, seed uint64, rng *rand.Rand, gen *opGen, mem *vfs.MemFS, m *model) []crashPoint {
	var points []crashPoint
	crash := func() {
		percent := []int{0, 20, 50, 80, 100}[rng.IntN(5)]
		points = append(points, crashPoint{
			fs:    mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}),
			model: m.clone(),
		})
	}
	fs := opHook(mem, func(errorfs.Op) error { crash(); return nil })
	l, rec, err := Open(crashOptions(fs, seed))
	if err != nil {
		t.Fatalf("seed %d: open: %v", seed, err)
	}
	if err := m.check(l, rec); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	next, err := m.restart(l, rec)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	*m = *next
	gen.adopt(m)
	for range 25 {
		for range 1 + rng.IntN(5) {
			gen.step(m, l)
		}
		if _, err := l.Flush(); err != nil {
			t.Fatalf("seed %d: flush: %v", seed, err)
		}
	}
	crash()
	return points
}

// adopt goes on with the replicas that are alive.
func (g *opGen) adopt(m *model) {
	g.live = g.live[:0]
	for r, s := range m.base {
		g.nextID = max(g.nextID, r.ID)
		if !s.gone {
			g.live = append(g.live, r)
		}
	}
	sortReplicas(g.live)
}

// An error of any operation on the file system ends the log; what was
// acknowledged is there after a power loss, and nothing was acknowledged later.
func TestErrorAtEveryOperation(t *testing.T) {
	for i := range 5 {
		seed := uint64(i + 1)
		for at := 0; ; at++ {
			if !failOnce(t, seed, at) {
				break
			}
		}
	}
}

// failOnce runs a log whose operation number at fails, and says whether it was
// reached.
func failOnce(t *testing.T, seed uint64, at int) bool {
	rng := rand.New(rand.NewPCG(seed, 5))
	gen := &opGen{rng: rng}
	mem := vfs.NewCrashableMem()
	m := newModel()
	n, hit := 0, false
	fs := opHook(mem, func(op errorfs.Op) error {
		n++
		hit = hit || n-1 == at
		if n-1 == at {
			return errorfs.ErrInjected
		}
		return nil
	})
	l, _, err := Open(testOptions(fs))
	if err == nil {
		for range 15 {
			for range 1 + rng.IntN(5) {
				gen.step(m, l)
			}
			if _, err = l.Flush(); err != nil {
				break
			}
		}
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			ended := 0
			late := &Write{Replica: Replica{Group: 1, ID: 999}, Entries: entries(1, 1, 1, 8), Done: func(*Write) { ended++ }}
			l.Enqueue(late)
			_, again := l.Flush()
			if ended != 1 || again == nil || !errors.Is(late.Err, again) && !errors.Is(late.Err, ErrClosed) {
				t.Fatalf("seed %d operation %d: a write after the failure ended %d times with %v", seed, at, ended, late.Err)
			}
			if l.Pending() || l.Stats().QueueBytes != 0 {
				t.Fatalf("seed %d operation %d: the queue is not empty after the failure", seed, at)
			}
		}
	}
	if !hit {
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		return false
	}
	if err == nil || !errors.Is(err, errorfs.ErrInjected) {
		t.Fatalf("seed %d operation %d: the error became %v", seed, at, err)
	}
	for _, percent := range []int{0, 50, 100} {
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		l, rec := mustOpen(t, testOptions(clone))
		if err := m.check(l, rec); err != nil {
			t.Fatalf("seed %d operation %d: %v", seed, at, err)
		}
	}
	return true
}

package basestore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"runnel.dev/runnel/node/stream"
)

// faults fails every operation of some kinds once it is armed and its
// countdown has passed.
type faults struct {
	kinds map[errorfs.OpKind]bool
	path  string // only files with this suffix
	armed atomic.Bool
	left  atomic.Int64
}

var errDisk = errors.New("injected disk error")

func (f *faults) fs(under vfs.FS) vfs.FS {
	return errorfs.Wrap(under, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if f.armed.Load() && f.kinds[op.Kind] && strings.HasSuffix(op.Path, f.path) && f.left.Add(-1) < 0 {
			return errDisk
		}
		return nil
	}))
}

// TestADiskErrorIsToldAtOnceAndTakesBackNothing lets writes or syncs fail from
// some point on. The store says so once, where it happens, and what Sync
// reported before is what a power loss leaves.
func TestADiskErrorIsToldAtOnceAndTakesBackNothing(t *testing.T) {
	syncs := []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}
	for _, tc := range []struct {
		name  string
		kinds []errorfs.OpKind
		path  string
	}{
		{"log writes", []errorfs.OpKind{errorfs.OpFileWrite}, ".log"},
		{"log syncs", syncs, ".log"},
		{"table writes", []errorfs.OpKind{errorfs.OpFileWrite}, ".sst"},
		{"table syncs", syncs, ".sst"},
		{"new files", []errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}, ""},
		{"all syncs", syncs, ""},
	} {
		for _, after := range []int64{0, 1, 3} {
			t.Run(fmt.Sprintf("%s after %d", tc.name, after), func(t *testing.T) {
				faultRun(t, newFaults(tc.kinds, tc.path, after))
			})
		}
	}
}

func newFaults(kinds []errorfs.OpKind, path string, after int64) *faults {
	f := &faults{kinds: map[errorfs.OpKind]bool{}, path: path}
	for _, k := range kinds {
		f.kinds[k] = true
	}
	f.left.Store(after)
	return f
}

func faultRun(t *testing.T, f *faults) {
	rng := seeded(t, 3)
	mem := vfs.NewCrashableMem()
	o := testOptions(f.fs(mem))
	fatal := make(chan error, 3)
	o.OnFatal = func(err error) { fatal <- err }
	s, err := Open(o)
	check(t, err)
	w := newWorld(1, 2)
	w.create(t, s)
	var mu sync.Mutex
	h := &history{}
	h.add(w)
	f.armed.Store(true)
	ended := make(chan error, 1)
	go func() {
		for turn := 0; turn < 5000; turn++ {
			next := w.clone()
			mu.Lock()
			// Kept before it is committed: the commit may not come back.
			b := next.batch(t, s, rng)
			h.add(next)
			mu.Unlock()
			if err := b.Commit(); err != nil {
				ended <- err
				return
			}
			w = next
			if turn%5 == 4 {
				if _, err := s.Sync(); err != nil {
					ended <- err
					return
				}
				h.synced.Store(int64(turn + 1))
			}
		}
		fatal <- errors.New("no write failed")
	}()
	select {
	case err = <-fatal:
	case <-time.After(time.Minute):
		t.Fatal("OnFatal was not called")
	}
	if !errors.Is(err, ErrFailed) || !errors.Is(err, errDisk) {
		t.Fatalf("OnFatal was told %v", err)
	}
	// Nothing goes to the disk from here on, also when the disk is well again,
	// and whoever writes learns of it.
	f.armed.Store(false)
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the write under way did not end")
	}
	if !errors.Is(err, ErrFailed) || !errors.Is(err, errDisk) {
		t.Fatalf("the write under way returned %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	synced := int(h.synced.Load())
	h.checkCrash(t, mem.CrashClone(vfs.CrashCloneCfg{}), h.states, synced)
	select {
	case err := <-fatal:
		t.Fatalf("OnFatal was called twice, the second time with %v", err)
	default:
	}
}

// TestAFailedStoreRefusesWrites goes on after the first error, as a process
// does that takes a moment to stop.
func TestAFailedStoreRefusesWrites(t *testing.T) {
	rng := seeded(t, 4)
	mem := vfs.NewCrashableMem()
	f := newFaults([]errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData}, ".log", 0)
	o := testOptions(f.fs(mem))
	var fatal atomic.Int64
	o.OnFatal = func(error) { fatal.Add(1) }
	s, err := Open(o)
	check(t, err)
	w := newWorld(1)
	w.create(t, s)
	_, err = s.Sync()
	check(t, err)
	before := w.clone()
	for w[1].applied.Index == 0 {
		check(t, w.turn(t, s, rng))
	}
	f.armed.Store(true)
	if _, err := s.Sync(); !errors.Is(err, ErrFailed) || !errors.Is(err, errDisk) {
		t.Fatalf("the failing sync returned %v", err)
	}
	f.armed.Store(false)
	_, sync := s.Sync()
	for name, err := range map[string]error{
		"sync":    sync,
		"commit":  w.turn(t, s, rng),
		"set":     s.SetLocal("x", nil),
		"create":  s.CreateReplica(Replica{2, 1}, stream.Group{}),
		"destroy": s.DestroyReplica(Replica{1, 1}),
	} {
		if !errors.Is(err, ErrFailed) {
			t.Errorf("%s after the failure: %v", name, err)
		}
	}
	if _, err := s.Lookup(1, modelKey(0)); err != nil {
		t.Errorf("reading after the failure: %v", err)
	}
	if n := fatal.Load(); n != 1 {
		t.Errorf("OnFatal was called %d times", n)
	}
	if err := s.Close(); err == nil {
		t.Error("close reports success although commits were lost")
	}
	checkWorld(t, openTest(t, testOptions(mem.CrashClone(vfs.CrashCloneCfg{}))), before)
}

func TestOpenFailsOnADiskError(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s, err := Open(testOptions(mem))
	check(t, err)
	defer func() { check(t, s.Close()) }()
	w := newWorld(1)
	w.create(t, s)
	check(t, w.turn(t, s, seeded(t, 1)))
	_, err = s.Sync()
	check(t, err)
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	f := newFaults([]errorfs.OpKind{errorfs.OpFileWrite}, ".sst", 0)
	f.armed.Store(true)
	o := testOptions(f.fs(crashed))
	o.OnFatal = func(err error) { t.Errorf("OnFatal was called although Open returns the error: %v", err) }
	if _, err := Open(o); !errors.Is(err, errDisk) {
		t.Fatalf("open: %v", err)
	}
	// What is on the disk opens once the disk is well.
	checkWorld(t, openTest(t, testOptions(crashed.CrashClone(vfs.CrashCloneCfg{}))), w)
}

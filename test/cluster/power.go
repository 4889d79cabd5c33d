package cluster

import (
	"io"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// powerFS is a file system whose changes can be stopped, so that the moment of
// a power loss lies before everything that the node does next.
type powerFS struct {
	*vfs.MemFS
	gate sync.RWMutex

	mu    sync.Mutex
	syncs int
	// stopAt is the sync after whose end the caller waits; 0 for none.
	stopAt           int
	reached, resumed chan struct{}
}

func newPowerFS() *powerFS { return &powerFS{MemFS: vfs.NewCrashableMem()} }

// StopAfter makes whoever completes the n-th sync from now wait for the power
// loss, and returns a channel that is closed when that is so.
func (p *powerFS) StopAfter(n int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.syncs, p.stopAt = 0, n
	p.reached, p.resumed = make(chan struct{}), make(chan struct{})
	return p.reached
}

// Disarm takes StopAfter back, if it has not come to pass.
func (p *powerFS) Disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopAt = 0
}

func (p *powerFS) synced() {
	p.mu.Lock()
	p.syncs++
	stop := p.stopAt > 0 && p.syncs == p.stopAt
	reached, resumed := p.reached, p.resumed
	p.mu.Unlock()
	if stop {
		close(reached)
		<-resumed
	}
}

// cut stops all changes and returns what a power loss at this moment leaves:
// all that was synced and some of the rest. restore lets changes go on.
func (p *powerFS) cut(rng *rand.Rand) (left *powerFS, restore func()) {
	p.gate.Lock()
	unsynced := []int{0, 30, 70, 100}[rng.IntN(4)]
	mem := p.MemFS.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rng})
	return &powerFS{MemFS: mem}, func() {
		p.mu.Lock()
		p.stopAt = 0
		if p.resumed != nil {
			close(p.resumed)
			p.resumed = nil
		}
		p.mu.Unlock()
		p.gate.Unlock()
	}
}

func gated[T any](p *powerFS, op func() (T, error)) (T, error) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	return op()
}

func (p *powerFS) do(op func() error) error {
	p.gate.RLock()
	defer p.gate.RUnlock()
	return op()
}

func (p *powerFS) file(op func() (vfs.File, error)) (vfs.File, error) {
	f, err := gated(p, op)
	if err != nil {
		return nil, err
	}
	return powerFile{f, p}, nil
}

func (p *powerFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.file(func() (vfs.File, error) { return p.MemFS.Create(name, c) })
}

func (p *powerFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.file(func() (vfs.File, error) { return p.MemFS.ReuseForWrite(old, name, c) })
}

func (p *powerFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return p.file(func() (vfs.File, error) { return p.MemFS.OpenReadWrite(name, c, o...) })
}

func (p *powerFS) OpenDir(name string) (vfs.File, error) {
	return p.file(func() (vfs.File, error) { return p.MemFS.OpenDir(name) })
}

func (p *powerFS) Lock(name string) (io.Closer, error) {
	return gated(p, func() (io.Closer, error) { return p.MemFS.Lock(name) })
}

func (p *powerFS) Link(old, name string) error {
	return p.do(func() error { return p.MemFS.Link(old, name) })
}

func (p *powerFS) Remove(name string) error {
	return p.do(func() error { return p.MemFS.Remove(name) })
}

func (p *powerFS) RemoveAll(name string) error {
	return p.do(func() error { return p.MemFS.RemoveAll(name) })
}

func (p *powerFS) Rename(old, name string) error {
	return p.do(func() error { return p.MemFS.Rename(old, name) })
}

func (p *powerFS) MkdirAll(dir string, perm os.FileMode) error {
	return p.do(func() error { return p.MemFS.MkdirAll(dir, perm) })
}

type powerFile struct {
	vfs.File
	fs *powerFS
}

func (f powerFile) Write(b []byte) (int, error) {
	return gated(f.fs, func() (int, error) { return f.File.Write(b) })
}

func (f powerFile) WriteAt(b []byte, at int64) (int, error) {
	return gated(f.fs, func() (int, error) { return f.File.WriteAt(b, at) })
}

func (f powerFile) Preallocate(off, n int64) error {
	return f.fs.do(func() error { return f.File.Preallocate(off, n) })
}

func (f powerFile) Sync() error {
	defer f.fs.synced()
	return f.fs.do(f.File.Sync)
}

func (f powerFile) SyncData() error {
	defer f.fs.synced()
	return f.fs.do(f.File.SyncData)
}

func (f powerFile) SyncTo(n int64) (bool, error) {
	defer f.fs.synced()
	return gated(f.fs, func() (bool, error) { return f.File.SyncTo(n) })
}

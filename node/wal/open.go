package wal

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Open reads, verifies and makes durable what the directory holds, and goes on
// in a new segment. An empty or missing directory becomes a new log. A torn tail
// is cut; damage, a newer format and another cluster's data are refused with a
// *DamageError, *VersionError or *ClusterError.
func Open(opts Options) (*Log, *Recovery, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, nil, err
	}
	l := &Log{
		opts: opts, fs: opts.FS, dir: opts.Dir, log: opts.Logger,
		wake:     make(chan struct{}, 1),
		segments: make(map[uint64]*segment),
		replicas: make(map[Replica]*replicaState),
	}
	rec, err := l.open()
	if err != nil {
		return nil, nil, errors.Join(err, l.closeFiles())
	}
	l.publish(nil)
	return l, rec, nil
}

func (l *Log) open() (*Recovery, error) {
	if err := makeDir(l.fs, l.dir); err != nil {
		return nil, err
	}
	var err error
	if l.lock, err = l.fs.Lock(l.path(lockName)); err != nil {
		return nil, fmt.Errorf("wal: lock %s: %w; is another process using it?", l.dir, err)
	}
	if l.dirFile, err = l.fs.OpenDir(l.dir); err != nil {
		return nil, fmt.Errorf("wal: open %s: %w", l.dir, err)
	}
	r := &recovery{log: l}
	defer r.closeUnused()
	if err := r.load(); err != nil {
		return nil, err
	}
	if err := r.replay(); err != nil {
		return nil, err
	}
	// What was read may be in the page cache alone. It must be on disk before
	// anybody acts on it.
	if err := r.makeDurable(); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	rec := r.result()
	if err := r.install(); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	if rec.Torn {
		l.log.Info("log ends with an unfinished write, which is cut",
			"file", segmentName(rec.Segment), "offset", rec.Offset)
	}
	if err := l.goOn(); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	rec.Cluster = l.cluster
	// Room that was just made for the log is not taken away again.
	if !l.released {
		if err := l.keepBallast(); err != nil {
			return nil, fmt.Errorf("wal: %w", err)
		}
	}
	return rec, nil
}

// withBallast runs f, and once more in the ballast's room when the disk is full.
// f must write anew all that it syncs: only then may a sync be repeated.
func (l *Log) withBallast(f func() error) error {
	err := f()
	if !vfs.IsNoSpaceError(err) {
		return err
	}
	if n, rerr := l.ReleaseBallast(); rerr != nil || n == 0 {
		return errors.Join(err, rerr)
	}
	l.released = true
	return f()
}

// goOn starts the new segment. A first attempt that failed left a segment that
// no seal names; it is made anew, and so is the seal.
func (l *Log) goOn() error {
	cur, off := l.cur, l.off
	return l.withBallast(func() error {
		if l.cur != cur {
			return nil // only the release of old segments had failed
		}
		l.off = off
		return l.rotate()
	})
}

// Exists says whether dir holds segments of a log. A lock or a ballast alone is
// no log.
func Exists(fs vfs.FS, dir string) (bool, error) {
	names, err := fs.List(dir)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return false, fmt.Errorf("wal: list %s: %w", dir, err)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := parseSegmentName(name)
		return ok
	}), nil
}

// makeDir makes the directory and every missing parent durable.
func makeDir(fs vfs.FS, dir string) error {
	var created []string // parents whose entries change
	for d := dir; ; {
		if _, err := fs.Stat(d); err == nil {
			break
		}
		parent := fs.PathDir(d)
		created = append(created, parent)
		if parent == d {
			break
		}
		d = parent
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("wal: create %s: %w", dir, err)
	}
	slices.Reverse(created)
	for _, parent := range created {
		d, err := fs.OpenDir(parent)
		if err != nil {
			return fmt.Errorf("wal: open %s: %w", parent, err)
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return fmt.Errorf("wal: sync %s: %w", parent, err)
		}
	}
	return nil
}

package wal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const ballastName = "ballast"

// ReleaseBallast removes the ballast file, so that a full disk has room for
// what must still be written. It returns the bytes that became free. The next
// Open with enough room makes a new one.
func (l *Log) ReleaseBallast() (int64, error) {
	n, err := removeBallast(l.fs, l.path(ballastName))
	if err == nil && n > 0 {
		l.log.Warn("ballast released: the disk is full", "bytes", n)
		l.mu.Lock()
		l.stats.BallastBytes = 0
		l.mu.Unlock()
		l.ballast.Store(0)
	}
	return n, err
}

// ReleaseBallast removes the ballast of the log in dir, which is not open, and
// returns the bytes that became free; 0 when there was none.
func ReleaseBallast(fs vfs.FS, dir string) (int64, error) {
	return removeBallast(fs, fs.PathJoin(dir, ballastName))
}

func removeBallast(fs vfs.FS, path string) (int64, error) {
	fi, err := fs.Stat(path)
	if err != nil {
		return 0, nil // there is none
	}
	if err := fs.Remove(path); err != nil {
		return 0, fmt.Errorf("remove the ballast: %w", err)
	}
	return fi.Size(), nil
}

// keepBallast makes the ballast file unless it is there. A disk without room
// for it is no error: it goes on without.
func (l *Log) keepBallast() error {
	if l.opts.BallastBytes == 0 {
		return nil
	}
	path := l.path(ballastName)
	if fi, err := l.fs.Stat(path); err == nil && fi.Size() >= l.opts.BallastBytes {
		l.ballast.Store(fi.Size())
		return nil
	}
	// Taking the last of the disk would make the shortage that it is for.
	if du, err := l.fs.GetDiskUsage(l.dir); err == nil && du.AvailBytes < 4*uint64(l.opts.BallastBytes) {
		l.log.Warn("no ballast: too little room on the disk", "available", du.AvailBytes)
		return nil
	}
	err := l.writeBallast(path)
	if vfs.IsNoSpaceError(err) {
		l.log.Warn("no ballast: the disk is full")
		_, err = removeBallast(l.fs, path)
		return err
	}
	if err == nil {
		l.ballast.Store(l.opts.BallastBytes)
	}
	return err
}

func (l *Log) writeBallast(path string) error {
	f, err := l.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create the ballast: %w", err)
	}
	// Bytes that do not compress, or a compressing file system sets nothing
	// aside for them.
	x := l.opts.Salt() | 1
	b := make([]byte, 256<<10)
	for left := l.opts.BallastBytes; left > 0 && err == nil; {
		n := min(left, int64(len(b)))
		for i := int64(0); i+8 <= int64(len(b)); i += 8 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			le.PutUint64(b[i:], x)
		}
		_, err = f.Write(b[:n])
		left -= n
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the ballast: %w", err)
	}
	return l.syncDir()
}

package basestore

import "github.com/cockroachdb/pebble/v2/vfs"

// watchFS tells of the first failed write, sync or creation of a file the
// moment it happens. That operation, and every one after it, never returns:
// nothing reaches the disk any more, and Pebble does not go on from an error.
//
// Pebble alone would not do: a commit without a sync does not see that the log
// could not be written, a failed flush is tried again at once and for ever, as
// if a failed sync could be repeated, and a log that can't be rotated ends the
// process by a double unlock, with a line that says nothing of the disk.
type watchFS struct {
	vfs.FS
	s *Store
}

// watch runs an operation. While the store closes, errors are returned.
func (w watchFS) watch(op func() error) error {
	if w.s.failed() != nil {
		park()
	}
	err := op()
	if err != nil {
		w.s.fail(err)
		if w.s.failed() != nil {
			park()
		}
	}
	return err
}

// park ends what the goroutine does without unwinding it.
func park() { select {} }

func (w watchFS) file(open func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := w.watch(func() (err error) {
		f, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	return watchFile{f, w}, nil
}

func (w watchFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return w.file(func() (vfs.File, error) { return w.FS.Create(name, c) })
}

func (w watchFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return w.file(func() (vfs.File, error) { return w.FS.ReuseForWrite(old, name, c) })
}

func (w watchFS) OpenDir(name string) (vfs.File, error) {
	f, err := w.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return watchFile{f, w}, nil
}

func (w watchFS) Rename(old, name string) error {
	return w.watch(func() error { return w.FS.Rename(old, name) })
}

func (w watchFS) Unwrap() vfs.FS { return w.FS }

type watchFile struct {
	vfs.File
	w watchFS
}

func (f watchFile) Write(p []byte) (n int, err error) {
	err = f.w.watch(func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f watchFile) WriteAt(p []byte, at int64) (n int, err error) {
	err = f.w.watch(func() (err error) {
		n, err = f.File.WriteAt(p, at)
		return err
	})
	return n, err
}

func (f watchFile) Sync() error     { return f.w.watch(f.File.Sync) }
func (f watchFile) SyncData() error { return f.w.watch(f.File.SyncData) }

func (f watchFile) SyncTo(length int64) (full bool, err error) {
	err = f.w.watch(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

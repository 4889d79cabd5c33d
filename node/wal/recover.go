package wal

import (
	"errors"
	"fmt"
	"sort"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// recovery is the reading half of Open.
type recovery struct {
	log *Log
	// valid holds the files with a valid header by number, other those without.
	valid  map[uint64]*candidate
	other  map[uint64]*candidate
	newest *candidate
	used   []*candidate // the newest and those its table names, ascending

	states  map[Replica]*replayed
	staging map[Replica]*staging
	one     [1]foundEntry // what an ordinary entry frame returns
}

// candidate is a segment's file as recovery finds it.
type candidate struct {
	number uint64
	name   string
	file   vfs.File
	size   int64
	info   *segmentInfo // nil: no valid header
	scan   scanResult
	used   bool
}

func (f *candidate) damage(off int64, reason string) error {
	return &DamageError{File: f.name, Offset: off, Reason: reason}
}

// load opens the files, finds the newest segment in use and those it needs.
func (r *recovery) load() error {
	if err := r.list(); err != nil {
		return err
	}
	if len(r.valid) == 0 {
		if err := r.begin(); err != nil {
			return err
		}
	}
	if err := r.chooseNewest(); err != nil {
		return err
	}
	if c := r.newest.info.cluster; r.log.opts.Cluster == 0 {
		r.log.cluster = c
	} else {
		r.log.cluster = r.log.opts.Cluster
	}
	for _, n := range r.newest.info.live {
		f := r.valid[n]
		if f == nil || n >= r.newest.number {
			reason := fmt.Sprintf("%s needs it, but it is missing", r.newest.name)
			if r.other[n] != nil {
				reason = fmt.Sprintf("%s needs it, but its header is bad", r.newest.name)
			}
			return &DamageError{File: segmentName(n), Reason: reason}
		}
		f.used = true
		r.used = append(r.used, f)
	}
	r.newest.used = true
	r.used = append(r.used, r.newest)
	return nil
}

func (r *recovery) list() error {
	l := r.log
	r.valid, r.other = make(map[uint64]*candidate), make(map[uint64]*candidate)
	names, err := l.fs.List(l.dir)
	if err != nil {
		return fmt.Errorf("wal: list %s: %w", l.dir, err)
	}
	for _, name := range names {
		n, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		f := &candidate{number: n, name: name}
		if f.file, err = l.fs.OpenReadWrite(l.path(name), vfs.WriteCategoryUnspecified); err != nil {
			return fmt.Errorf("wal: open %s: %w", name, err)
		}
		r.other[n] = f
		fi, err := f.file.Stat()
		if err != nil {
			return fmt.Errorf("wal: stat %s: %w", name, err)
		}
		f.size = fi.Size()
		info, err := readSegmentHeader(f.file, f.size)
		var version *VersionError
		switch {
		case errors.As(err, &version):
			version.File = name
			return version
		case errors.Is(err, errNoHeader):
			continue
		case err != nil:
			return fmt.Errorf("wal: read %s: %w", name, err)
		case info.number != n:
			continue // a spare under its new name, not yet overwritten
		}
		if c := l.opts.Cluster; c != 0 && info.cluster != 0 && info.cluster != c {
			return &ClusterError{File: name, Found: info.cluster, Expected: c}
		}
		f.info = info
		delete(r.other, n)
		r.valid[n] = f
	}
	return nil
}

// begin starts a log. The first segment is never written to: the second one
// is sealed into it like any other, so that the loss of the only segment in use
// never looks like a new log.
func (r *recovery) begin() error {
	for n, f := range r.other {
		if n != 1 || len(r.other) > 1 {
			return f.damage(0, "its header is bad, and no segment before it is there")
		}
		if err := f.file.Close(); err != nil {
			return fmt.Errorf("wal: close %s: %w", f.name, err)
		}
		delete(r.other, n)
	}
	l := r.log
	l.cluster = l.opts.Cluster
	s, err := l.createSegment(1)
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	r.valid[1] = &candidate{number: 1, name: s.name, file: s.file, size: s.size, info: s.info}
	return nil
}

// chooseNewest finds the segment that the log ended in.
func (r *recovery) chooseNewest() error {
	newest := highest(r.valid)
	if top := highest(r.other); top != nil && top.number > newest.number+1 {
		return top.damage(0, "its header is bad")
	}
	if err := newest.read(nil); err != nil {
		return err
	}
	if prev := r.valid[newest.number-1]; prev != nil && newest.scan.batches == 0 && !newest.scan.damaged() {
		if err := prev.read(nil); err != nil {
			return err
		}
		if !prev.scan.sealed {
			// The new segment was being made when the power failed. The one before
			// it holds everything.
			delete(r.valid, newest.number)
			r.other[newest.number] = newest
			newest = prev
		}
	}
	switch {
	case newest.scan.damaged():
		return newest.damage(newest.scan.end, fmt.Sprintf("a batch is bad, and a later one proves that all below %d was synced",
			newest.scan.synced))
	case newest.scan.sealed:
		next := &candidate{name: segmentName(newest.number + 1)}
		if r.other[newest.number+1] != nil {
			return next.damage(0, "its header is bad")
		}
		return next.damage(0, fmt.Sprintf("it is missing, but %s goes on in it", newest.name))
	}
	r.newest = newest
	return nil
}

func highest(m map[uint64]*candidate) *candidate {
	var top *candidate
	for _, f := range m {
		if top == nil || f.number > top.number {
			top = f
		}
	}
	return top
}

// read scans the segment.
func (f *candidate) read(visit visitor) error {
	var err error
	f.scan, err = scanSegment(f.file, f.size, f.info, visit)
	var damage *DamageError
	if errors.As(err, &damage) {
		damage.File = f.name
		return damage
	}
	if err != nil {
		return fmt.Errorf("wal: read %s: %w", f.name, err)
	}
	return nil
}

// makeDurable puts on disk what replay read. The end of the newest segment, and
// the seal before it, may be known to nobody but the page cache. They are
// written again: after a failed sync the cache may hold them as clean.
func (r *recovery) makeDurable() error {
	for _, f := range r.used {
		err := r.log.withBallast(func() error {
			if f.number+1 >= r.newest.number {
				if err := f.rewrite(); err != nil {
					return err
				}
			}
			if err := f.file.SyncData(); err != nil {
				return fmt.Errorf("sync %s: %w", f.name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return r.log.syncDir()
}

func (f *candidate) rewrite() error {
	from := min(f.scan.synced, f.scan.end)
	b := make([]byte, f.scan.end-from)
	if err := readFull(f.file, b, from); err != nil {
		return fmt.Errorf("read %s: %w", f.name, err)
	}
	if len(b) == 0 {
		return nil
	}
	if _, err := f.file.WriteAt(b, from); err != nil {
		return fmt.Errorf("write %s at offset %d: %w", f.name, from, err)
	}
	return nil
}

// install hands the segments and the state over to the log.
func (r *recovery) install() error {
	l := r.log
	for _, f := range r.used {
		s := &segment{info: f.info, seed: f.info.seed(), name: f.name, file: f.file, size: f.size}
		s.users.Store(1)
		f.file = nil
		l.segments[f.number] = s
		l.bytes += f.size
	}
	l.cur, l.off = l.segments[r.newest.number], r.newest.scan.end
	for id, s := range r.states {
		l.replicas[id] = s.state
	}
	return r.keepSpares()
}

// keepSpares keeps the files that nothing names for reuse, or removes them.
func (r *recovery) keepSpares() error {
	var rest []*candidate
	for _, m := range []map[uint64]*candidate{r.valid, r.other} {
		for _, f := range m {
			if !f.used {
				rest = append(rest, f)
			}
		}
	}
	sort.Slice(rest, func(i, j int) bool { return rest[i].number < rest[j].number })
	for _, f := range rest {
		err := f.file.Close()
		f.file = nil
		if err != nil {
			return fmt.Errorf("close %s: %w", f.name, err)
		}
		if err := r.log.spare(f.name, f.size, true); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) closeUnused() {
	for _, m := range []map[uint64]*candidate{r.valid, r.other} {
		for _, f := range m {
			if f.file != nil {
				_ = f.file.Close()
			}
		}
	}
}

package wal

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	segmentSuffix = ".wal"
	lockName      = "LOCK"
	// zeroStep is how far ahead of the batches a fresh segment is filled with
	// zeros, so that few syncs change the file's size or extents.
	zeroStep = 1 << 20
	// sealBytes is the room a segment keeps for its seal.
	sealBytes = batchHeaderBytes + frameHeader + 8
)

// segmentName returns the file name of a segment.
func segmentName(number uint64) string { return fmt.Sprintf("%020d%s", number, segmentSuffix) }

func parseSegmentName(name string) (uint64, bool) {
	base, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(base) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(base, 10, 64)
	return n, err == nil && n > 0
}

// segment is an open segment in use. Its users, the log and its readers, keep
// it open; the last one closes the file.
type segment struct {
	info  *segmentInfo
	seed  uint32
	name  string // in the directory
	file  vfs.File
	size  int64 // of the file
	users atomic.Int32
}

func (s *segment) release() error {
	if s.users.Add(-1) == 0 {
		return s.file.Close()
	}
	return nil
}

func (l *Log) path(name string) string { return l.fs.PathJoin(l.dir, name) }

func (l *Log) syncDir() error {
	if err := l.dirFile.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", l.dir, err)
	}
	return nil
}

// createSegment makes a segment with the present table durable, under its name.
// Nothing in it counts until the seal of the segment before names it.
func (l *Log) createSegment(number uint64) (*segment, error) {
	info := &segmentInfo{number: number, cluster: l.cluster, salt: l.opts.Salt()}
	info.rows, info.live = l.table(number)
	head := appendSegmentHeader(nil, info)

	name := segmentName(number)
	fresh := len(l.spares) == 0
	if !fresh {
		spare := l.spares[len(l.spares)-1]
		if spare != name {
			if err := l.fs.Rename(l.path(spare), l.path(name)); err != nil {
				return nil, fmt.Errorf("recycle %s as %s: %w", spare, name, err)
			}
		}
		l.spares = l.spares[:len(l.spares)-1]
		// The old name must be gone for good before the content changes: else a
		// power loss could show a half overwritten segment under it.
		if err := l.syncDir(); err != nil {
			return nil, err
		}
	} else if err := l.removeIfExists(name); err != nil {
		return nil, err
	}
	f, err := l.fs.OpenReadWrite(l.path(name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	seg := &segment{info: info, seed: info.seed(), name: name, file: f, size: int64(len(head))}
	seg.users.Store(1)
	if err := l.fillSegment(seg, head, fresh); err != nil {
		_ = f.Close()
		return nil, err
	}
	return seg, nil
}

func (l *Log) fillSegment(seg *segment, head []byte, fresh bool) error {
	if _, err := seg.file.WriteAt(head, 0); err != nil {
		return fmt.Errorf("write the header of %s: %w", seg.name, err)
	}
	if err := seg.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.name, err)
	}
	if fresh {
		return l.syncDir()
	}
	fi, err := seg.file.Stat()
	if err != nil {
		return fmt.Errorf("stat %s: %w", seg.name, err)
	}
	seg.size = max(seg.size, fi.Size())
	return nil
}

func (l *Log) removeIfExists(name string) error {
	if _, err := l.fs.Stat(l.path(name)); err != nil {
		return nil // the open that follows reports anything but absence
	}
	if err := l.fs.Remove(l.path(name)); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// rotate ends the current segment and goes on in a new one.
func (l *Log) rotate() error {
	next, err := l.createSegment(l.cur.info.number + 1)
	if err != nil {
		return err
	}
	if err := l.seal(next.info.number); err != nil {
		_ = next.release()
		return err
	}
	l.segMu.Lock()
	l.segments[next.info.number] = next
	l.segMu.Unlock()
	l.cur, l.off, l.confirmed = next, next.info.end, true
	l.rotations++
	l.bytes += next.size
	return l.releaseSegments()
}

// seal writes the current segment's last batch, which names the next segment.
func (l *Log) seal(next uint64) error {
	var e encoder
	e.reset(nil, l.cur.info.number, l.off, l.cur.seed)
	e.words(kindSeal, Replica{}, next)
	if err := l.writeBatch(&e, 0); err != nil {
		return err
	}
	return l.syncCurrent()
}

// table returns the rows and the live segments for the segment with this number.
func (l *Log) table(number uint64) ([]row, []uint64) {
	rows := make([]row, 0, len(l.replicas))
	for r, s := range l.replicas {
		rows = append(rows, row{replica: r, hard: s.hard, mark: s.mark, last: s.last, applied: s.applied})
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].replica.less(rows[j].replica) })
	live := make([]uint64, 0, len(l.segments))
	for n := range l.pinned() {
		if n < number {
			live = append(live, n)
		}
	}
	sort.Slice(live, func(i, j int) bool { return live[i] < live[j] })
	return rows, live
}

// pinned returns the segments that hold live entries or staged ones.
func (l *Log) pinned() map[uint64]bool {
	needed := make(map[uint64]bool)
	add := func(pin, top uint64) {
		for n := pin; n <= top; n++ {
			needed[n] = true
		}
	}
	for _, s := range l.replicas {
		s.pins(add)
	}
	for _, s := range l.splits {
		if s.begun {
			add(s.pin, l.cur.info.number)
		}
	}
	return needed
}

// releaseSegments lets go of what the current segment's table, durable and
// sealed in, does not name. What was cut since then waits for the next one.
func (l *Log) releaseSegments() error {
	keep := map[uint64]bool{l.cur.info.number: true}
	for _, n := range l.cur.info.live {
		keep[n] = true
	}
	var drop []*segment
	l.segMu.Lock()
	for n, s := range l.segments {
		if !keep[n] {
			drop = append(drop, s)
			delete(l.segments, n)
		}
	}
	l.segMu.Unlock()
	sort.Slice(drop, func(i, j int) bool { return drop[i].info.number < drop[j].info.number })
	for _, s := range drop {
		// A segment that is being read keeps its bytes: it only loses its name.
		idle := s.users.Load() == 1
		l.bytes -= s.size
		if err := s.release(); err != nil {
			return fmt.Errorf("close %s: %w", s.name, err)
		}
		if err := l.spare(s.name, s.size, idle); err != nil {
			return err
		}
	}
	return nil
}

// spare keeps a file for reuse, or removes it. A removal that a power loss
// undoes does no harm: no table names the file.
func (l *Log) spare(name string, size int64, idle bool) error {
	if idle && size >= l.opts.SegmentBytes/2 && size <= 2*l.opts.SegmentBytes && len(l.spares) < l.opts.Recycle {
		l.spares = append(l.spares, name)
		return nil
	}
	if err := l.fs.Remove(l.path(name)); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// less orders replicas by group and id.
func (r Replica) less(o Replica) bool {
	if r.Group != o.Group {
		return r.Group < o.Group
	}
	return r.ID < o.ID
}

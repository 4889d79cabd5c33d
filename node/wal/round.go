package wal

import (
	"fmt"
	"time"
)

const (
	// keepBuffer is the memory that the write buffer keeps after a burst.
	keepBuffer = 256 << 10
	// quietRounds is how many small rounds end a burst.
	quietRounds = 64
)

// Flush runs one round: it takes what is queued, up to a bound, writes it as
// one batch, syncs, and completes the Writes. It returns how many ended. After
// an error the log has failed for good and everything queued has ended with it.
func (l *Log) Flush() (int, error) {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.failed(); err != nil {
		return l.endAll(err), err
	}
	if l.cur == nil {
		return 0, ErrClosed
	}
	l.take()
	bytes := l.plan()
	if len(l.round) == 0 && len(l.splits) == 0 {
		return 0, nil
	}
	err := l.writeRound(bytes)
	if err != nil {
		// Nothing of the round is acknowledged, whatever of it reached the disk.
		err = l.setFailed(err)
		return l.endRound(err) + l.endAll(err), err
	}
	return l.endRound(nil), nil
}

// endRound completes the Writes of the round.
func (l *Log) endRound(err error) int {
	l.pending.Add(-int64(len(l.round)))
	n := len(l.finished)
	for i, w := range l.finished {
		l.finished[i] = nil
		l.finish(w, err)
	}
	l.finished = l.finished[:0]
	clear(l.round)
	l.round = l.round[:0]
	return n
}

// take moves the queue over to the writer.
func (l *Log) take() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ready) == 0 {
		l.ready, l.queue = l.queue, l.ready[:0]
		return
	}
	l.ready = append(l.ready, l.queue...)
	clear(l.queue)
	l.queue = l.queue[:0]
}

// plan moves the operations of the next round out of ready, in order, and
// returns their size. Those of a replica whose large Write is under way wait
// behind it.
func (l *Log) plan() int64 {
	var bytes int64
	i := 0
	for ; i < len(l.ready); i++ {
		o := l.ready[i]
		if s := l.splitOf(o.replica); s != nil {
			s.waiting = append(s.waiting, o)
			continue
		}
		n := o.bytes()
		if o.kind == opWrite && n > l.opts.MaxWriteBytes {
			l.splits = append(l.splits, &split{write: o.write})
			continue
		}
		if bytes > 0 && bytes+n > l.opts.MaxWriteBytes {
			break
		}
		bytes += n
		l.round = append(l.round, o)
		if o.kind == opWrite {
			l.finished = append(l.finished, o.write)
		}
	}
	clear(l.ready[:i])
	if i == len(l.ready) {
		l.ready = l.ready[:0] // keeps its memory
	} else {
		l.ready = l.ready[i:]
	}
	return bytes
}

func (o *op) bytes() int64 {
	switch o.kind {
	case opWrite:
		return o.write.bytes
	case opForget:
		return frameHeader
	default:
		return 0
	}
}

// writeRound writes and syncs one batch of the round's operations and of the
// next large Write's next piece.
func (l *Log) writeRound(bytes int64) error {
	var sp *split
	var budget int64
	if len(l.splits) > 0 {
		sp = l.splits[0]
		budget = max(l.opts.MaxWriteBytes-bytes, l.opts.MaxWriteBytes/2)
	}
	if need := bytes + budget; need > 0 && l.mustRotate(need) {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	l.enc.reset(l.buf, l.cur.info.number, l.off, l.cur.seed)
	e := &l.enc
	for i := range l.round {
		l.encode(e, &l.round[i])
	}
	if sp != nil {
		l.advance(e, sp, budget)
	}
	l.buf = e.buf
	if e.empty() {
		l.publish(nil)
		return nil
	}
	n := int64(len(e.buf))
	if err := l.writeBatch(e, l.zeroStep()); err != nil {
		return err
	}
	start := time.Now()
	if err := l.syncCurrent(); err != nil {
		return err
	}
	took := time.Since(start)
	l.confirmed = false
	l.shrink(n)
	l.publish(func(s *Stats) { s.addRound(len(l.finished), n, took) })
	return nil
}

// mustRotate says whether a batch of this size belongs in a new segment. A
// segment that is still empty takes any batch.
func (l *Log) mustRotate(bytes int64) bool {
	if l.cluster != l.cur.info.cluster {
		return true
	}
	return l.off > l.cur.info.end && l.off+batchHeaderBytes+bytes+sealBytes > l.opts.SegmentBytes
}

// encode adds an operation's frames to the batch and changes the replica's
// state. The state may run ahead of the sync: a failure is final.
func (l *Log) encode(e *encoder, o *op) {
	s := l.replicas[o.replica]
	switch o.kind {
	case opCut:
		if s != nil {
			s.cut(o.index)
		}
	case opForget:
		if s != nil {
			e.words(kindForget, o.replica)
			delete(l.replicas, o.replica)
		}
	case opWrite:
		w := o.write
		if w.Err = w.check(s); w.Err != nil || w.bytes == 0 {
			return
		}
		s = l.replica(o.replica)
		l.encodeReset(e, w, s)
		w.Refs = w.Refs[:0]
		for i := range w.Entries {
			ent := &w.Entries[i]
			off := e.entry(o.replica, 0, ent)
			w.Refs = append(w.Refs, Ref{
				Index: ent.Index, Term: ent.Term, Segment: e.segment, Offset: off, Size: uint32(len(ent.Data)),
			})
			s.append(ent.Index, ent.Term, e.segment, e.segment)
		}
		l.encodeState(e, w, s)
	}
}

func (l *Log) replica(r Replica) *replicaState {
	s := l.replicas[r]
	if s == nil {
		s = &replicaState{}
		l.replicas[r] = s
	}
	return s
}

func (l *Log) encodeReset(e *encoder, w *Write, s *replicaState) {
	if w.Reset != nil {
		e.words(kindReset, w.Replica, w.Reset.Index, w.Reset.Term)
		s.reset(*w.Reset)
	}
}

func (l *Log) encodeState(e *encoder, w *Write, s *replicaState) {
	if w.State != nil {
		e.words(kindState, w.Replica, w.State.Term, w.State.Vote, w.State.Commit)
		s.hard = *w.State
	}
	if w.Applied != 0 {
		e.words(kindApplied, w.Replica, w.Applied)
		s.applied = w.Applied
	}
}

// check refuses a Write that the log could not hold without a gap. s is nil for
// a replica that is new.
func (w *Write) check(s *replicaState) error {
	var at replicaState
	if s != nil {
		at.mark, at.last = s.mark, s.last
	}
	if w.Reset != nil {
		at.mark, at.last = *w.Reset, *w.Reset
	}
	for i := range w.Entries {
		ent := &w.Entries[i]
		if i == 0 && !at.accepts(ent.Index) {
			return fmt.Errorf("%w: group %d replica %d: entry %d does not follow a log of (%d, %d]",
				ErrInvalidWrite, w.Replica.Group, w.Replica.ID, ent.Index, at.mark.Index, at.last.Index)
		}
		if i > 0 && ent.Index != w.Entries[i-1].Index+1 {
			return fmt.Errorf("%w: group %d replica %d: entry %d follows entry %d",
				ErrInvalidWrite, w.Replica.Group, w.Replica.ID, ent.Index, w.Entries[i-1].Index)
		}
		if len(ent.Data) > MaxEntryBytes || ent.Type < 0 || ent.Type > 255 {
			return fmt.Errorf("%w: group %d replica %d: entry %d has %d bytes and type %d",
				ErrInvalidWrite, w.Replica.Group, w.Replica.ID, ent.Index, len(ent.Data), ent.Type)
		}
	}
	return nil
}

// writeBatch writes the encoder's batch at the log's end. Where the file was
// never written it adds zeros, so that the syncs of the next batches change
// neither its size nor its extents. It does not sync.
func (l *Log) writeBatch(e *encoder, ahead int64) error {
	n := int64(len(e.buf))
	batchHeader{offset: l.off, synced: l.off, length: n - batchHeaderBytes}.put(e.buf, l.cur.info.salt, l.cur.seed)
	if _, err := l.cur.file.WriteAt(e.buf, l.off); err != nil {
		return fmt.Errorf("write %s at offset %d: %w", l.cur.name, l.off, err)
	}
	l.off += n
	if l.off <= l.cur.size {
		return nil
	}
	target := max(l.off, min(l.off+ahead, l.opts.SegmentBytes))
	for at := l.off; at < target; {
		if l.zeros == nil {
			l.zeros = make([]byte, 64<<10)
		}
		z := l.zeros[:min(int64(len(l.zeros)), target-at)]
		clear(z) // a file may use the slice as its own
		if _, err := l.cur.file.WriteAt(z, at); err != nil {
			return fmt.Errorf("extend %s at offset %d: %w", l.cur.name, at, err)
		}
		at += int64(len(z))
	}
	l.bytes += target - l.cur.size
	l.cur.size = target
	return nil
}

func (l *Log) zeroStep() int64 { return min(zeroStep, l.opts.SegmentBytes/16) }

func (l *Log) syncCurrent() error {
	if err := l.cur.file.SyncData(); err != nil {
		return fmt.Errorf("sync %s: %w", l.cur.name, err)
	}
	return nil
}

// shrink gives the write buffer's memory back after a burst.
func (l *Log) shrink(used int64) {
	if int64(cap(l.buf)) <= keepBuffer || used > keepBuffer/2 {
		l.quiet = 0
		return
	}
	if l.quiet++; l.quiet >= quietRounds {
		l.buf, l.quiet = nil, 0
	}
}

// Confirm writes and syncs an empty batch when the last one has no later header
// that vouches for it. From then on damage to the last batch is told from a torn
// tail. It is for moments without traffic.
func (l *Log) Confirm() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.failed(); err != nil {
		return err
	}
	return l.confirm()
}

func (l *Log) confirm() error {
	if l.cur == nil || l.confirmed {
		return nil
	}
	e := &encoder{}
	e.reset(nil, l.cur.info.number, l.off, l.cur.seed)
	if err := l.writeBatch(e, 0); err != nil {
		return l.setFailed(err)
	}
	if err := l.syncCurrent(); err != nil {
		return l.setFailed(err)
	}
	l.confirmed = true
	return nil
}

package wal

import (
	"errors"
	"fmt"
	"sort"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// replayed is a replica while its frames are read. state holds what the tables
// and frames say; entries are collected apart, because older segments may show
// entries that were overwritten or dropped in segments that are gone.
type replayed struct {
	state   *replicaState
	entries []foundEntry // ascending, gaps allowed
}

// staging is a replica's split Write that is not committed yet.
type staging struct {
	refs []Ref
	pin  uint64 // segment of the first staged frame
}

// foundEntry is an entry with the segments that it needs.
type foundEntry struct {
	Ref
	pin, top uint64
}

func (r *recovery) of(id Replica) *replayed {
	s := r.states[id]
	if s == nil {
		s = &replayed{state: &replicaState{}}
		r.states[id] = s
	}
	return s
}

// replay reads the segments in use in order. Older ones give entries alone: the
// state is that of the newest segment's table and of its frames. Every live
// entry's last version lies in a segment that the table names, and is read after
// all older versions, so what is missing from segments that are gone was dead.
func (r *recovery) replay() error {
	r.states, r.staging = make(map[Replica]*replayed), make(map[Replica]*staging)
	for _, f := range r.used[:len(r.used)-1] {
		if err := f.read(func(fr *frame, off int64) error { return r.older(f.number, fr, off) }); err != nil {
			return err
		}
		if !f.scan.sealed {
			return f.damage(f.scan.end, "a batch is bad in a segment that was synced to its end")
		}
	}
	if err := r.applyTable(); err != nil {
		return err
	}
	return r.newest.read(func(fr *frame, off int64) error { return r.last(fr, off) })
}

// applyTable makes the newest segment's table the state.
func (r *recovery) applyTable() error {
	old := r.states
	r.states = make(map[Replica]*replayed)
	for i := range r.newest.info.rows {
		row := &r.newest.info.rows[i]
		s := r.of(row.replica)
		s.state.hard, s.state.applied = row.hard, row.applied
		s.state.reset(row.mark)
		o := old[row.replica]
		if o == nil {
			o = &replayed{}
		}
		lo := sort.Search(len(o.entries), func(i int) bool { return o.entries[i].Index > row.mark.Index })
		hi := sort.Search(len(o.entries), func(i int) bool { return o.entries[i].Index > row.last.Index })
		for _, e := range o.entries[lo:max(lo, hi)] {
			if e.Index != s.state.last.Index+1 {
				break
			}
			s.add(e)
		}
		if s.state.last != row.last {
			return r.newest.damage(segmentHeader+int64(i)*tableRow, fmt.Sprintf(
				"group %d replica %d has entries up to %d, but entry %d is not in the segments before",
				row.replica.Group, row.replica.ID, row.last.Index, s.state.last.Index+1))
		}
	}
	return nil
}

// add appends an entry to the state and to the list.
func (s *replayed) add(e foundEntry) {
	s.drop(e.Index)
	s.entries = append(s.entries, e)
	s.state.append(e.Index, e.Term, e.pin, e.top)
}

// drop removes the listed entries at and above index.
func (s *replayed) drop(index uint64) {
	if n := len(s.entries); n > 0 && s.entries[n-1].Index >= index {
		s.entries = s.entries[:sort.Search(n, func(i int) bool { return s.entries[i].Index >= index })]
	}
}

// older collects the entries of a frame in a segment before the newest.
func (r *recovery) older(segment uint64, f *frame, off int64) error {
	s := r.of(f.replica)
	switch f.kind {
	case kindEntry, kindPart, kindAssembly, kindCommit:
		found, _, err := r.entryFrame(segment, f, off)
		for _, e := range found {
			s.drop(e.Index)
			s.entries = append(s.entries, e)
		}
		return err
	case kindReset, kindForget:
		s.entries = nil
	case kindState, kindApplied:
	default:
		return fmt.Errorf("a frame of unknown kind %d", f.kind)
	}
	return nil
}

// last applies a frame of the newest segment.
func (r *recovery) last(f *frame, off int64) error {
	if f.kind == kindForget {
		delete(r.states, f.replica)
		return nil
	}
	ok := true
	var ws [4]uint64
	switch f.kind {
	case kindState:
		if ws, ok = f.wordsOf(3); ok {
			r.of(f.replica).state.hard = raftpb.HardState{Term: ws[0], Vote: ws[1], Commit: ws[2]}
		}
	case kindReset:
		if ws, ok = f.wordsOf(2); ok {
			s := r.of(f.replica)
			s.entries = nil
			s.state.reset(Mark{Index: ws[0], Term: ws[1]})
		}
	case kindApplied:
		if ws, ok = f.wordsOf(1); ok {
			r.of(f.replica).state.applied = ws[0]
		}
	case kindEntry, kindPart, kindAssembly, kindCommit:
		return r.lastEntries(f, off)
	default:
		return fmt.Errorf("a frame of unknown kind %d", f.kind)
	}
	if !ok {
		return fmt.Errorf("a frame of kind %d with %d bytes", f.kind, len(f.payload))
	}
	return nil
}

// lastEntries applies an entry frame of the newest segment. All that such a
// frame needs is in the segments that the table names, so anything missing is
// damage.
func (r *recovery) lastEntries(f *frame, off int64) error {
	found, whole, err := r.entryFrame(r.newest.number, f, off)
	if err != nil {
		return err
	}
	if !whole {
		return errors.New("a commit of entries that are not staged")
	}
	for _, e := range found {
		s := r.of(f.replica)
		if !s.state.accepts(e.Index) {
			return fmt.Errorf("entry %d of group %d replica %d does not follow entry %d",
				e.Index, f.replica.Group, f.replica.ID, s.state.last.Index)
		}
		s.add(e)
	}
	return nil
}

// entryFrame handles the frames that make entries, and returns those that take
// effect with it. whole is false for a commit whose entries are not all staged.
// In an older segment that is legal: its entries are dead, and the segments
// that held some of them are gone.
func (r *recovery) entryFrame(segment uint64, f *frame, off int64) (found []foundEntry, whole bool, err error) {
	if f.flags&flagBegin != 0 {
		r.staging[f.replica] = &staging{pin: segment}
	}
	st := r.staging[f.replica]
	if f.kind == kindCommit {
		delete(r.staging, f.replica)
		ws, ok := f.wordsOf(2)
		if !ok {
			return nil, false, fmt.Errorf("a commit of %d bytes", len(f.payload))
		}
		if st == nil || !st.holds(ws[0], ws[1]) {
			return nil, false, nil
		}
		for _, ref := range st.refs {
			found = append(found, foundEntry{Ref: ref, pin: st.pin, top: segment})
		}
		return found, true, nil
	}
	if f.kind == kindPart && len(f.payload) >= partPrefix {
		return nil, true, nil
	}
	ref, ok := f.entryRef(segment, off)
	if !ok {
		return nil, false, fmt.Errorf("a frame of kind %d with %d bytes", f.kind, len(f.payload))
	}
	if f.flags&flagStaged == 0 {
		r.one[0] = foundEntry{Ref: ref, pin: segment, top: segment}
		return r.one[:], true, nil
	}
	if st != nil {
		st.refs = append(st.refs, ref)
	}
	return nil, true, nil
}

// holds says whether exactly the entries from first to last are staged.
func (s *staging) holds(first, last uint64) bool {
	n := uint64(len(s.refs))
	if n == 0 || s.refs[0].Index != first || last-first != n-1 {
		return false
	}
	for i, ref := range s.refs {
		if ref.Index != first+uint64(i) {
			return false
		}
	}
	return true
}

// result reports the replicas that live, and drops the others.
func (r *recovery) result() *Recovery {
	rec := &Recovery{
		Torn: r.newest.scan.torn, Segment: r.newest.number, Offset: r.newest.scan.end,
	}
	for id, s := range r.states {
		if live := r.log.opts.Live; live != nil && !live(id) {
			rec.Dropped = append(rec.Dropped, id)
			delete(r.states, id)
			continue
		}
		refs := make([]Ref, len(s.entries))
		for i := range s.entries {
			refs[i] = s.entries[i].Ref
		}
		rec.Replicas = append(rec.Replicas, Recovered{
			Replica: id, State: s.state.hard, Snapshot: s.state.mark, Applied: s.state.applied, Refs: refs,
		})
	}
	sort.Slice(rec.Dropped, func(i, j int) bool { return rec.Dropped[i].less(rec.Dropped[j]) })
	sort.Slice(rec.Replicas, func(i, j int) bool { return rec.Replicas[i].less(rec.Replicas[j].Replica) })
	return rec
}

package raftgroup

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/raft/v3"
	"go.etcd.io/etcd/raft/v3/raftpb"
	"pgregory.net/rapid"

	"runnel.dev/runnel/node/wal"
)

// shelf is a log that only gives back what it was given.
type shelf struct {
	entries map[wal.Ref]raftpb.Entry
	reads   int
	bytes   uint64 // of the largest read
	err     error
}

func (s *shelf) Enqueue(w *wal.Write) {
	for _, e := range w.Entries {
		ref := wal.Ref{Index: e.Index, Term: e.Term, Size: uint32(len(e.Data)), Offset: int64(len(s.entries))}
		s.entries[ref] = e
		w.Refs = append(w.Refs, ref)
	}
}

func (s *shelf) ReadRange(refs []wal.Ref, maxBytes uint64) ([]raftpb.Entry, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.reads++
	var out []raftpb.Entry
	sum := uint64(0)
	for _, r := range refs {
		if sum += uint64(r.Size); len(out) > 0 && sum > maxBytes {
			break
		}
		out = append(out, s.entries[r])
	}
	s.bytes = max(s.bytes, sum)
	return out, nil
}

func newShelfLog(limit int64) (*replicaLog, *shelf) {
	s := &shelf{entries: map[wal.Ref]raftpb.Entry{}}
	return newReplicaLog(s, recovered{}, limit, &cacheBudget{limit: 1 << 30}, &turnState{reads: turnReads}), s
}

func (l *replicaLog) put(t interface{ Fatal(...any) }, s *shelf, ents ...raftpb.Entry) {
	w := &wal.Write{Entries: ents}
	s.Enqueue(w)
	if err := l.append(ents, w.Refs); err != nil {
		t.Fatal(err)
	}
}

// The log is a plain list whatever the cache holds, and slices it gave out keep
// their contents.
func TestReplicaLogAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := newShelfLog(int64(rapid.IntRange(0, 2000).Draw(t, "limit")))
		var model []raftpb.Entry
		type lent struct{ got, want []raftpb.Entry }
		var out []lent
		term := uint64(1)
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			first := uint64(len(model) + 1)
			if len(model) > 0 && rapid.IntRange(0, 4).Draw(t, "truncate") == 0 {
				first = uint64(rapid.IntRange(1, len(model)).Draw(t, "first"))
				term++
			}
			var ents []raftpb.Entry
			for i := range rapid.IntRange(1, 5).Draw(t, "entries") {
				ents = append(ents, raftpb.Entry{Index: first + uint64(i), Term: term, Data: fmt.Appendf(nil, "%d/%d", step, i)})
			}
			l.put(t, s, ents...)
			model = append(model[:first-1:first-1], ents...)
			l.turn.reads = turnReads
			if rapid.Bool().Draw(t, "idle") {
				l.trimIdle()
			}
			lo := rapid.IntRange(1, len(model)).Draw(t, "lo")
			hi := rapid.IntRange(lo, len(model)).Draw(t, "hi")
			size := rapid.Uint64Range(0, 300).Draw(t, "size")
			got, err := l.Entries(uint64(lo), uint64(hi+1), size)
			if err != nil || len(got) == 0 {
				t.Fatalf("entries [%d, %d]: %d, %v", lo, hi, len(got), err)
			}
			want := model[lo-1 : lo-1+len(got)]
			out = append(out, lent{got, append([]raftpb.Entry(nil), want...)})
			for i := range model {
				if term, err := l.Term(uint64(i + 1)); err != nil || term != model[i].Term {
					t.Fatalf("term of %d: %d %v, want %d", i+1, term, err, model[i].Term)
				}
			}
			for _, o := range out {
				for i := range o.want {
					if o.got[i].Index != o.want[i].Index || o.got[i].Term != o.want[i].Term || string(o.got[i].Data) != string(o.want[i].Data) {
						t.Fatalf("a slice given out earlier changed: %v, was %v", o.got[i], o.want[i])
					}
				}
			}
			held := int64(0)
			for i := range l.tail {
				held += int64(len(l.tail[i].Data)) + entryOverhead
			}
			if held != l.tailBytes || held != l.cache.bytes.Load() || (held > l.limit && len(l.tail) > 0) {
				t.Fatalf("%d bytes held, counted %d and %d, limit %d", held, l.tailBytes, l.cache.bytes.Load(), l.limit)
			}
		}
		l.release()
		if n := l.cache.bytes.Load(); n != 0 {
			t.Fatalf("%d bytes after the end", n)
		}
	})
}

// A lagging follower is served by bounded reads and has to come back when the
// turn has read enough; entries to apply are always read.
func TestTrapR12_ReadsForFollowersAreBounded(t *testing.T) {
	l, s := newShelfLog(0)
	for i := range uint64(64) {
		l.put(t, s, raftpb.Entry{Index: i + 1, Term: 1, Data: make([]byte, 256<<10)})
	}
	served := 0
	next := uint64(1)
	for {
		ents, err := l.Entries(next, 65, 8<<20)
		if errors.Is(err, raft.ErrCompacted) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range ents {
			served += len(ents[i].Data)
		}
		next = ents[len(ents)-1].Index + 1
	}
	if served > turnReads+sendRead || served < turnReads/2 || s.bytes > sendRead {
		t.Fatalf("%d bytes in a turn, %d in a read", served, s.bytes)
	}
	if _, err := l.Snapshot(); err != raft.ErrSnapshotTemporarilyUnavailable {
		t.Fatalf("raft would not come back: %v", err)
	}
	l.applying = true
	if ents, err := l.Entries(1, 65, 64<<20); err != nil || len(ents) == 0 || s.bytes > applyRead {
		t.Fatalf("%d entries to apply, read of %d bytes, %v", len(ents), s.bytes, err)
	}
}

func TestReadErrorStopsTheNode(t *testing.T) {
	l, s := newShelfLog(0)
	l.put(t, s, raftpb.Entry{Index: 1, Term: 1, Data: []byte("x")})
	s.err = errors.New("bad sector")
	if _, err := l.Entries(1, 2, 1); err != raft.ErrCompacted {
		t.Fatalf("raft would panic about %v", err)
	}
	if !errors.Is(l.turn.err, s.err) {
		t.Fatalf("the shard does not hear of it: %v", l.turn.err)
	}
}

package wal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/etcd/raft/v3/raftpb"
	"pgregory.net/rapid"
)

func TestInvalidWritesAreRefusedAlone(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	huge := entries(1, 9, 9, 20<<10)
	tests := []struct {
		name string
		w    Write
	}{
		{"a gap", Write{Entries: entries(1, 7, 7, 10)}},
		{"an entry that was cut", Write{Entries: entries(1, 2, 3, 10)}},
		{"entries that are not contiguous", Write{Entries: append(entries(1, 6, 6, 10), entries(1, 8, 8, 10)...)}},
		{"an entry below the reset's mark", Write{Reset: &Mark{20, 2}, Entries: entries(2, 20, 20, 10)}},
		{"a large entry with a gap", Write{Entries: huge}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			l, _ := mustOpen(t, testOptions(mem))
			put(t, l, &Write{Replica: r, State: &raftpb.HardState{Term: 1}, Entries: entries(1, 1, 5, 10)})
			l.Cut(r, 3)
			w := tt.w
			w.Replica, w.State = r, &raftpb.HardState{Term: 9}
			ended := 0
			w.Done = func(*Write) { ended++ }
			l.Enqueue(&w)
			if err := flushAll(l); err != nil {
				t.Fatal(err)
			}
			if ended != 1 || !errors.Is(w.Err, ErrInvalidWrite) {
				t.Fatalf("ended %d times with %v", ended, w.Err)
			}
			put(t, l, &Write{Replica: r, Entries: entries(1, 6, 6, 10)})
			_, rec := mustOpen(t, testOptions(lossFS(mem)))
			if got := rec.Replicas[0]; got.State.Term != 1 || got.Last().Index != 6 {
				t.Fatalf("recovered %+v", got)
			}
		})
	}
}

func TestReadsVerifyTheEntry(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	w := put(t, l, &Write{Replica: r, Entries: append(entries(1, 1, 4, 500), raftpb.Entry{
		Index: 5, Term: 1, Type: raftpb.EntryConfChangeV2, Data: bytes.Repeat([]byte{1}, 90<<10),
	}, raftpb.Entry{Index: 6, Term: 1})})
	for i, ref := range w.Refs {
		e, err := l.Read(ref)
		if err != nil || e.Type != w.Entries[i].Type || !bytes.Equal(e.Data, w.Entries[i].Data) || int(ref.Size) != len(e.Data) {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
	var damage *DamageError
	for name, change := range map[string]func(*Ref){
		"another index":  func(r *Ref) { r.Index++ },
		"another term":   func(r *Ref) { r.Term++ },
		"another size":   func(r *Ref) { r.Size++ },
		"another offset": func(r *Ref) { r.Offset += align },
	} {
		ref := w.Refs[1]
		change(&ref)
		if _, err := l.Read(ref); !errors.As(err, &damage) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := l.ReadRange([]Ref{w.Refs[0], ref, w.Refs[3]}, 1<<20); !errors.As(err, &damage) {
			t.Errorf("%s in a range: %v", name, err)
		}
	}
	flip(t, mem, testDir+"/"+segmentName(w.Refs[2].Segment), (w.Refs[2].Offset+100)*8)
	if _, err := l.ReadRange(w.Refs, 1<<20); !errors.As(err, &damage) || damage.Offset != w.Refs[2].Offset {
		t.Fatalf("a flipped bit: %v", err)
	}
}

func TestReadRangeStopsAtItsBound(t *testing.T) {
	l, _ := mustOpen(t, testOptions(vfs.NewCrashableMem()))
	w := put(t, l, &Write{Replica: Replica{1, 1}, Entries: entries(1, 1, 8, 100)})
	for _, tt := range []struct {
		max  uint64
		want int
	}{{0, 1}, {99, 1}, {100, 1}, {250, 2}, {800, 8}, {1 << 40, 8}} {
		es, err := l.ReadRange(w.Refs, tt.max)
		if err != nil || len(es) != tt.want {
			t.Errorf("%d bytes: %d entries, want %d: %v", tt.max, len(es), tt.want, err)
		}
	}
	if es, err := l.ReadRange(nil, 100); err != nil || len(es) != 0 {
		t.Errorf("no refs: %d entries, %v", len(es), err)
	}
}

// A segment that is released while it is read keeps its bytes.
func TestReadersKeepAReleasedSegment(t *testing.T) {
	r := Replica{Group: 1, ID: 1}
	l, _ := mustOpen(t, testOptions(vfs.NewCrashableMem()))
	w := put(t, l, &Write{Replica: r, Entries: entries(1, 1, 1, 1000)})
	s, err := l.acquire(w.Refs[0].Segment)
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(2); l.Stats().Rotations < 8; i++ {
		put(t, l, &Write{Replica: r, Entries: entries(1, i, i, 1000)})
		l.Cut(r, i-1)
	}
	f, err := s.readFrame(w.Refs[0].Offset, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := l.entry(s, &f, w.Refs[0]); err != nil || !bytes.Equal(e.Data, w.Entries[0].Data) {
		t.Fatal(err)
	}
	if err := s.release(); err != nil {
		t.Fatal(err)
	}
}

func TestForgottenReplicaPinsNothing(t *testing.T) {
	gone, busy := Replica{Group: 1, ID: 1}, Replica{Group: 2, ID: 2}
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	w := put(t, l, &Write{Replica: gone, State: &raftpb.HardState{Term: 3}, Entries: entries(3, 1, 5, 100)})
	l.Forget(gone)
	if err := flushAll(l); err != nil {
		t.Fatal(err)
	}
	if _, rec := mustOpen(t, testOptions(lossFS(mem))); len(rec.Replicas) != 0 {
		t.Fatalf("recovered %+v", rec.Replicas)
	}
	for i := uint64(1); l.Stats().Rotations < 4; i++ {
		put(t, l, &Write{Replica: busy, Entries: entries(1, i, i, 1000)})
		l.Cut(busy, i-1)
	}
	if _, err := l.Read(w.Refs[0]); !errors.Is(err, ErrGone) {
		t.Fatalf("reading a forgotten replica's entry: %v", err)
	}
}

func TestCloseEndsWhatIsQueued(t *testing.T) {
	l, _ := mustOpen(t, testOptions(vfs.NewCrashableMem()))
	var ends []error
	done := func(w *Write) { ends = append(ends, w.Err) }
	l.Enqueue(&Write{Replica: Replica{1, 1}, Entries: entries(1, 1, 1, 40<<10), Done: done})
	if _, err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	l.Enqueue(&Write{Replica: Replica{1, 1}, Entries: entries(1, 2, 2, 10), Done: done})
	l.Enqueue(&Write{Replica: Replica{2, 2}, Entries: entries(1, 1, 1, 10), Done: done})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.Enqueue(&Write{Replica: Replica{2, 2}, Entries: entries(1, 1, 1, 10), Done: done})
	if len(ends) != 4 || l.Stats().QueueBytes != 0 || l.Pending() {
		t.Fatalf("ended with %v, %d bytes queued", ends, l.Stats().QueueBytes)
	}
	for _, err := range ends {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("ended with %v", err)
		}
	}
	if _, err := l.Flush(); !errors.Is(err, ErrClosed) {
		t.Errorf("flush after close: %v", err)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	if _, _, err := Open(testOptions(mem)); err == nil {
		t.Fatal("a second log opened the directory")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(testOptions(mem)); err != nil {
		t.Fatal(err)
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no file system":       func(o *Options) { o.FS = nil },
		"no directory":         func(o *Options) { o.Dir = "" },
		"tiny segments":        func(o *Options) { o.SegmentBytes = 4096 },
		"odd segments":         func(o *Options) { o.SegmentBytes = MinSegmentBytes + 1 },
		"tiny writes":          func(o *Options) { o.MaxWriteBytes = 100 },
		"writes over segments": func(o *Options) { o.MaxWriteBytes = 1 << 20 },
		"negative spares":      func(o *Options) { o.Recycle = -1 },
		"negative ballast":     func(o *Options) { o.BallastBytes = -1 },
	} {
		o := testOptions(vfs.NewCrashableMem())
		change(&o)
		if _, _, err := Open(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestWriteBufferIsReleasedAfterABurst(t *testing.T) {
	o := testOptions(vfs.NewCrashableMem())
	o.SegmentBytes, o.MaxWriteBytes = 16<<20, 1<<20
	l, _ := mustOpen(t, o)
	put(t, l, &Write{Replica: Replica{1, 1}, Entries: entries(1, 1, 1, 900<<10)})
	if n := l.Stats().BufferBytes; n < 900<<10 {
		t.Fatalf("the buffer holds %d bytes in the burst", n)
	}
	for i := uint64(2); i < 2+quietRounds; i++ {
		put(t, l, &Write{Replica: Replica{1, 1}, Entries: entries(1, i, i, 100)})
	}
	if n := l.Stats().BufferBytes; n > keepBuffer {
		t.Fatalf("the buffer holds %d bytes after the burst", n)
	}
}

// The state of a replica agrees with a list of entries, one by one.
func TestReplicaStateAgreesWithAList(t *testing.T) {
	type item struct{ index, term, pin, top uint64 }
	rapid.Check(t, func(t *rapid.T) {
		var s replicaState
		var list []item
		mark := Mark{}
		seg := uint64(1)
		last := func() uint64 {
			if len(list) > 0 {
				return list[len(list)-1].index
			}
			return mark.Index
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				mark = Mark{last() + rapid.Uint64Range(0, 9).Draw(t, "jump"), rapid.Uint64Range(1, 9).Draw(t, "term")}
				list = nil
				s.reset(mark)
			case 1, 2:
				at := rapid.Uint64Range(0, last()+3).Draw(t, "cut")
				s.cut(at)
				for len(list) > 0 && list[0].index <= at {
					mark = Mark{list[0].index, list[0].term}
					list = list[1:]
				}
			default:
				seg += rapid.Uint64Range(0, 2).Draw(t, "rotate")
				at := rapid.Uint64Range(mark.Index+1, last()+1).Draw(t, "index")
				if rapid.Bool().Draw(t, "append") {
					at = last() + 1
				}
				it := item{at, rapid.Uint64Range(1, 3).Draw(t, "term"), seg, seg + rapid.Uint64Range(0, 1).Draw(t, "span")}
				seg = it.top
				list = append(list[:at-mark.Index-1:at-mark.Index-1], it)
				s.append(it.index, it.term, it.pin, it.top)
			}
			want := mark
			pins := map[uint64]bool{}
			for _, it := range list {
				want = Mark{it.index, it.term}
				for n := it.pin; n <= it.top; n++ {
					pins[n] = true
				}
			}
			got := map[uint64]bool{}
			s.pins(func(pin, top uint64) {
				for n := pin; n <= top; n++ {
					got[n] = true
				}
			})
			if !maps.Equal(got, pins) {
				t.Fatalf("segments %v are pinned, want %v", got, pins)
			}
			if s.mark != mark || s.last != want || s.accepts(mark.Index) || !s.accepts(want.Index+1) || s.accepts(want.Index+2) {
				t.Fatalf("mark %v last %v, want %v %v", s.mark, s.last, mark, want)
			}
		}
	})
}

// Writers of many goroutines are grouped, and each one's order is kept.
func TestWriterGroupsConcurrentWrites(t *testing.T) {
	mem := vfs.NewCrashableMem()
	o := testOptions(mem)
	o.SegmentBytes, o.MaxWriteBytes = 64<<10, 16<<10
	l, _ := mustOpen(t, o)
	w := StartWriter(l, func(err error) { t.Errorf("fatal: %v", err) })
	const groups, each = 16, 50
	var wg sync.WaitGroup
	for g := range groups {
		wg.Go(func() {
			r := Replica{Group: uint32(g), ID: uint64(g) + 1}
			done := make(chan *Write, 1)
			for i := uint64(1); i <= each; i++ {
				l.Enqueue(&Write{Replica: r, Entries: entries(1, i, i, 400), Done: func(w *Write) { done <- w }})
				select {
				case w := <-done:
					if e, err := l.Read(w.Refs[0]); w.Err != nil || err != nil || e.Index != i {
						t.Errorf("group %d entry %d: %v, %v", g, i, w.Err, err)
						return
					}
					l.Cut(r, max(i, 3)-3)
				case <-time.After(30 * time.Second):
					t.Errorf("group %d entry %d is not done", g, i)
					return
				}
			}
		})
	}
	wg.Wait()
	w.Stop()
	if st := l.Stats(); st.Writes != groups*each || st.Rounds > st.Writes || st.QueueBytes != 0 || st.Rotations < 3 {
		t.Errorf("%+v", st)
	}
	_, rec := mustOpen(t, optionsOn(o, lossFS(mem)))
	for _, got := range rec.Replicas {
		if got.Last().Index != each {
			t.Errorf("group %d ends at %v", got.Group, got.Last())
		}
	}
}

func TestWriterStopWritesTheQueue(t *testing.T) {
	mem := vfs.NewCrashableMem()
	l, _ := mustOpen(t, testOptions(mem))
	w := StartWriter(l, nil)
	for i := uint64(1); i <= 20; i++ {
		l.Enqueue(&Write{Replica: Replica{1, 1}, Entries: entries(1, i, i, 5000)})
	}
	w.Stop()
	w.Stop()
	_, rec := mustOpen(t, testOptions(lossFS(mem)))
	if len(rec.Replicas) != 1 || len(rec.Replicas[0].Refs) != 20 {
		t.Fatalf("recovered %+v", rec.Replicas)
	}
}

func TestWriterReportsTheFirstErrorOnce(t *testing.T) {
	var mu sync.Mutex
	fail := false
	fs := opHook(vfs.NewCrashableMem(), func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if fail && op.Kind == errorfs.OpFileSyncData {
			return errorfs.ErrInjected
		}
		return nil
	})
	l, _ := mustOpen(t, testOptions(fs))
	fatal := make(chan error, 10)
	w := StartWriter(l, func(err error) { fatal <- err })
	mu.Lock()
	fail = true
	mu.Unlock()
	done := make(chan error, 10)
	for i := uint64(1); i <= 3; i++ {
		l.Enqueue(&Write{Replica: Replica{1, 1}, Entries: entries(1, i, i, 100), Done: func(w *Write) { done <- w.Err }})
	}
	for range 3 {
		select {
		case err := <-done:
			if !errors.Is(err, ErrFailed) || !errors.Is(err, errorfs.ErrInjected) {
				t.Fatalf("a write ended with %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a write did not end")
		}
	}
	w.Stop()
	if len(fatal) != 1 {
		t.Fatalf("%d fatal errors", len(fatal))
	}
	if err := l.Confirm(); !errors.Is(err, ErrFailed) {
		t.Fatalf("confirm after the failure: %v", err)
	}
}

// A log without traffic confirms its last batch, once.
func TestIdleWriterConfirmsTheLastBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		l, _ := mustOpen(t, testOptions(mem))
		w := StartWriter(l, func(err error) { t.Error(err) })
		l.Enqueue(&Write{Replica: Replica{1, 1}, Entries: entries(1, 1, 1, 100)})
		synctest.Wait()
		before := copyFS(mem)
		time.Sleep(2 * idleConfirm) // the bubble's clock
		synctest.Wait()
		after := copyFS(mem)
		name := testDir + "/" + segmentName(2)
		start := (segmentHeader + batchHeaderBytes + 30) * int64(8)
		flip(t, before, name, start)
		flip(t, after, name, start)
		if _, rec, err := Open(testOptions(before)); err != nil || len(rec.Replicas) != 0 {
			t.Errorf("before: %v, %+v", err, rec)
		}
		if _, _, err := Open(testOptions(after)); err == nil {
			t.Error("damage to a confirmed batch was cut")
		}
		w.Stop()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func ExampleOpen() {
	l, rec, err := Open(Options{FS: vfs.NewMem(), Dir: "wal", Cluster: 1})
	if err != nil {
		panic(err)
	}
	fmt.Println("replicas:", len(rec.Replicas))
	w := &Write{
		Replica: Replica{Group: 1, ID: 1},
		Entries: []raftpb.Entry{{Index: 1, Term: 1, Data: []byte("hello")}},
		Done:    func(w *Write) { fmt.Println("durable:", w.Err == nil) },
	}
	l.Enqueue(w)
	if _, err := l.Flush(); err != nil {
		panic(err)
	}
	e, err := l.Read(w.Refs[0])
	if err != nil {
		panic(err)
	}
	fmt.Println(string(e.Data))
	// Output:
	// replicas: 0
	// durable: true
	// hello
}

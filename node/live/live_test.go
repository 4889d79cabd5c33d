package live

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runnel.dev/runnel/node/stream"
)

const (
	group = 3
	id    = stream.ID(9)
)

func publish(r *Registry, from int, data string, closed bool) {
	r.Publish(group, id, Event{From: uint64(from), To: uint64(from + len(data)), Data: []byte(data), Closed: closed})
}

// next waits in a goroutine and returns what it got; the caller is in a bubble.
func next(w *Watch, pos uint64) <-chan Update {
	c := make(chan Update, 1)
	go func() { c <- w.Next(pos, nil, nil) }()
	synctest.Wait()
	return c
}

func TestAppendWakesEveryReader(t *testing.T) {
	for _, readers := range []int{1, inlineWakes, inlineWakes + 1, 500} {
		synctest.Test(t, func(t *testing.T) {
			r := NewRegistry(Limits{})
			var waits []<-chan Update
			for range readers {
				waits = append(waits, next(r.Watch(group, id), 5))
			}
			publish(r, 5, "hello", false)
			synctest.Wait()
			for i, c := range waits {
				select {
				case u := <-c:
					if u.State != Ready || string(u.Chunk.Data()) != "hello" || !u.UpToDate || u.Closed {
						t.Fatalf("reader %d of %d: %+v", i, readers, u)
					}
				default:
					t.Fatalf("reader %d of %d sleeps", i, readers)
				}
			}
		})
	}
}

func TestReadersShareOneEncode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry(Limits{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		frames := map[*byte]bool{}
		for range 1000 {
			w := r.Watch(group, id)
			wg.Go(func() {
				defer w.Close()
				u := w.Next(0, nil, nil)
				f, ok := u.Chunk.Frame(Text)
				if !ok || string(f) != "event: data\ndata:hello\n\n" {
					t.Errorf("frame %q, %v", f, ok)
				}
				mu.Lock()
				frames[&f[0]] = true
				mu.Unlock()
				u.Chunk.Release()
			})
		}
		synctest.Wait()
		publish(r, 0, "hello", false)
		wg.Wait()
		if st := r.Stats(); len(frames) != 1 || st.Encodes != 1 {
			t.Errorf("%d frames, %d encodes for 1,000 readers, want 1", len(frames), st.Encodes)
		}
		if st := r.Stats(); st.Topics != 0 || st.Watches != 0 || st.Bytes != 0 {
			t.Errorf("left behind: %+v", st)
		}
	})
}

func TestWhatAReaderCanDoAtAPosition(t *testing.T) {
	r := NewRegistry(Limits{})
	w := r.Watch(group, id)
	defer w.Close()
	expect := func(what string, pos uint64, want State) Update {
		t.Helper()
		u, ok := w.Poll(pos)
		if ok != (want != 0) || u.State != want {
			t.Fatalf("%s: at %d %+v, want state %d", what, pos, u, want)
		}
		return u
	}
	expect("nothing published", 4, 0)
	publish(r, 4, "ab", false)
	if u := expect("the newest event", 4, Ready); !u.UpToDate {
		t.Error("the newest event is up to date")
	}
	expect("before what is kept", 3, Behind)
	expect("inside an event", 5, Behind)
	expect("at the tail", 6, 0)
	expect("above a tail that is not published yet", 8, 0)
	publish(r, 6, "cd", false)
	if u := expect("an older event", 4, Ready); u.UpToDate || string(u.Chunk.Data()) != "ab" {
		t.Errorf("older event: %+v", u)
	}
	r.Publish(group, id, Event{From: 8, To: 20}) // bytes not kept
	expect("an event without bytes", 8, Behind)
	r.Publish(group, id, Event{From: 20, To: 20, Closed: true})
	expect("the end of a closed stream", 20, AtEnd)
	if u := expect("an event before the end", 6, Ready); u.Closed {
		t.Error("an event that is not the last closes")
	}
}

func TestAppendThatClosesIsOneEvent(t *testing.T) {
	r := NewRegistry(Limits{})
	w := r.Watch(group, id)
	defer w.Close()
	publish(r, 0, "end", true)
	u, _ := w.Poll(0)
	if u.State != Ready || !u.Closed || !u.UpToDate || !u.Chunk.Closed {
		t.Fatalf("%+v, want the bytes with the close", u)
	}
	if u, _ := w.Poll(3); u.State != AtEnd {
		t.Fatalf("%+v after the last byte, want the end", u)
	}
	// A close of its own turns the last event into the end for those who come late.
	w2 := r.Watch(group, id+1)
	defer w2.Close()
	r.Publish(group, id+1, Event{From: 0, To: 1, Data: []byte("x")})
	r.Publish(group, id+1, Event{From: 1, To: 1, Closed: true})
	if u, _ := w2.Poll(0); !u.Closed || u.Chunk.Closed {
		t.Fatalf("%+v, want a last event that another write closed", u)
	}
}

func TestEndsWakeReadersWithTheirReason(t *testing.T) {
	ends := map[string]struct {
		end    func(r *Registry)
		reason Reason
	}{
		"the stream":    {func(r *Registry) { r.End(group, id, Deleted) }, Deleted},
		"its group":     {func(r *Registry) { r.EndGroup(group, Moved) }, Moved},
		"the node":      {func(r *Registry) { r.EndAll(Stopped) }, Stopped},
		"another group": {func(r *Registry) { r.EndGroup(group+1, Moved) }, 0},
		"another id":    {func(r *Registry) { r.End(group, id+1, Deleted) }, 0},
	}
	for name, e := range ends {
		synctest.Test(t, func(t *testing.T) {
			r := NewRegistry(Limits{})
			w := r.Watch(group, id)
			publish(r, 0, "ab", false)
			done := make(chan struct{})
			got := make(chan Update, 1)
			go func() { got <- w.Next(2, done, nil) }()
			synctest.Wait()
			e.end(r)
			synctest.Wait()
			if e.reason == 0 {
				close(done)
				if u := <-got; u.State != Done {
					t.Fatalf("%s: %+v", name, u)
				}
				return
			}
			if u := <-got; u.State != Ended || u.Reason != e.reason {
				t.Fatalf("%s: %+v", name, u)
			}
			// The watch stays ended, a new one begins anew, and nothing is held.
			publish(r, 2, "cd", false)
			if u, _ := w.Poll(0); u.State != Ended {
				t.Fatalf("%s: an ended watch says %+v", name, u)
			}
			if st := r.Stats(); st.Topics != 0 || st.Bytes != 0 {
				t.Fatalf("%s: %+v held for an ended stream", name, st)
			}
			w2 := r.Watch(group, id)
			w.Close()
			publish(r, 2, "cd", false)
			if u, _ := w2.Poll(2); u.State != Ready {
				t.Fatalf("%s: a new watch says %+v", name, u)
			}
		})
	}
}

func TestWaitEndsByTimerAndDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry(Limits{})
		w := r.Watch(group, id)
		defer w.Close()
		if u := w.Next(0, nil, time.After(time.Minute)); u.State != TimedOut {
			t.Errorf("%+v, want a timeout", u)
		}
		done := make(chan struct{})
		close(done)
		if u := w.Next(0, done, nil); u.State != Done {
			t.Errorf("%+v, want done", u)
		}
	})
}

func TestTopicGoesWithItsLastWatch(t *testing.T) {
	r := NewRegistry(Limits{})
	a, b := r.Watch(group, id), r.Watch(group, id)
	publish(r, 0, "abc", false)
	a.Close()
	a.Close()
	if !r.Watched(group, id) || r.Stats().Bytes != 3 {
		t.Fatalf("%+v with one watch left", r.Stats())
	}
	b.Close()
	if r.Watched(group, id) || r.Stats() != (Stats{}) {
		t.Fatalf("%+v without watches", r.Stats())
	}
	publish(r, 3, "abc", false)
	if r.Stats() != (Stats{}) {
		t.Fatal("an unwatched stream costs memory")
	}
}

func TestWindowIsBounded(t *testing.T) {
	r := NewRegistry(Limits{TopicBytes: 1000, TopicEvents: 10, TotalBytes: 1500})
	w := r.Watch(group, id)
	defer w.Close()
	at := 0
	add := func(n int) {
		publish(r, at, strings.Repeat("x", n), false)
		at += n
	}
	for range 100 {
		add(10)
	}
	if st := r.Stats(); st.Bytes != 100 {
		t.Errorf("%d bytes, want ten events of 10", st.Bytes)
	}
	for range 10 {
		add(300)
	}
	if st := r.Stats(); st.Bytes != 900 {
		t.Errorf("%d bytes, want three events of 300", st.Bytes)
	}
	add(1001)
	if u, _ := w.Poll(uint64(at - 1001)); u.State != Behind {
		t.Errorf("an event above the bound: %+v, want the store", u)
	}
	other := r.Watch(group, id+1)
	defer other.Close()
	r.Publish(group, id+1, Event{From: 0, To: 700, Data: make([]byte, 700)})
	if u, _ := other.Poll(0); u.State != Behind {
		t.Errorf("an event above the node's budget: %+v, want the store", u)
	}
	if st := r.Stats(); st.Bytes > 1500 {
		t.Errorf("%d bytes above the node's bound", st.Bytes)
	}
}

// What a slow reader holds stays charged until it lets go, and is no more than
// the event it is sending.
func TestSlowReaderPinsOneEventAndItIsCharged(t *testing.T) {
	r := NewRegistry(Limits{TopicBytes: 1 << 10, TotalBytes: 16 << 10})
	slow, fast := r.Watch(group, id), r.Watch(group, id)
	defer fast.Close()
	publish(r, 0, strings.Repeat("a", 500), false)
	u, _ := slow.Poll(0)
	if _, ok := u.Chunk.Frame(Base64); !ok {
		t.Fatal("no frame")
	}
	held := r.Stats().Bytes
	for i := 1; i < 100; i++ {
		publish(r, i*500, strings.Repeat("b", 500), false)
		f, ok := fast.Poll(uint64(i * 500))
		if !ok || f.State != Ready || !f.UpToDate {
			t.Fatalf("event %d: the fast reader got %+v", i, f)
		}
		f.Chunk.Release()
	}
	if st := r.Stats(); st.Bytes < held || st.Bytes > held+2*(1<<10) {
		t.Errorf("%d bytes charged, want the held %d and one window", st.Bytes, held)
	}
	if string(u.Chunk.Data()) != strings.Repeat("a", 500) {
		t.Error("the held event changed")
	}
	if s, _ := slow.Poll(500); s.State != Behind {
		t.Errorf("the slow reader is told %+v, want the store", s)
	}
	u.Chunk.Release()
	slow.Close()
	if st := r.Stats(); st.Bytes > 1<<10 {
		t.Errorf("%d bytes after it let go", st.Bytes)
	}
}

func TestFrameIsRefusedWhenItCannotBeShared(t *testing.T) {
	r := NewRegistry(Limits{TotalBytes: 600})
	w := r.Watch(group, id)
	defer w.Close()
	publish(r, 0, "ab\xe2\x82", false)
	u, _ := w.Poll(0)
	if _, ok := u.Chunk.Frame(Text); ok {
		t.Error("text that ends inside a character was framed")
	}
	if _, ok := u.Chunk.Frame(Base64); !ok {
		t.Error("base64 has no characters to keep whole")
	}
	publish(r, 4, "\xe2\x82", true)
	if u, _ = w.Poll(4); u.State != Ready {
		t.Fatal(u)
	}
	if _, ok := u.Chunk.Frame(Text); !ok {
		t.Error("the last bytes of a closed stream wait for nothing")
	}
	publish(r, 6, strings.Repeat("x", 250), false)
	u, _ = w.Poll(6)
	if _, ok := u.Chunk.Frame(Base64); ok {
		t.Error("an encoding above the node's budget was kept")
	}
}

// Readers that watch, read the store and then follow get every byte once, in
// order, whatever races with whatever.
func TestReadersSeeEveryByteOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	r := NewRegistry(Limits{TopicBytes: 256, TopicEvents: 8})
	var mu sync.Mutex // the store
	var store []byte
	var closed bool
	var wg sync.WaitGroup
	for i := range 40 {
		start := rng.IntN(200)
		wg.Go(func() {
			for {
				mu.Lock()
				ready := len(store) >= start
				mu.Unlock()
				if ready {
					break
				}
				runtime.Gosched()
			}
			w := r.Watch(group, id)
			defer w.Close()
			var got []byte
			for {
				mu.Lock()
				got = append(got, store[len(got):]...)
				end := closed
				mu.Unlock()
				for !end {
					u := w.Next(uint64(len(got)), nil, time.After(10*time.Second))
					if u.State != Ready {
						if u.State == TimedOut {
							t.Errorf("reader %d sleeps at %d", i, len(got))
							return
						}
						break
					}
					got = append(got, u.Chunk.Data()...)
					end = u.Closed
					u.Chunk.Release()
				}
				if end {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if !bytes.Equal(got, store) {
				t.Errorf("reader %d has %d bytes that differ from the stream's %d", i, len(got), len(store))
			}
		})
	}
	for i := range 2000 {
		data := bytes.Repeat([]byte{byte(i)}, 1+rng.IntN(40))
		last := i == 1999
		mu.Lock()
		from := len(store)
		store = append(store, data...)
		closed = last
		mu.Unlock()
		// Publishing comes after the commit, so readers may be ahead of it.
		r.Publish(group, id, Event{From: uint64(from), To: uint64(from + len(data)), Data: data, Closed: last})
	}
	wg.Wait()
	if st := r.Stats(); st.Topics != 0 || st.Watches != 0 || st.Bytes != 0 {
		t.Errorf("left behind: %+v", st)
	}
}

func TestIdleReadersAreSmall(t *testing.T) {
	const readers = 10_000
	r := NewRegistry(Limits{})
	measure := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := measure()
	watches := make([]*Watch, readers)
	for i := range watches {
		watches[i] = r.Watch(group, stream.ID(i))
	}
	each := (measure() - before) / readers
	if each > 512 {
		t.Errorf("%d bytes a watched stream, want a few hundred", each)
	}
	t.Logf("%d bytes a watched stream with one reader", each)
	for _, w := range watches {
		w.Close()
	}
}

func BenchmarkPublish(b *testing.B) {
	data := make([]byte, 256)
	b.Run("unwatched", func(b *testing.B) {
		r := NewRegistry(Limits{})
		r.Watch(group+1, id)
		b.ReportAllocs()
		for b.Loop() {
			r.Publish(group, id, Event{From: 0, To: 256, Data: data})
		}
	})
	for _, readers := range []int{1, 1000} {
		b.Run(fmt.Sprintf("readers%d", readers), func(b *testing.B) {
			r := NewRegistry(Limits{})
			var wg sync.WaitGroup
			for range readers {
				w := r.Watch(group, id)
				wg.Go(func() {
					defer w.Close()
					for pos := uint64(0); ; {
						u := w.Next(pos, nil, nil)
						switch u.State {
						case Ready:
							u.Chunk.Frame(Text)
							pos = u.Chunk.To
							u.Chunk.Release()
						case Behind: // as if read from the store
							w.topic.mu.Lock()
							pos = w.topic.tail
							w.topic.mu.Unlock()
						default:
							return
						}
					}
				})
			}
			pos := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				r.Publish(group, id, Event{From: pos, To: pos + 256, Data: data})
				pos += 256
			}
			r.EndAll(Stopped)
			wg.Wait()
		})
	}
}

package basestore

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/stream"
)

func TestOpenRefusesAFormatItDoesNotKnow(t *testing.T) {
	for _, tc := range []struct {
		name string
		harm func(db *pebble.DB) error
		want error
		text string
	}{
		{"a newer format", func(db *pebble.DB) error {
			return db.Set(formatKey(), binary.BigEndian.AppendUint32(nil, formatVersion+1), pebble.Sync)
		}, ErrFormat, "format 2 and this program reads format 1"},
		{"no format number beside data", func(db *pebble.DB) error { return db.Delete(formatKey(), pebble.Sync) }, ErrFormat, "no format number"},
		{"a format number of another size", func(db *pebble.DB) error { return db.Set(formatKey(), []byte{1}, pebble.Sync) }, ErrCorrupt, "1 bytes"},
		{"an applied index of another size", func(db *pebble.DB) error { return db.Set(headKey(1, headApplied), []byte{1}, pebble.Sync) }, ErrCorrupt, "group 1"},
		{"no group record", func(db *pebble.DB) error { return db.Delete(appendKind(nil, 1, 1, kindGroup), pebble.Sync) }, ErrCorrupt, "no group record"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fs := vfs.NewMem()
			s, err := Open(testOptions(fs))
			check(t, err)
			newWorld(1).create(t, s)
			check(t, tc.harm(s.db))
			check(t, s.Close())
			_, err = Open(testOptions(fs))
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("open: %v", err)
			}
		})
	}
}

func TestOpenRefusesTablesOfAnotherMerger(t *testing.T) {
	fs := vfs.NewMem()
	s, err := Open(testOptions(fs))
	check(t, err)
	check(t, s.Close())
	_, err = pebble.Open("base", &pebble.Options{FS: fs, Logger: &pebbleLogger{log: testOptions(fs).Logger, fail: func(error) {}}})
	if err == nil || !strings.Contains(err.Error(), mergerName) {
		t.Fatalf("open with Pebble's own merger: %v", err)
	}
}

func TestLocalFacts(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := openTest(t, testOptions(fs))
	v, err := s.Local("identity")
	check(t, err)
	if v != nil {
		t.Fatalf("an unset fact is %q", v)
	}
	check(t, s.SetLocal("identity", []byte("n1")))
	check(t, s.SetLocal("empty", []byte{}))
	check(t, s.SetLocal("removed", []byte("x")))
	check(t, s.SetLocal("removed", nil))
	s = openTest(t, testOptions(fs.CrashClone(vfs.CrashCloneCfg{})))
	for name, want := range map[string]string{"identity": "n1", "empty": ""} {
		v, err := s.Local(name)
		check(t, err)
		if v == nil || string(v) != want {
			t.Fatalf("%s is %q, want %q", name, v, want)
		}
	}
	if v, err := s.Local("removed"); v != nil || err != nil {
		t.Fatalf("a removed fact is %q, %v", v, err)
	}
}

func TestAClosedStoreAnswersWithAnError(t *testing.T) {
	rng := seeded(t, 1)
	s, err := Open(testOptions(vfs.NewMem()))
	check(t, err)
	w := newWorld(1)
	w.create(t, s)
	b := s.NewBatch()
	before := w.clone()[1]
	w[1].step(rng)
	w[1].change(t, b, 1, before, rng)
	loader := s.Loader(1)
	check(t, s.Close())
	check(t, s.Close())
	_, lookup := loader.Lookup(modelKey(0))
	_, read := s.ReadBytes(nil, 1, 1, 0, 1)
	_, sync := s.Sync()
	_, local := s.Local("x")
	_, replicas := s.Replicas()
	for name, err := range map[string]error{
		"lookup": lookup, "read": read, "sync": sync, "local": local, "replicas": replicas,
		"commit":  b.Commit(),
		"set":     s.SetLocal("x", nil),
		"create":  s.CreateReplica(Replica{2, 1}, stream.Group{}),
		"destroy": s.DestroyReplica(Replica{1, 1}),
		"apply":   s.NewBatch().Apply(1, &stream.Mutations{}),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.Stats() != (Stats{}) {
		t.Error("stats of a closed store")
	}
}

func TestAMissingGroupAnswersWithAnError(t *testing.T) {
	s := openTest(t, testOptions(vfs.NewMem()))
	l := s.Loader(3)
	_, g := l.Group()
	_, st := l.Stream(1)
	_, pr := l.Producer(1, "p")
	_, lk := s.Lookup(3, modelKey(1))
	_, rd := s.ReadBytes(nil, 3, 1, 0, 1)
	_, rp := s.Replica(3)
	for name, err := range map[string]error{
		"group": g, "stream": st, "producer": pr, "lookup": lk, "read": rd, "replica": rp,
		"apply": s.NewBatch().Apply(3, &stream.Mutations{}),
		"blob":  s.NewBatch().PutBlob(3, nil, nil),
	} {
		if !errors.Is(err, ErrNoReplica) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if v, err := s.Blob(3, []byte("k")); v != nil || err != nil {
		t.Errorf("blob of a missing group: %q, %v", v, err)
	}
}

func TestABatchIsUsedOnce(t *testing.T) {
	s := openTest(t, testOptions(vfs.NewMem()))
	newWorld(1).create(t, s)
	b := s.NewBatch()
	check(t, b.PutBlob(1, []byte("k"), []byte("v")))
	check(t, b.Commit())
	b.Discard()
	if err := b.Commit(); err == nil {
		t.Fatal("committed twice")
	}
	if err := b.PutBlob(1, []byte("k"), nil); err == nil {
		t.Fatal("used after commit")
	}
	d := s.NewBatch()
	check(t, d.DeleteBlob(1, []byte("k")))
	d.Discard()
	v, err := s.Blob(1, []byte("k"))
	check(t, err)
	if string(v) != "v" {
		t.Fatalf("a discarded batch changed the blob to %q", v)
	}
	d = s.NewBatch()
	check(t, d.DeleteBlob(1, []byte("k")))
	check(t, d.Commit())
	if v, err := s.Blob(1, []byte("k")); v != nil || err != nil {
		t.Fatalf("deleted blob is %q, %v", v, err)
	}
	check(t, s.NewBatch().Commit())
}

// TestTrapS7_ViewsSurviveExciseAtThePinnedFormat replaces a group's range by an
// ingest with excise, as a transfer will, under a view of it.
func TestTrapS7_ViewsSurviveExciseAtThePinnedFormat(t *testing.T) {
	rng := seeded(t, 7)
	fs := vfs.NewMem()
	s := openTest(t, testOptions(fs))
	w := newWorld(1, 2)
	w.create(t, s)
	for range 20 {
		check(t, w.turn(t, s, rng))
	}
	if got := s.db.FormatMajorVersion(); got != pebbleFormat || got < 16 {
		t.Fatalf("format %d", got)
	}
	start, end := groupSpan(1)
	span := pebble.KeyRange{Start: start, End: end}
	want, err := s.get(s.db, headKey(1, headApplied))
	check(t, err)
	view := s.db.NewEventuallyFileOnlySnapshot([]pebble.KeyRange{span})
	defer func() { check(t, view.Close()) }()

	f, err := fs.Create("incoming.sst", vfs.WriteCategoryUnspecified)
	check(t, err)
	tw := sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{
		TableFormat: s.db.TableFormat(), MergerName: mergerName, Comparer: pebble.DefaultComparer,
	})
	incoming := appendApplied(nil, 1, 1000, 9)
	check(t, tw.Set(headKey(1, headApplied), incoming))
	check(t, tw.Close())
	_, err = s.db.IngestAndExcise(context.Background(), []string{"incoming.sst"}, nil, nil, span)
	check(t, err)

	if keys := groupKeys(t, s, 1); len(keys) != 1 {
		t.Fatalf("after the excise the group has keys %q", keys)
	}
	got, err := s.get(s.db, headKey(1, headApplied))
	check(t, err)
	if string(got) != string(incoming) {
		t.Fatalf("applied after the ingest: %x", got)
	}
	seen, err := s.get(view, headKey(1, headApplied))
	check(t, err)
	if string(seen) != string(want) {
		t.Fatalf("the view sees %x, want %x", seen, want)
	}
	checkGroup(t, s, 2, w[2])
}

func TestTrapS6_TheCallersBytesStayUnchanged(t *testing.T) {
	s := openTest(t, testOptions(vfs.NewMem()))
	newWorld(1).create(t, s)
	data := []byte(strings.Repeat("payload ", 40000))
	want := string(data)
	b := s.NewBatch()
	check(t, b.Apply(1, &stream.Mutations{Appends: []stream.Append{{Stream: 1, Data: data}}}))
	check(t, b.Commit())
	_, err := s.Sync()
	check(t, err)
	check(t, s.db.Flush())
	if string(data) != want {
		t.Fatal("the bytes of an append changed")
	}
}

package basestore

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/stream"
)

func TestReplicaLife(t *testing.T) {
	old, next := Replica{5, 3}, Replica{5, 9}
	for _, tc := range []struct {
		name string
		do   func(s *Store) error
		want error
	}{
		{"a new replica is created", func(s *Store) error { return s.CreateReplica(Replica{6, 1}, stream.Group{}) }, nil},
		{"a born replica is not created again", func(s *Store) error { return s.CreateReplica(old, stream.Group{}) }, ErrBorn},
		{"a group has one replica", func(s *Store) error { return s.CreateReplica(next, stream.Group{}) }, ErrBorn},
		{"a destroyed replica is not created again", func(s *Store) error {
			return errors.Join(s.DestroyReplica(old), s.CreateReplica(old, stream.Group{}))
		}, ErrTombstoned},
		{"an id below a tombstone is not created", func(s *Store) error {
			return errors.Join(s.DestroyReplica(old), s.CreateReplica(Replica{5, 2}, stream.Group{}))
		}, ErrTombstoned},
		{"a later replica follows a destroyed one", func(s *Store) error {
			return errors.Join(s.DestroyReplica(old), s.CreateReplica(next, stream.Group{}))
		}, nil},
		{"destroying twice does nothing", func(s *Store) error {
			return errors.Join(s.DestroyReplica(old), s.DestroyReplica(old))
		}, nil},
		{"destroying one that never was leaves a tombstone", func(s *Store) error {
			return errors.Join(s.DestroyReplica(Replica{8, 4}), s.CreateReplica(Replica{8, 4}, stream.Group{}))
		}, ErrTombstoned},
		{"destroying a later replica than the node holds is refused", func(s *Store) error { return s.DestroyReplica(next) }, ErrNoReplica},
		{"destroying an earlier replica leaves the live one", func(s *Store) error {
			err := s.DestroyReplica(Replica{5, 2})
			_, lerr := s.Replica(5)
			return errors.Join(err, lerr)
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			s := openTest(t, testOptions(fs))
			check(t, s.CreateReplica(old, stream.Group{Histories: []uint64{1}}))
			err := tc.do(s)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			// All of it is durable: what a power loss leaves says the same.
			want, err := s.Replicas()
			check(t, err)
			got, err := openTest(t, testOptions(fs.CrashClone(vfs.CrashCloneCfg{}))).Replicas()
			check(t, err)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
		})
	}
}

// TestTrapS3_NoCrashGivesADestroyedReplicasStateToTheNext destroys a replica,
// loses power at once, and creates the group's next replica.
func TestTrapS3_NoCrashGivesADestroyedReplicasStateToTheNext(t *testing.T) {
	for _, percent := range []int{0, 50, 100} {
		rng := seeded(t, uint64(percent))
		fs := vfs.NewCrashableMem()
		w := newWorld(1, 2)
		s := openTest(t, testOptions(fs))
		w.create(t, s)
		for range 30 {
			check(t, w.turn(t, s, rng))
		}
		loader := s.Loader(1)
		check(t, s.DestroyReplica(Replica{1, 1}))
		if _, err := loader.Lookup(modelKey(0)); !errors.Is(err, ErrNoReplica) {
			t.Fatalf("lookup after destroy: %v", err)
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		s = openTest(t, testOptions(crashed))
		if keys := groupKeys(t, s, 1); len(keys) != 0 {
			t.Fatalf("keys left: %q", keys)
		}
		if err := s.CreateReplica(Replica{1, 1}, stream.Group{}); !errors.Is(err, ErrTombstoned) {
			t.Fatalf("create of the destroyed replica: %v", err)
		}
		w[1] = newWorldGroup(7)
		check(t, s.CreateReplica(Replica{1, 7}, w[1].record))
		b := s.NewBatch()
		if err := b.Mark(1, 1, 5, 5, nil); !errors.Is(err, ErrNoReplica) {
			t.Fatalf("mark of the destroyed replica: %v", err)
		}
		b.Discard()
		checkGroup(t, s, 1, w[1])
		w1 := world{1: w[1]}
		check(t, w1.turn(t, s, rng))
		checkGroup(t, s, 1, w[1])
	}
}

func TestABatchCannotWriteIntoAReplicaThatWasDestroyedMeanwhile(t *testing.T) {
	rng := seeded(t, 5)
	s := openTest(t, testOptions(vfs.NewMem()))
	w := newWorld(1, 2)
	w.create(t, s)
	b := s.NewBatch()
	for id := range w {
		before := world{id: w[id]}.clone()[id]
		w[id].step(rng)
		w[id].change(t, b, id, before, rng)
	}
	check(t, s.DestroyReplica(Replica{2, 1}))
	if err := b.Commit(); !errors.Is(err, ErrNoReplica) {
		t.Fatalf("commit: %v", err)
	}
	if keys := groupKeys(t, s, 2); len(keys) != 0 {
		t.Fatalf("keys left: %q", keys)
	}
	checkGroup(t, s, 1, newWorldGroup(1))
}

func TestTrapR4_ABornReplicaWhoseDataIsMissingIsReportedAndNeverRecreated(t *testing.T) {
	for _, tc := range []struct {
		name string
		harm func(b *pebble.Batch)
	}{
		{"its range is gone", func(b *pebble.Batch) {
			start, end := groupSpan(1)
			must(b.DeleteRange(start, end, nil))
		}},
		{"its range holds another replica's state", func(b *pebble.Batch) {
			set(b, headKey(1, headApplied), appendApplied(nil, 2, 10, 1))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fs := vfs.NewMem()
			s, err := Open(testOptions(fs))
			check(t, err)
			newWorld(1, 2).create(t, s)
			b := s.db.NewBatch()
			tc.harm(b)
			check(t, b.Commit(pebble.Sync))
			check(t, s.Close())
			s = openTest(t, testOptions(fs))
			states, err := s.Replicas()
			check(t, err)
			if len(states) != 2 || !states[0].Lost || states[1].Lost || states[0].Replica != (Replica{1, 1}) {
				t.Fatalf("replicas %+v", states)
			}
			if err := s.CreateReplica(Replica{1, 1}, stream.Group{}); !errors.Is(err, ErrBorn) {
				t.Fatalf("create: %v", err)
			}
			if _, err := s.Loader(1).Group(); !errors.Is(err, ErrNoReplica) {
				t.Fatalf("loader of a lost replica: %v", err)
			}
			check(t, s.DestroyReplica(Replica{1, 1}))
			check(t, s.CreateReplica(Replica{1, 2}, stream.Group{}))
		})
	}
}

func TestTrapH1_AnotherGenerationIsInvisibleUntilThePointerNamesIt(t *testing.T) {
	rng := seeded(t, 6)
	fs := vfs.NewMem()
	s, err := Open(testOptions(fs))
	check(t, err)
	w := newWorld(1)
	w.create(t, s)
	for range 20 {
		check(t, w.turn(t, s, rng))
	}
	// An import fills generation 2 with a stream of the same id and other bytes.
	rec := stream.Stream{ID: 1, Key: stream.Key{Bucket: "imported", Stream: "x"}, Tail: 3}
	b := s.db.NewBatch()
	set(b, appendKind(nil, 1, 2, kindGroup), stream.AppendGroup(nil, &stream.Group{LastID: 1}))
	set(b, appendName(nil, 1, 2, rec.Key), binary.BigEndian.AppendUint64(nil, 1))
	set(b, appendStreamKind(nil, 1, 2, kindStream, 1), stream.AppendStream(nil, &rec))
	must(b.Merge(appendBlockKey(nil, 1, 2, 1, 0), []byte("new"), nil))
	check(t, b.Commit(pebble.Sync))
	checkGroup(t, s, 1, w[1])
	if got, err := s.Lookup(1, rec.Key); got != nil || err != nil {
		t.Fatalf("the staged stream is visible: %v, %v", got, err)
	}
	check(t, s.db.Set(headKey(1, headPointer), binary.BigEndian.AppendUint32(nil, 2), pebble.Sync))
	check(t, s.Close())
	s = openTest(t, testOptions(fs))
	st, err := s.Replica(1)
	check(t, err)
	if st.Generation != 2 || st.Applied.Index != w[1].applied.Index {
		t.Fatalf("replica %+v", st)
	}
	got, err := s.Lookup(1, rec.Key)
	check(t, err)
	if d := cmp.Diff(&rec, got); d != "" {
		t.Fatal(d)
	}
	data, err := s.ReadBytes(nil, 1, 1, 0, 3)
	check(t, err)
	if string(data) != "new" {
		t.Fatalf("read %q", data)
	}
	for n := range modelNames {
		if got, err := s.Lookup(1, modelKey(n)); got != nil || err != nil {
			t.Fatalf("old generation's %v is visible: %v, %v", modelKey(n), got, err)
		}
	}
}

func TestMark(t *testing.T) {
	s := openTest(t, testOptions(vfs.NewMem()))
	newWorld(1).create(t, s)
	conf := &raftpb.ConfState{Voters: []uint64{1, 2}}
	b := s.NewBatch()
	check(t, b.Mark(1, 1, 10, 2, conf))
	conf.Voters[0] = 99
	check(t, b.Mark(1, 1, 12, 3, nil))
	check(t, b.Commit())
	b = s.NewBatch()
	defer b.Discard()
	if err := b.Mark(1, 1, 11, 3, nil); err == nil {
		t.Fatal("the applied index went back")
	}
	if err := b.Mark(1, 2, 13, 3, nil); !errors.Is(err, ErrNoReplica) {
		t.Fatalf("mark of another replica: %v", err)
	}
	if err := b.Mark(2, 1, 13, 3, nil); !errors.Is(err, ErrNoReplica) {
		t.Fatalf("mark of an unknown group: %v", err)
	}
	st, err := s.Replica(1)
	check(t, err)
	want := Applied{Index: 12, Term: 3, Conf: raftpb.ConfState{Voters: []uint64{1, 2}}}
	if d := cmp.Diff(want, st.Applied); d != "" {
		t.Fatal(d)
	}
}

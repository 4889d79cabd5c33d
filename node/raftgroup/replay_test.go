package raftgroup

import (
	"testing"
	"time"
)

func TestAReplicaIsReplayingUntilItHasAppliedWhatWasCommittedBeforeTheStart(t *testing.T) {
	w := newWorld(t, 5, 1, 1)
	w.must(10*time.Second, "a leader", func() bool { return w.leader(0) == 0 })
	for range 20 {
		c := w.append(0, 0, 16)
		w.must(10*time.Second, "a write", func() bool { return c.ok })
	}
	n := w.nodes[0]
	n.crash(true)
	n.machine = newToyMachine() // nothing of the applied state was durable
	n.start()
	if s := n.host.Status(0); !s.Replaying || s.Applied >= s.Commit {
		t.Errorf("before the replay: %+v", s)
	}
	w.must(10*time.Second, "the replay", func() bool { return !n.host.Status(0).Replaying })
	if got := len(n.machine.list(0)); got < 20 {
		t.Errorf("replayed %d of 20 writes", got)
	}
}

// At a start every group may have megabytes to apply; taken together they would
// not fit into a small node's memory.
func TestOneBatchOfAReplayIsBoundedHoweverManyGroupsThereAre(t *testing.T) {
	const groups, size = 12, 48 << 10
	w := newWorld(t, 6, 1, groups)
	perGroup := applyRead/size + 8
	for _, g := range w.groups {
		w.must(10*time.Second, "a leader", func() bool { return w.leader(g) == 0 })
		for range perGroup {
			c := w.append(0, g, size)
			w.must(10*time.Second, "a write", func() bool { return c.ok })
		}
	}
	n := w.nodes[0]
	n.crash(true)
	n.machine = newToyMachine()
	n.start()
	for _, g := range w.groups {
		w.must(10*time.Second, "the replay", func() bool { return !n.host.Status(g).Replaying })
		if got := len(n.machine.list(g)); got < perGroup {
			t.Errorf("group %d: replayed %d of %d writes", g, got, perGroup)
		}
	}
	if limit := 16 << 20; n.machine.largest > limit {
		t.Errorf("one batch took %d bytes, more than %d", n.machine.largest, limit)
	}
}

package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

type sendFunc func([]Message)

func (f sendFunc) Send(m []Message) { f(m) }

// trio is a cluster under the production drive: goroutines and a real log.
type trio struct {
	hosts [3]atomic.Pointer[Host]
}

func (c *trio) start(t *testing.T, i int, groups int) *toyMachine {
	t.Helper()
	log, recovery, err := wal.Open(wal.Options{FS: vfs.NewMem(), Dir: "wal", Cluster: 1, SegmentBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	writer := wal.StartWriter(log, func(err error) { t.Error(err) })
	machine := newToyMachine()
	h, err := NewHost(Config{
		Shards: 2, Tick: 10 * time.Millisecond, WAL: log, Recovery: recovery, Machine: machine,
		Send: sendFunc(func(msgs []Message) {
			for _, m := range msgs {
				data, _ := m.Message.Marshal()
				var copied raftpb.Message
				_ = copied.Unmarshal(data)
				if to := c.hosts[nodeOf(m.Group, m.To)].Load(); to != nil {
					to.Step(m.Group, m.To, copied)
				}
			}
		}),
		OnFatal: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.hosts[i].Store(nil)
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		writer.Stop()
		_ = log.Close()
	})
	c.hosts[i].Store(h)
	for g := range groups {
		id := GroupID(g)
		conf := &raftpb.ConfState{Voters: []uint64{replicaOf(id, 0), replicaOf(id, 1), replicaOf(id, 2)}}
		if err := h.Start(Replica{Group: id, ID: replicaOf(id, i), Genesis: conf}); err != nil {
			t.Fatal(err)
		}
	}
	return machine
}

func TestGoroutinesDriveThreeNodes(t *testing.T) {
	const groups, writers, each = 4, 16, 40
	c := &trio{}
	var machines [3]*toyMachine
	for i := range c.hosts {
		machines[i] = c.start(t, i, groups)
	}
	c.hosts[0].Load().Campaign(0)
	var next, acked atomic.Uint64
	var wg sync.WaitGroup
	for k := range writers {
		wg.Go(func() {
			g := GroupID(k % groups)
			for done := 0; done < each; {
				h := c.hosts[rand.IntN(3)].Load()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				if rand.IntN(50) == 0 {
					cancel() // a client that goes away at once
				}
				_, err := h.Propose(ctx, g, command(next.Add(1), 0), []byte("payload"))
				if err == nil {
					acked.Add(1)
					done++
					err = h.ReadIndex(ctx, g)
				}
				cancel()
				if err != nil && t.Context().Err() != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for g := range GroupID(groups) {
		for {
			l := [3][]uint64{machines[0].list(g), machines[1].list(g), machines[2].list(g)}
			if len(l[0]) == len(l[1]) && len(l[1]) == len(l[2]) && fmt.Sprint(l[0]) == fmt.Sprint(l[1]) && fmt.Sprint(l[1]) == fmt.Sprint(l[2]) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("group %d: %d, %d, %d applied", g, len(l[0]), len(l[1]), len(l[2]))
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if acked.Load() != writers*each {
		t.Fatalf("%d acknowledged", acked.Load())
	}
	st := c.hosts[0].Load().Stats()
	if st.Groups != groups || st.MailboxBytes < 0 {
		t.Fatalf("%+v", st)
	}
}

func TestCancelledCallsSayWhatIsKnown(t *testing.T) {
	w := newWorld(t, 50, 3, 1)
	l := w.lead(0)
	host := w.nodes[l].host
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Never taken by the shard: a refusal.
	if _, err := host.Propose(ctx, 0, command(1, 0), nil); !errors.Is(err, ErrBusy) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// Proposed: unknown.
	w.cutOff(l)
	p, err := host.proposal(0, command(2, 0), nil, w.now.Add(time.Hour))
	if err != nil || !p.group.shard.box.call(p) {
		t.Fatal(err)
	}
	w.step()
	if _, err := p.wait(ctx); !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := host.Propose(t.Context(), 99, nil, nil); !errors.Is(err, ErrNoReplica) {
		t.Fatal(err)
	}
	w.heal()
	if got := w.nodes[w.lead(0)].machine.list(0); len(got) > 0 && got[0] == 1 {
		t.Fatal("a refused command was applied")
	}
}

package raftgroup

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

// world is a cluster driven by one loop from a seed: virtual time, a network
// that delays, loses, repeats and reorders, disks that lose what was not synced.
type world struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	now    time.Time
	size   int
	voters int // nodes that the genesis names
	nodes  []*simNode
	groups []GroupID
	net    []packet
	sent   int
	cut    map[[2]int]bool
	trace  hash.Hash64
	log    bytes.Buffer // of debugging lines, printed on failure
	event  int          // orders what clients see
	calls  []*simCall
	nextID uint64
	// loss and repeat are percentages; syncs is how often a disk syncs, in percent.
	loss, repeat, syncs int
	maxDelay            time.Duration
	uncommitted         int64 // per group; counts from a node's next start
	fatal               error
}

type packet struct {
	at    time.Time
	seq   int
	node  int
	group GroupID
	data  []byte
}

type simNode struct {
	w       *world
	i       int
	fs      *vfs.MemFS
	log     *wal.Log
	machine *toyMachine
	host    *Host
	up      bool
	stalled bool // its disk does not sync
	boot    uint64
	skew    time.Duration
}

// simCall is one client call as a history: when it began, when it ended.
type simCall struct {
	p          *Pending
	node       int
	group      GroupID
	id         uint64 // of an append; 0 for a read
	began      int
	ended      int // 0: still open
	pos        int // position of an append, length seen by a read
	ok         bool
	wrong      error
	boot       uint64
	isPending  bool
	deadlineAt time.Time
}

const simTick = 20 * time.Millisecond

var simEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(t *testing.T, seed uint64, nodes, groups int) *world {
	return newWorldWith(t, seed, nodes, min(nodes, 3), groups)
}

// newWorldWith starts nodes of which the first voters are named by the genesis.
func newWorldWith(t *testing.T, seed uint64, nodes, voters, groups int) *world {
	w := &world{
		t: t, seed: seed, size: nodes, voters: voters, rng: rand.New(rand.NewPCG(seed, 1)), now: simEpoch,
		cut: map[[2]int]bool{}, trace: fnv.New64a(), nextID: 1,
		syncs: 80, maxDelay: 10 * time.Millisecond, uncommitted: 256 << 10,
	}
	for g := range groups {
		w.groups = append(w.groups, GroupID(g))
	}
	for i := range nodes {
		n := &simNode{w: w, i: i, fs: vfs.NewCrashableMem(), machine: newToyMachine()}
		w.nodes = append(w.nodes, n)
		n.start()
	}
	return w
}

// replicaOf is the raft id of a node's replica of a group.
func replicaOf(g GroupID, node int) uint64 { return uint64(g)*100 + uint64(node) + 1 }

func nodeOf(g GroupID, replica uint64) int { return int(replica-uint64(g)*100) - 1 }

func (w *world) genesis(g GroupID) *raftpb.ConfState {
	conf := &raftpb.ConfState{}
	for i := range w.voters {
		conf.Voters = append(conf.Voters, replicaOf(g, i))
	}
	return conf
}

func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	fmt.Fprintln(w.trace, line)
	if w.log.Len() < 4<<20 {
		fmt.Fprintf(&w.log, "%v %s\n", w.now.Sub(simEpoch), line)
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, n := range w.nodes {
		for _, g := range w.groups {
			if s := n.host.Status(g); n.up {
				w.t.Logf("node %d: %v", n.i, s)
			}
		}
	}
	w.t.Fatalf("seed %d at %v: %s", w.seed, w.now.Sub(simEpoch), fmt.Sprintf(format, args...))
}

func (n *simNode) start() {
	w := n.w
	n.boot++
	salt := rand.New(rand.NewPCG(w.seed, uint64(n.i)<<32|n.boot))
	log, recovery, err := wal.Open(wal.Options{
		FS: n.fs, Dir: "wal", Cluster: 7, SegmentBytes: 256 << 10, MaxWriteBytes: 64 << 10, Salt: salt.Uint64,
	})
	if err != nil {
		w.fail("node %d: open the log: %v", n.i, err)
	}
	n.log = log
	n.host, err = NewHost(Config{
		Manual: true, Shards: 1, Tick: simTick, Seed: salt.Uint64() | 1, Nonce: salt.Uint64() | 1,
		WAL: log, Recovery: recovery, Machine: n.machine, Send: n,
		GroupCacheBytes: 4 << 10, CacheBytes: 8 << 10, UncommittedBytes: w.uncommitted,
		Clock:    func() time.Time { return w.now.Add(n.skew) },
		Logger:   slog.New(slog.DiscardHandler),
		OnStatus: func(s Status) { w.note("node %d: %v", n.i, s) },
		OnFatal:  func(err error) { w.fatal = fmt.Errorf("node %d: %w", n.i, err) },
	})
	if err != nil {
		w.fail("node %d: %v", n.i, err)
	}
	n.up = true
	for _, g := range w.groups {
		if err := n.host.Start(Replica{Group: g, ID: replicaOf(g, n.i), Genesis: w.genesis(g)}); err != nil {
			w.fail("node %d: %v", n.i, err)
		}
	}
}

// crash stops a node. keep is whether the page cache survives (a process that
// is killed) or not (a power loss); the base store loses some commits anyway.
func (n *simNode) crash(keep bool) {
	w := n.w
	w.note("crash of node %d, keep %v", n.i, keep)
	percent := 0
	if keep {
		percent = 100
	}
	n.fs = n.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 1))})
	n.machine = n.machine.crash(w.rng.IntN)
	n.up = false
	_ = n.host.Stop(context.Background())
	_ = n.log.Close()
}

// Send puts messages on the network.
func (n *simNode) Send(msgs []Message) {
	w := n.w
	for i := range msgs {
		m := &msgs[i]
		data, err := m.Message.Marshal()
		if err != nil {
			w.fail("marshal: %v", err)
		}
		to := nodeOf(m.Group, m.To)
		fmt.Fprintf(w.trace, "send %d->%d %s\n", n.i, to, hex.EncodeToString(data))
		if to >= len(w.nodes) || w.cut[[2]int{n.i, to}] || w.rng.IntN(100) < w.loss {
			continue
		}
		copies := 1
		if w.rng.IntN(100) < w.repeat {
			copies = 2
		}
		for range copies {
			delay := time.Duration(w.rng.Int64N(int64(w.maxDelay)))
			w.sent++
			w.net = append(w.net, packet{w.now.Add(delay), w.sent, to, m.Group, data})
		}
	}
}

// step advances the world by 5 ms.
func (w *world) step() {
	w.now = w.now.Add(5 * time.Millisecond)
	var due []packet
	w.net = slices.DeleteFunc(w.net, func(p packet) bool {
		if p.at.After(w.now) {
			return false
		}
		due = append(due, p)
		return true
	})
	slices.SortFunc(due, func(a, b packet) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.seq - b.seq
	})
	for _, p := range due {
		if n := w.nodes[p.node]; n.up {
			var m raftpb.Message
			if err := m.Unmarshal(p.data); err != nil {
				w.fail("unmarshal: %v", err)
			}
			n.host.Step(p.group, m.To, m)
		}
	}
	for _, n := range w.nodes {
		n.turn()
		if n.up && !n.stalled && w.rng.IntN(100) < w.syncs {
			if _, err := n.log.Flush(); err != nil {
				w.fail("flush: %v", err)
			}
			n.turn()
		}
	}
	if w.fatal != nil {
		w.fail("fatal: %v", w.fatal)
	}
	w.poll()
}

func (n *simNode) turn() {
	for range 100 {
		if !n.up || !n.host.Turn(n.w.now.Add(n.skew)) {
			return
		}
	}
	n.w.fail("node %d: a turn does not end", n.i)
}

// run steps until cond holds, for at most d.
func (w *world) run(d time.Duration, cond func() bool) bool {
	for end := w.now.Add(d); w.now.Before(end); {
		if cond != nil && cond() {
			return true
		}
		w.step()
	}
	return cond == nil || cond()
}

func (w *world) must(d time.Duration, what string, cond func() bool) {
	w.t.Helper()
	if !w.run(d, cond) {
		w.fail("not within %v: %s", d, what)
	}
}

// leader returns the node that leads a group with the highest term; -1 for none.
func (w *world) leader(g GroupID) int {
	best, term := -1, uint64(0)
	for i, n := range w.nodes {
		if !n.up {
			continue
		}
		if s := n.host.Status(g); s.Role == Leader && s.Term > term {
			best, term = i, s.Term
		}
	}
	return best
}

func (w *world) append(node int, g GroupID, size int) *simCall {
	id := w.nextID
	w.nextID++
	cmd := command(id, size)
	return w.track(node, g, id, w.nodes[node].host.ProposeAsync(g, cmd[:8], cmd[8:], w.now.Add(2*time.Second)))
}

func (w *world) read(node int, g GroupID) *simCall {
	return w.track(node, g, 0, w.nodes[node].host.ReadIndexAsync(g, w.now.Add(2*time.Second)))
}

func (w *world) track(node int, g GroupID, id uint64, p *Pending) *simCall {
	w.event++
	c := &simCall{p: p, node: node, group: g, id: id, began: w.event, boot: w.nodes[node].boot, isPending: true, deadlineAt: w.now.Add(2 * time.Second)}
	w.calls = append(w.calls, c)
	return c
}

func (w *world) poll() {
	for _, c := range w.calls {
		if !c.isPending {
			continue
		}
		v, err, ended := c.p.Poll()
		if !ended {
			if w.nodes[c.node].boot == c.boot && w.nodes[c.node].up && w.now.After(c.deadlineAt.Add(10*simTick)) {
				w.fail("a call on node %d did not end by its deadline", c.node)
			}
			continue
		}
		w.event++
		c.isPending, c.ended, c.wrong = false, w.event, err
		if err == nil {
			c.ok = true
			if c.id == 0 {
				c.pos = len(w.nodes[c.node].machine.list(c.group))
			} else {
				c.pos = v.(int)
			}
		}
		fmt.Fprintf(w.trace, "call %d on %d: %d %v\n", c.id, c.node, c.pos, err)
	}
}

// heal ends all faults and waits until all replicas of a configuration agree.
func (w *world) heal() {
	w.loss, w.repeat, w.syncs = 0, 0, 100
	clear(w.cut)
	for _, n := range w.nodes {
		n.skew, n.stalled = 0, false
		n.host.SetClockSuspect(false)
		if !n.up {
			n.start()
		}
	}
	for _, g := range w.groups {
		var last *simCall
		w.must(60*time.Second, fmt.Sprintf("group %d takes a write", g), func() bool {
			if last != nil && last.ok {
				return true
			}
			if l := w.leader(g); l >= 0 && (last == nil || !last.isPending) {
				last = w.append(l, g, 8)
			}
			return false
		})
	}
	w.must(60*time.Second, "replicas agree", func() bool {
		for _, g := range w.groups {
			l := w.leader(g)
			if l < 0 {
				return false
			}
			want := w.nodes[l].host.Status(g).Applied
			for _, i := range w.members(g) {
				if w.nodes[i].host.Status(g).Applied != want {
					return false
				}
			}
		}
		return true
	})
	w.run(3*time.Second, nil) // every call ends
}

// check holds the history against the state that all replicas agree on.
func (w *world) check(nodes func(g GroupID) []int) {
	for _, g := range w.groups {
		var list []uint64
		for k, i := range nodes(g) {
			l := w.nodes[i].machine.list(g)
			if k > 0 && !slices.Equal(l, list) {
				w.fail("group %d: replicas differ: %d and %d entries", g, len(list), len(l))
			}
			list = l
		}
		w.checkGroup(g, list)
	}
}

func (w *world) checkGroup(g GroupID, list []uint64) {
	at := map[uint64]int{}
	for i, id := range list {
		if _, twice := at[id]; twice {
			w.fail("group %d: %d is there twice", g, id)
		}
		at[id] = i
	}
	type edge struct {
		event int
		call  *simCall
		end   bool
	}
	var edges []edge
	for _, c := range w.calls {
		if c.group != g {
			continue
		}
		pos, there := at[c.id]
		switch {
		case c.isPending && w.nodes[c.node].boot == c.boot:
			w.fail("group %d: call %d never ended", g, c.id)
		case c.id != 0 && c.ok && (!there || pos != c.pos):
			w.fail("group %d: acknowledged %d at %d is lost or moved (%v, %d)", g, c.id, c.pos, there, pos)
		case c.id != 0 && c.wrong != nil && refusedOutcome(c.wrong) && there:
			w.fail("group %d: %d was refused (%v) and is there", g, c.id, c.wrong)
		}
		if c.id != 0 && there {
			c.pos = pos
		} else if !c.ok {
			continue
		}
		edges = append(edges, edge{c.began, c, false})
		if c.ok {
			edges = append(edges, edge{c.ended, c, true})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return a.event - b.event })
	// floor is what everyone who begins now must see: the list's length at the
	// latest point that a finished call proves.
	floor := 0
	for _, e := range edges {
		if e.end {
			n := e.call.pos
			if e.call.id != 0 {
				n++
			}
			floor = max(floor, n)
			continue
		}
		if e.call.pos < floor {
			w.fail("group %d: call %d began after length %d was seen and took place at %d", g, e.call.id, floor, e.call.pos)
		}
	}
}

func refusedOutcome(err error) bool {
	for _, r := range []error{ErrNoReplica, ErrNotLeader, ErrBusy, ErrApplyStopped} {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}

package raftgroup

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

// Config of a Host. WAL, Machine and Send are required.
type Config struct {
	// Shards is how many goroutines share the groups; 0 means one, and one more
	// for every four CPUs.
	Shards int
	// Tick is Raft's unit of time, 100 ms when 0. An election starts after
	// ElectionTicks (10) to twice as many without a leader; a leader is heard of
	// every HeartbeatTicks (2).
	Tick           time.Duration
	ElectionTicks  int
	HeartbeatTicks int
	// Timeout is the deadline of calls whose context has none, 10 s when 0.
	Timeout time.Duration

	WAL WAL
	// Recovery is what the log held when it was opened.
	Recovery *wal.Recovery
	Machine  Machine
	Send     Sender
	// Clock is time.Now when nil. Ticks and deadlines go by it.
	Clock func() time.Time
	// Stamp is the wall clock that leaders stamp with, in milliseconds since the
	// Unix epoch; Clock's when nil. It is called by a shard right before it looks
	// whether it may propose, so that SetClockSuspect within it comes in time.
	Stamp func() int64
	// Seed decides election timeouts; random when 0.
	Seed uint64
	// Nonce tells this start of the node from all others; random when 0.
	Nonce uint64
	// Manual: no goroutines; the owner calls Turn.
	Manual bool

	// MailboxBytes bounds what waits for one shard, 64 MiB when 0.
	MailboxBytes int64
	// UncommittedBytes bounds a group's proposed and unapplied entries, 64 MiB
	// when 0. One entry is always admitted.
	UncommittedBytes int64
	// CacheBytes and GroupCacheBytes bound the entries kept in memory for the
	// node (64 MiB when 0) and for one group (8 MiB when 0).
	CacheBytes, GroupCacheBytes int64

	Logger *slog.Logger
	// OnStatus is called by a shard when leader, term, role or ApplyStopped of a
	// group changed. It must not block, nor call the Host.
	OnStatus func(Status)
	// OnFatal is called once, with the error after which the node must stop: the
	// log or the base store failed, or Raft found its rules broken.
	OnFatal func(error)
}

func (c *Config) fill() error {
	if c.WAL == nil || c.Machine == nil || c.Send == nil {
		return errors.New("raftgroup: WAL, Machine and Send are required")
	}
	def(&c.Shards, 1+runtime.GOMAXPROCS(0)/4)
	def(&c.Tick, 100*time.Millisecond)
	def(&c.ElectionTicks, 10)
	def(&c.HeartbeatTicks, 2)
	def(&c.Timeout, 10*time.Second)
	def(&c.MailboxBytes, 64<<20)
	def(&c.UncommittedBytes, 64<<20)
	def(&c.CacheBytes, 64<<20)
	def(&c.GroupCacheBytes, 8<<20)
	if c.HeartbeatTicks >= c.ElectionTicks {
		return fmt.Errorf("raftgroup: %d heartbeat ticks must be fewer than %d election ticks", c.HeartbeatTicks, c.ElectionTicks)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for _, v := range []*uint64{&c.Seed, &c.Nonce} {
		for *v == 0 {
			var b [8]byte
			_, _ = crand.Read(b[:]) // never fails
			*v = binary.LittleEndian.Uint64(b[:])
		}
	}
	return nil
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Host runs the groups of one node. Its methods are safe for concurrent use.
type Host struct {
	cfg          Config
	shards       []*shard
	cache        cacheBudget
	clockSuspect atomic.Bool
	fatalOnce    sync.Once

	mu       sync.Mutex // guards changes of groups and recovery
	groups   atomic.Pointer[map[GroupID]*group]
	recovery map[wal.Replica]*wal.Recovered

	quit    chan struct{}
	stopped atomic.Bool
	running sync.WaitGroup
}

// NewHost starts a host without groups.
func NewHost(cfg Config) (*Host, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, quit: make(chan struct{}), recovery: map[wal.Replica]*wal.Recovered{}}
	h.cache.limit = cfg.CacheBytes
	h.groups.Store(&map[GroupID]*group{})
	if cfg.Recovery != nil {
		for i := range cfg.Recovery.Replicas {
			r := &cfg.Recovery.Replicas[i]
			h.recovery[r.Replica] = r
		}
	}
	h.cfg.Recovery = nil
	for range cfg.Shards {
		h.shards = append(h.shards, newShard(h))
	}
	if !cfg.Manual {
		for _, s := range h.shards {
			h.running.Go(func() { h.run(s) })
		}
	}
	return h, nil
}

// run is the production drive of a shard.
func (h *Host) run(s *shard) {
	ticker := time.NewTicker(h.cfg.Tick)
	defer ticker.Stop()
	for {
		for s.turn(h.cfg.Clock()) {
			runtime.Gosched()
		}
		select {
		case <-s.box.wake:
		case <-ticker.C:
		case <-h.quit:
			s.stop()
			return
		}
	}
}

// Turn gives every shard one turn and reports whether one has more to do right
// away. For a Manual host; the caller's goroutine does all the work.
func (h *Host) Turn(now time.Time) (more bool) {
	for _, s := range h.shards {
		if s.turn(now) {
			more = true
		}
	}
	return more
}

// Stop ends all groups: what was proposed ends with ErrOutcomeUnknown, the rest
// as refused. After it nothing is written or applied any more.
func (h *Host) Stop(ctx context.Context) error {
	if h.stopped.Swap(true) {
		return nil
	}
	for _, s := range h.shards {
		s.box.close()
	}
	close(h.quit)
	if h.cfg.Manual {
		for _, s := range h.shards {
			s.stop()
		}
		return nil
	}
	done := make(chan struct{})
	go func() { h.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the groups: %w", ctx.Err())
	}
}

func (h *Host) fatal(err error) {
	h.fatalOnce.Do(func() {
		h.cfg.Logger.Error("raft stops", "err", err)
		if h.cfg.OnFatal != nil {
			h.cfg.OnFatal(err)
		}
	})
}

func (h *Host) lookup(id GroupID) *group {
	g := (*h.groups.Load())[id]
	if g == nil || g.leaving.Load() {
		return nil
	}
	return g
}

// change replaces the map of groups. mu is held.
func (h *Host) change(f func(map[GroupID]*group)) {
	next := maps.Clone(*h.groups.Load())
	f(next)
	h.groups.Store(&next)
}

func (h *Host) forget(g *group) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if (*h.groups.Load())[g.id] == g {
		h.change(func(m map[GroupID]*group) { delete(m, g.id) })
		close(g.removed)
	}
}

// Replica is one replica to run.
type Replica struct {
	Group GroupID
	// ID is the Raft id: given by the meta group, never reused, not 0.
	ID uint64
	// Genesis is the configuration that the group was born with. It counts only
	// for a replica that it names and that has nothing stored. Any other replica
	// starts from what is stored, or empty, and waits for its leader.
	Genesis *raftpb.ConfState
}

// Start runs a replica. An error says what is wrong with what is stored; then
// nothing runs.
func (h *Host) Start(r Replica) error {
	if r.ID == 0 {
		return fmt.Errorf("group %d: replica id 0", r.Group)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := (*h.groups.Load())[r.Group]; g != nil {
		return fmt.Errorf("group %d: replica %d already runs here", r.Group, g.replica)
	}
	base, err := h.cfg.Machine.Recover(r.Group, r.ID)
	if err != nil {
		return fmt.Errorf("group %d: read the applied state: %w", r.Group, err)
	}
	key := wal.Replica{Group: r.Group, ID: r.ID}
	start, err := recoverReplica(h.recovery[key], base, r)
	if err != nil {
		return err
	}
	s := h.shards[int(r.Group)%len(h.shards)]
	g := newGroup(s, r, start)
	h.change(func(m map[GroupID]*group) { m[r.Group] = g })
	if !s.box.control(func(s *shard) { s.adopt(g) }) {
		h.change(func(m map[GroupID]*group) { delete(m, r.Group) })
		return errors.New("the host has stopped")
	}
	delete(h.recovery, key)
	return nil
}

// Remove ends a group's replica and returns a channel that is closed when
// nothing of it is written or applied any more. Its stored data stays.
func (h *Host) Remove(id GroupID) <-chan struct{} {
	g := h.lookup(id)
	if g == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	g.leaving.Store(true)
	if !g.shard.box.control(func(s *shard) { s.remove(g) }) {
		h.forget(g)
	}
	return g.removed
}

// Step takes a message for replica to of a group. It never blocks; messages for
// others, for unknown groups and above the mailbox's bound are dropped.
func (h *Host) Step(id GroupID, to uint64, m raftpb.Message) {
	g := h.lookup(id)
	if g == nil || g.replica != to {
		h.shards[0].counts.dropped.Add(1)
		return
	}
	g.shard.box.message(id, to, m)
}

// ReportUnreachable tells a group that messages to one of its replicas get lost.
func (h *Host) ReportUnreachable(id GroupID, replica uint64) {
	h.onGroup(id, func(g *group) {
		if g.rn != nil && g.stage != gone {
			g.rn.ReportUnreachable(replica)
			g.observe()
		}
	})
}

// Campaign asks a group's replica to stand for election as soon as it may,
// unless it knows a leader.
func (h *Host) Campaign(id GroupID) {
	h.onGroup(id, func(g *group) {
		if g.stage == gone {
			return
		}
		g.wantCampaign = true
		if g.rn != nil {
			g.takeOver()
		}
	})
}

func (h *Host) onGroup(id GroupID, f func(*group)) {
	if g := h.lookup(id); g != nil {
		g.shard.box.control(func(*shard) { f(g) })
	}
}

// SetClockSuspect says whether this node's clock is far from its peers'. While
// it is, groups that this node leads are handed over, proposals are refused and
// no replica campaigns; a sole voter goes on, because nobody else could.
func (h *Host) SetClockSuspect(suspect bool) { h.clockSuspect.Store(suspect) }

// SetDurable tells that the base store's state of a group at index survives a
// power loss. It goes to the log with the replica's next write.
func (h *Host) SetDurable(id GroupID, index uint64) {
	if g := h.lookup(id); g != nil {
		for old := g.durable.Load(); index > old && !g.durable.CompareAndSwap(old, index); {
			old = g.durable.Load()
		}
	}
}

// Stats are counters since the start, and sizes in bytes.
type Stats struct {
	Turns, Proposals, Entries  uint64
	Messages, DroppedMessages  uint64
	MailboxBytes, CachedBytes  int64
	MailboxLimit, CachedLimit  int64
	Groups, Leading, Unhealthy int
}

// Stats sums over the shards.
func (h *Host) Stats() Stats {
	st := Stats{CachedBytes: h.cache.bytes.Load(), CachedLimit: h.cache.limit}
	for _, s := range h.shards {
		st.Turns += s.counts.turns.Load()
		st.Proposals += s.counts.proposals.Load()
		st.Entries += s.counts.entries.Load()
		st.Messages += s.counts.messages.Load()
		st.DroppedMessages += s.counts.dropped.Load() + s.box.overflow.Load()
		st.MailboxBytes += s.box.size()
		st.MailboxLimit += s.box.limit
	}
	for _, g := range *h.groups.Load() {
		status := g.published.Load()
		st.Groups++
		if status.Role == Leader {
			st.Leading++
		}
		if status.ApplyStopped || status.Leader == 0 {
			st.Unhealthy++
		}
	}
	return st
}

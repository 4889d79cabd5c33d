package raftgroup

import (
	"math/rand/v2"
	"sync/atomic"

	"go.etcd.io/etcd/raft/v3"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

// stage is where a group's one Ready is.
type stage uint8

const (
	// opening: the birth or the reset of the log is being written; Raft does
	// not exist yet.
	opening stage = iota
	// idle: no Ready in flight.
	idle
	// syncing: the Ready's entries and hard state are on their way to disk.
	syncing
	// synced: the Ready may be applied.
	synced
	// gone: removed.
	gone
)

// group is one replica. All but the atomics belongs to its shard.
type group struct {
	id      GroupID
	replica uint64
	shard   *shard

	// Read by anyone.
	published   atomic.Pointer[Status]
	pubApplied  atomic.Uint64
	pubCommit   atomic.Uint64
	pubLast     atomic.Uint64
	pubReplayed atomic.Bool
	durable     atomic.Uint64 // durable C, for the log's segment tables
	leaving     atomic.Bool
	busy        atomic.Bool // a write is on its way to disk

	rn    *raft.RawNode
	log   *replicaLog
	start recovered

	// What Raft last said about itself.
	term, vote, lead uint64
	role             Role
	commit           uint64
	lastIndex        uint64

	// The Ready in flight.
	stage       stage
	rd          raft.Ready
	write       wal.Write
	held        []raftpb.Message // leave after the sync
	hard        raftpb.HardState // newest
	handed      raftpb.HardState // what the log was given of it
	durableSent uint64
	dirty       bool

	// Applied state. conf is Raft's configuration; it equals the Machine's
	// unless apply has stopped.
	applied  uint64
	conf     raftpb.ConfState
	stopped  bool
	replayTo uint64 // committed at the start; applied before the first tick
	replayed bool
	run      applyRun

	// Elections.
	rng            *rand.Rand
	elapsed        int
	timeout        int
	wantCampaign   bool
	timeoutNow     raftpb.Message // a transfer to us that waits for apply
	haveTimeoutNow bool

	// Proposals.
	queue       []*Pending
	inflight    inflightQueue
	seq         uint64
	uncommitted int64
	lastStamp   uint64

	// Reads.
	reads readQueue

	// Membership.
	confCall *Pending // waits to be proposed
	confWait *Pending // proposed
	transfer *Pending

	idleTicks int
	removed   chan struct{}
}

func newGroup(s *shard, r Replica, start recovered) *group {
	cfg := &s.host.cfg
	g := &group{
		id: r.Group, replica: r.ID, shard: s, start: start,
		removed: make(chan struct{}),
		rng:     rand.New(rand.NewPCG(cfg.Seed, uint64(r.Group)<<32^r.ID)),
	}
	g.applied = start.applied.Index
	g.conf = start.conf
	g.hard, g.handed = start.hard, start.stored
	g.commit = start.hard.Commit
	g.term = start.hard.Term
	g.replayTo = start.hard.Commit
	g.lastIndex = start.mark.Index + uint64(len(start.refs))
	g.published.Store(&Status{Group: g.id, Replica: g.replica, Term: g.term, Conf: g.conf})
	g.publishIndexes()
	g.timeout = g.drawTimeout()
	return g
}

// open creates the Raft node. Everything that NewRawNode panics about was
// checked in recoverReplica.
func (g *group) open() error {
	cfg := &g.shard.host.cfg
	g.log = newReplicaLog(cfg.WAL, g.start, cfg.GroupCacheBytes, &g.shard.host.cache, &g.shard.logs)
	if w := g.start.write; w != nil {
		if err := g.log.append(w.Entries, w.Refs); err != nil {
			return err
		}
	}
	rn, err := raft.NewRawNode(&raft.Config{
		ID:                        g.replica,
		ElectionTick:              cfg.ElectionTicks,
		HeartbeatTick:             cfg.HeartbeatTicks,
		Storage:                   g.log,
		Applied:                   g.applied,
		MaxSizePerMsg:             1 << 20,
		MaxCommittedSizePerReady:  4 << 20,
		MaxUncommittedEntriesSize: uint64(cfg.UncommittedBytes),
		MaxInflightMsgs:           64,
		CheckQuorum:               true,
		PreVote:                   true,
		ReadOnlyOption:            raft.ReadOnlySafe,
		Logger:                    &raftLogger{log: cfg.Logger, group: g.id, replica: g.replica},
		DisableProposalForwarding: true,
	})
	if err != nil {
		return err
	}
	g.rn = rn
	g.start = recovered{}
	g.stage = idle
	g.observe()
	g.noteReplay(g.applied)
	return nil
}

// observe compares what Raft says of itself with what it last said, after every
// call that may change it, and ends what a change of leadership ends.
func (g *group) observe() {
	st := g.rn.BasicStatus()
	role := roleOf(st.RaftState)
	if st.Term == g.term && st.Lead == g.lead && role == g.role {
		if st.Vote != g.vote {
			g.vote = st.Vote
			g.elapsed = 0 // a vote granted
		}
		g.commit = st.Commit
		return
	}
	led := g.role == Leader && (role != Leader || st.Term != g.term)
	newTerm := st.Term != g.term
	g.term, g.vote, g.lead, g.role, g.commit = st.Term, st.Vote, st.Lead, role, st.Commit
	g.elapsed = 0
	g.timeout = g.drawTimeout()
	g.publish()
	if led {
		g.loseLeadership()
	}
	if led || newTerm || role != Leader {
		g.endReads(g.notLeader())
	}
	if role != Leader {
		g.refuseQueued(g.notLeader())
	}
	g.settleTransfer()
}

// sole reports whether this replica is its group's only voter.
func (g *group) sole() bool {
	return len(g.conf.Voters) == 1 && g.conf.Voters[0] == g.replica && len(g.conf.VotersOutgoing) == 0
}

// notLeader says who leads. A leader that refuses, because it hands over, names
// nobody: whoever asked must not be sent back here.
func (g *group) notLeader() error {
	lead := g.lead
	if lead == g.replica {
		lead = 0
	}
	return &NotLeaderError{Status: Status{
		Group: g.id, Replica: g.replica, Leader: lead, Term: g.term, Role: g.role,
		Applied: g.applied, Commit: g.commit, LastIndex: g.lastIndex,
		ApplyStopped: g.stopped, Conf: g.conf,
	}}
}

// finish ends everything that waits on the group: what was proposed with an
// unknown outcome, the rest as refused.
func (g *group) finish(refused error) {
	g.refuseQueued(refused)
	g.endReads(refused)
	g.failInflight(0)
	for _, p := range []*Pending{g.confCall, g.transfer} {
		if p != nil {
			g.shard.end(p, nil, refused)
		}
	}
	if g.confWait != nil {
		g.shard.end(g.confWait, nil, ErrOutcomeUnknown)
	}
	g.confCall, g.transfer, g.confWait = nil, nil, nil
	if g.log != nil {
		g.log.release()
	}
	g.stage = gone
}

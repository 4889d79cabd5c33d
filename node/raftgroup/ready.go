package raftgroup

import (
	"fmt"

	"go.etcd.io/etcd/raft/v3"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/wal"
)

// process takes the group's next Ready when none is in flight.
//
// What Raft already has goes first. On a busy leader that is a commit that just
// moved: a Ready without entries, which is applied and answered at once. Only
// then is what waits proposed, as one entry, which opens the next sync. So no
// answer waits for the sync of a later write, and no write waits for the commit
// of an earlier one.
func (s *shard) process(g *group) {
	for g.stage == idle {
		fresh := 0
		if !g.rn.HasReady() {
			g.startRead()
			fresh = g.propose()
			fresh += g.proposeConf()
			if !g.rn.HasReady() {
				return
			}
		}
		s.take(g, fresh)
	}
}

// take takes one Ready: what may leave now leaves, what must be on disk first
// is handed to the log. fresh counts the entries at the Ready's end that were
// proposed just now.
func (s *shard) take(g *group, fresh int) {
	g.log.applying = true
	rd := g.rn.Ready()
	g.log.applying = false
	if !raft.IsEmptySnap(rd.Snapshot) {
		panic(fatalError{fmt.Errorf("group %d: unexpected snapshot at %d", g.id, rd.Snapshot.Metadata.Index)})
	}
	g.rd = rd
	if n := len(rd.Entries); n > 0 {
		g.lastIndex = rd.Entries[n-1].Index
		g.pubLast.Store(g.lastIndex)
		g.noteProposed(rd.Entries[n-fresh:])
	}
	for i := range rd.ReadStates {
		g.confirmRead(&rd.ReadStates[i])
	}
	if !raft.IsEmptyHardState(rd.HardState) {
		g.hard = rd.HardState
	}
	electoral := g.hard.Term != g.handed.Term || g.hard.Vote != g.handed.Vote
	if len(rd.Entries) == 0 && !electoral {
		// Nothing that must be on disk: the messages depend on earlier syncs
		// only, and a commit index alone can wait for the next write.
		for i := range rd.Messages {
			s.post(g, rd.Messages[i])
		}
		s.ready(g)
		return
	}
	g.held = g.held[:0]
	for i := range rd.Messages {
		if m := &rd.Messages[i]; mayLeaveEarly(m, rd.Entries, electoral) {
			s.post(g, *m)
		} else {
			g.held = append(g.held, *m)
		}
	}
	s.persist(g)
}

// mayLeaveEarly: before the sync of its Ready only replication leaves, and only
// if it does not tell anyone that an entry of this very Ready is committed. A
// sole voter commits its own entry before it is on disk; a learner that heard
// so would apply what a power loss takes back.
func mayLeaveEarly(m *raftpb.Message, entries []raftpb.Entry, electoral bool) bool {
	if electoral || len(entries) == 0 {
		return false
	}
	return (m.Type == raftpb.MsgApp || m.Type == raftpb.MsgHeartbeat) && m.Commit < entries[0].Index
}

// persist hands the Ready's entries and the hard state to the log.
func (s *shard) persist(g *group) {
	g.write = wal.Write{
		Replica: wal.Replica{Group: g.id, ID: g.replica},
		Entries: g.rd.Entries,
		Done:    s.done,
		Refs:    g.write.Refs[:0],
	}
	if g.hard != g.handed {
		state := g.hard
		g.write.State = &state
		g.handed = g.hard
	}
	if c := g.durable.Load(); c > g.durableSent {
		g.write.Applied, g.durableSent = c, c
	}
	g.stage = syncing
	g.busy.Store(true)
	s.host.cfg.WAL.Enqueue(&g.write)
}

// written is the log's word that a write is on disk.
func (s *shard) written(w *wal.Write) {
	if w.Err != nil {
		panic(fatalError{fmt.Errorf("write the log: %w", w.Err)})
	}
	g := s.groups[w.Replica.Group]
	if g == nil || (w != &g.write && w != g.start.write) {
		return
	}
	g.busy.Store(false)
	switch g.stage {
	case gone:
		s.forget(g)
	case opening:
		g.lastIndex = g.start.mark.Index + uint64(len(w.Refs))
		g.handed = g.start.hard
		s.open(g)
	case syncing:
		// Before Advance: Raft looks for these entries in the log from then on.
		if err := g.log.append(g.rd.Entries, w.Refs); err != nil {
			panic(fatalError{fmt.Errorf("group %d: %w", g.id, err)})
		}
		g.write.Entries = nil
		for i := range g.held {
			s.post(g, g.held[i])
		}
		clear(g.held)
		g.held = g.held[:0]
		s.ready(g)
	}
}

// ready: the Ready in flight may be applied. Without committed entries there is
// nothing to wait for.
func (s *shard) ready(g *group) {
	g.stage = synced
	if len(g.rd.CommittedEntries) == 0 {
		s.advance(g)
		return
	}
	s.work = append(s.work, g)
	s.toDo += g.committedBytes()
}

// committedBytes is the size of what the Ready in flight has to apply.
func (g *group) committedBytes() int {
	n := 0
	for i := range g.rd.CommittedEntries {
		n += len(g.rd.CommittedEntries[i].Data)
	}
	return n
}

// advance ends the Ready: only now may the next one be taken.
func (s *shard) advance(g *group) {
	ents := g.rd.CommittedEntries
	g.rn.Advance(g.rd)
	g.rd = raft.Ready{}
	g.stage = idle
	g.observe()
	if n := len(ents); n > 0 {
		g.noteReplay(ents[n-1].Index)
	} else {
		g.takeOver()
	}
	g.publishIndexes()
	s.mark(g)
}

package raftgroup

import (
	"fmt"
	"slices"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// applyRun is the apply of one Ready's committed entries.
type applyRun struct {
	limit   int // entries that the Machine applies; fewer than all when it can't
	cause   error
	entries []appliedEntry
	conf    raftpb.ConfState // after them
}

type appliedEntry struct {
	env     envelope
	results []any
}

// applyAll applies the committed entries of the groups whose Ready is synced,
// of all if they fit, in one batch, answers who waited for them, and ends the
// Readies.
//
// When a group's entry can't be applied the batch is discarded, and all of it
// is done again without that entry and what follows it in its group: the other
// groups never notice, and the batch that commits holds whole entries only.
func (s *shard) applyAll() {
	all := s.work
	work := s.nextWork(all)
	for _, g := range work {
		g.run.limit, g.run.cause = len(g.rd.CommittedEntries), nil
		if g.stopped {
			g.run.limit = 0
		}
	}
	batch := s.applyBatch(work)
	for _, g := range work {
		g.applied = max(g.applied, g.run.last(g.rd.CommittedEntries))
		g.settle()
	}
	if batch != nil {
		batch.Publish()
	}
	for _, g := range work {
		s.advance(g)
	}
	clear(all)
	s.spare = all[:0]
}

// nextWork takes what fits into one batch off the front of all and leaves the
// rest for the next one.
func (s *shard) nextWork(all []*group) []*group {
	n, bytes := 0, 0
	for n < len(all) && bytes < batchApply {
		bytes += all[n].committedBytes()
		n++
	}
	s.work, s.toDo = append(s.spare[:0], all[n:]...), max(0, s.toDo-bytes)
	if len(s.work) == 0 {
		s.toDo = 0
	}
	return slices.DeleteFunc(all[:n], func(g *group) bool { return g.stage == gone })
}

func (r *applyRun) last(ents []raftpb.Entry) uint64 {
	if r.limit == 0 {
		return 0
	}
	return ents[r.limit-1].Index
}

// applyBatch returns the committed batch; nil when there was nothing for it.
func (s *shard) applyBatch(work []*group) Batch {
	for {
		some := false
		for _, g := range work {
			some = some || g.run.limit > 0
		}
		if !some {
			return nil
		}
		batch := s.host.cfg.Machine.Begin()
		if !s.applyInto(batch, work) {
			batch.Discard()
			continue // each round lowers a limit, so the rounds end
		}
		if err := batch.Commit(); err != nil {
			panic(fatalError{fmt.Errorf("commit applied entries: %w", err)})
		}
		return batch
	}
}

func (s *shard) applyInto(batch Batch, work []*group) bool {
	for _, g := range work {
		if g.run.limit == 0 {
			continue
		}
		changed, ok := g.applyInto(batch)
		if !ok {
			return false
		}
		last := &g.rd.CommittedEntries[g.run.limit-1]
		var conf *raftpb.ConfState
		if changed {
			conf = &g.run.conf
		}
		if err := batch.Mark(g.id, g.replica, last.Index, last.Term, conf); err != nil {
			batch.Discard()
			panic(fatalError{fmt.Errorf("group %d: mark %d as applied: %w", g.id, last.Index, err)})
		}
	}
	return true
}

// applyInto applies the group's entries up to the limit. It changes nothing but
// the batch and run, so it can be repeated.
func (g *group) applyInto(batch Batch) (confChanged, ok bool) {
	run := &g.run
	run.entries = run.entries[:0]
	run.conf = g.conf
	for i := range g.rd.CommittedEntries[:run.limit] {
		e := &g.rd.CommittedEntries[i]
		var done appliedEntry
		var err error
		switch {
		case e.Type != raftpb.EntryNormal:
			var next raftpb.ConfState
			var took bool
			if next, took, err = g.nextConf(run.conf, e); took {
				run.conf, confChanged = next, true
			}
		case len(e.Data) > 0:
			done, err = g.applyEntry(batch, e)
		}
		if err != nil {
			run.limit, run.cause = i, fmt.Errorf("entry %d of term %d: %w", e.Index, e.Term, err)
			return false, false
		}
		run.entries = append(run.entries, done)
	}
	return confChanged, true
}

func (g *group) applyEntry(batch Batch, e *raftpb.Entry) (done appliedEntry, err error) {
	s := g.shard
	done.env, s.cmds, err = decodeEntry(e.Data, s.cmds[:0])
	if err != nil {
		return done, err
	}
	done.results, err = batch.Apply(g.id, e.Index, e.Term, done.env.stamp, s.cmds)
	if err == nil && len(done.results) != len(s.cmds) {
		err = fmt.Errorf("%d results for %d commands", len(done.results), len(s.cmds))
	}
	return done, err
}

// settle follows the commit of the batch: waiters get their answers, Raft gets
// its configuration changes.
func (g *group) settle() {
	run := &g.run
	for i := range g.rd.CommittedEntries {
		e := &g.rd.CommittedEntries[i]
		if e.Type != raftpb.EntryNormal {
			g.applyConf(e)
			continue
		}
		if i < run.limit && len(e.Data) > 0 {
			g.lastStamp = max(g.lastStamp, run.entries[i].env.stamp)
			g.answer(e, &run.entries[i])
		}
	}
	clear(run.entries)
	if cap(run.entries) > 1024 {
		run.entries = nil
	}
	if run.cause != nil {
		g.stopApply(run.cause)
	}
	g.releaseReads()
}

// stopApply stops this replica alone; see the package documentation.
func (g *group) stopApply(cause error) {
	g.stopped = true
	g.shard.host.cfg.Logger.Error("apply stopped: this replica serves nothing until the entry can be applied, by a newer binary or after its storage is repaired; it keeps voting",
		"group", g.id, "replica", g.replica, "applied", g.applied, "err", cause)
	g.publish()
	g.refuseQueued(ErrApplyStopped)
	g.failInflight(0)
	g.endReads(ErrApplyStopped)
	g.giveUpLeadership()
}

package node

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"runnel.dev/runnel/node/raftgroup"
)

// handOverTimeout bounds what a node that ends spends on its groups' next
// leaders. A group that misses it elects one by itself.
const handOverTimeout = 2 * time.Second

// handOver gives the leadership of every group to another voter, so that
// writers go on at once and nothing that was proposed here ends unknown.
func (m *member) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	var moves sync.WaitGroup
	for group := range uint32(len(m.state().Groups) + 1) {
		if s := m.host.Status(group); s.Role == raftgroup.Leader && len(s.Conf.Voters) > 1 {
			moves.Go(func() { m.handOverGroup(ctx, &s) })
		}
	}
	moves.Wait()
}

// handOverGroup tries the other voters, who has most of the log first.
func (m *member) handOverGroup(ctx context.Context, s *raftgroup.Status) {
	type candidate struct{ replica, match uint64 }
	var candidates []candidate
	for _, v := range s.Conf.Voters {
		if p, ok := m.host.Progress(ctx, s.Group, v); ok && v != s.Replica && p.RecentActive {
			candidates = append(candidates, candidate{v, p.Match})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return cmp.Compare(b.match, a.match) })
	for _, c := range candidates {
		if ctx.Err() != nil || m.host.TransferLeader(ctx, s.Group, c.replica) == nil {
			return
		}
	}
}

package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/apply"
	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/meta"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/transport"
	"runnel.dev/runnel/node/wal"
)

// member is the running part of a node that belongs to a cluster.
type member struct {
	node   *Node
	id     *identity
	log    *wal.Log
	writer *wal.Writer
	host   *raftgroup.Host
	peers  *transport.Transport
	touch  *renewer
	life   context.Context
	clock  clockWatch
	disk   diskWatch
	// replicas is owned by replicaLoop after become.
	replicas *replicaSet
}

// genesisOfMeta is the meta group's first configuration: the first node's
// replica alone. Others get it, as the log's first entry, from their leader.
var genesisOfMeta = raftpb.ConfState{Voters: []uint64{1}}

// become starts the groups of a member and serves clients.
func (n *Node) become(ctx context.Context, id *identity) (err error) {
	m := &member{node: n, id: id, life: ctx, clock: clockWatch{began: time.Now()}}
	states, err := n.store.Replicas()
	if err != nil {
		return fmt.Errorf("list replicas: %w", err)
	}
	m.replicas = newReplicaSet(m, states)
	log, recovery, err := wal.Open(wal.Options{
		FS:      n.cfg.FS,
		Dir:     n.logDir(),
		Cluster: transport.Fingerprint(id.ClusterID),
		Logger:  n.log,
		Live:    m.replicas.live,
		Recycle: spareSegments, BallastBytes: ballastBytes,
	})
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	m.log = log
	if err := n.store.SetLocal(localLog, []byte("1")); err != nil {
		return fmt.Errorf("record that there is a log: %w", err)
	}
	m.writer = wal.StartWriter(log, n.fatal)
	defer func() {
		if err != nil {
			_ = m.close(ctx)
		}
	}()
	m.peers, err = transport.New(transport.Config{
		Cluster:  id.ClusterID,
		Node:     id.NodeID,
		Listener: n.planes.peer,
		TLS:      n.cfg.TLS,
		Clock:    n.cfg.Clock,
		Resolve:  m.peerAddress,
		Handler:  m,
		Logger:   n.log,
	})
	if err != nil {
		return fmt.Errorf("peer.listen: %w", err)
	}
	m.host, err = raftgroup.NewHost(raftgroup.Config{
		WAL:      log,
		Recovery: recovery,
		Machine:  n.machine,
		Send:     m,
		Stamp:    m.stamp,

		CacheBytes: n.cfg.Limits.LogCacheBytes,
		Logger:     n.log,
		OnStatus:   m.statusChanged,
		OnFatal:    n.fatal,
	})
	if err != nil {
		return fmt.Errorf("start the groups: %w", err)
	}
	m.touch = newRenewer(m)
	if err := m.replicas.startKnown(); err != nil {
		return err
	}
	n.member.Store(m)
	n.work.Go(func() {
		if err := m.peers.Serve(); err != nil {
			n.fatal(fmt.Errorf("peer plane: %w", err))
		}
	})
	n.work.Go(func() { m.replicaLoop(ctx) })
	n.work.Go(func() { m.metaLoop(ctx) })
	n.work.Go(func() { m.durableLoop(ctx) })
	n.work.Go(func() { m.clockLoop(ctx) })
	n.work.Go(func() { m.diskLoop(ctx) })
	n.metaApplied(nil)
	n.serveClients(m)
	n.log.Info("member", "cluster", id.ClusterID, "node", id.NodeID, "client", n.cfg.Client.URL)
	return nil
}

func (n *Node) logDir() string { return filepath.Join(n.cfg.DataDir, "wal") }

// checkLog refuses a data directory of which one half is missing. A replica
// whose log is gone has forgotten its votes and what it acknowledged: it must
// not start over under its old id.
func (n *Node) checkLog(isMember bool) error {
	found, err := wal.Exists(n.cfg.FS, n.logDir())
	if err != nil {
		return err
	}
	mark, err := n.store.Local(localLog)
	switch {
	case err != nil:
		return err
	case isMember && mark != nil && !found:
		return fmt.Errorf("%s holds no log, but this node had a log: its replicas can't go on without it; put it back, or empty %s and join as a new node", n.logDir(), n.cfg.DataDir)
	case !isMember && found:
		return fmt.Errorf("%s holds a log, but %s does not know of it: put the base store back, or empty %s and join as a new node", n.logDir(), n.baseDir(), n.cfg.DataDir)
	}
	return nil
}

// close stops the groups before the log they write to.
func (m *member) close(ctx context.Context) error {
	var errs []error
	if m.host != nil {
		errs = append(errs, m.host.Stop(ctx))
	}
	if m.peers != nil {
		errs = append(errs, m.peers.Close(ctx))
	}
	if m.writer != nil {
		m.writer.Stop()
	}
	if m.log != nil {
		errs = append(errs, m.log.Close())
	}
	return errors.Join(errs...)
}

// statusChanged runs on a shard: live readers live in one term on the leader,
// so any change of leadership wakes them to end or to ask again.
func (m *member) statusChanged(s raftgroup.Status) {
	if s.Role == raftgroup.Leader {
		m.judgeClock()
	}
	if s.Group != apply.MetaGroup {
		m.node.registry.EndGroup(s.Group, live.Moved)
	}
	m.node.metaApplied(nil)
}

// durableInterval is how often the base store is synced. It bounds the log
// that a restart replays, and nothing else: the log alone holds what was
// acknowledged.
const durableInterval = 5 * time.Second

func (m *member) durableLoop(ctx context.Context) {
	tick := time.NewTicker(durableInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		durable, err := m.node.store.Sync()
		if err != nil {
			m.node.fatal(fmt.Errorf("sync the base store: %w", err))
			return
		}
		for _, d := range durable {
			m.host.SetDurable(d.Group, d.Index)
		}
	}
}

// state returns the cluster's facts as this node has applied them.
func (m *member) state() *meta.State { return m.node.machine.Meta() }

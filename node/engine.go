package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"runnel.dev/runnel/node/basestore"
	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/stream"
	"runnel.dev/runnel/node/streamhttp"
)

// The client plane sees a member as its engine.
var _ streamhttp.Engine = (*member)(nil)

// ClusterID names the cluster.
func (m *member) ClusterID() string { return m.id.ClusterID }

// Now is the node's wall clock.
func (m *member) Now() time.Time { return m.node.cfg.Clock() }

// Locate says where a stream's group is, from this node's own memory.
func (m *member) Locate(key stream.Key) streamhttp.Location {
	state := m.state()
	if len(state.Groups) == 0 {
		return streamhttp.Location{}
	}
	i := int(protocol.GroupOf(key.Bucket, key.Stream, uint32(len(state.Groups))))
	loc := streamhttp.Location{Group: uint32(i + 1)}
	status := m.host.Status(loc.Group)
	if status.Replica == 0 {
		for _, p := range state.Groups[i].Placement {
			if n, ok := state.Nodes[p.Node]; ok && p.Node != m.id.NodeID {
				loc.AnyURL = n.Addresses.Client
				break
			}
		}
		return loc
	}
	loc.Hosted = true
	loc.LeaderID, loc.Term = status.Leader, status.Term
	if status.Role == raftgroup.Leader {
		loc.Leads = true
		loc.LeaderURL = m.node.cfg.Client.URL
	} else if status.Leader != 0 {
		if n, ok := state.NodeOf(i, status.Leader); ok {
			loc.LeaderURL = n.Addresses.Client
		}
	}
	return loc
}

// Propose replicates one command and waits for its applied result.
func (m *member) Propose(ctx context.Context, group uint32, c *stream.Command) (stream.Result, error) {
	if (c.Kind == stream.KindAppend || c.Kind == stream.KindCreate) && m.disk.low.Load() {
		return stream.Result{}, streamhttp.ErrDiskPressure
	}
	// The record is loaded here, on the request's goroutine, so that the shard
	// finds it resident when the command applies.
	if c.Kind == stream.KindAppend && !m.node.store.Cached(group, c.Key) {
		if _, err := m.node.store.Lookup(group, c.Key); err != nil {
			return stream.Result{}, err
		}
	}
	header := headers.Get().(*[]byte)
	*header = stream.AppendHeader((*header)[:0], c)
	result, err := m.host.Propose(ctx, group, *header, c.Payload)
	if err == nil || refused(err) {
		headers.Put(header) // otherwise the shard may still read it
	}
	if err != nil {
		return stream.Result{}, err
	}
	return *result.(*stream.Result), nil
}

// headers are the buffers that commands are encoded in.
var headers = sync.Pool{New: func() any { return new([]byte) }}

// refused says that nothing was proposed.
func refused(err error) bool {
	return errors.Is(err, raftgroup.ErrNotLeader) || errors.Is(err, raftgroup.ErrNoReplica) ||
		errors.Is(err, raftgroup.ErrBusy) || errors.Is(err, raftgroup.ErrApplyStopped)
}

// Confirm is a linearizable read's barrier.
func (m *member) Confirm(ctx context.Context, group uint32) error {
	return m.host.ReadIndex(ctx, group)
}

// Lookup returns a stream's applied record.
func (m *member) Lookup(group uint32, key stream.Key) (*stream.Stream, error) {
	return m.node.store.Lookup(group, key)
}

// Read returns applied bytes.
func (m *member) Read(dst []byte, group uint32, id stream.ID, from, to uint64) ([]byte, error) {
	out, err := m.node.store.ReadBytes(dst, group, id, from, to)
	if errors.Is(err, basestore.ErrGone) {
		return dst, streamhttp.ErrGone
	}
	return out, err
}

// Watch registers a live reader.
func (m *member) Watch(group uint32, id stream.ID) *live.Watch {
	return m.node.registry.Watch(group, id)
}

// Touch renews a sliding TTL, together with whoever else asks in the group.
func (m *member) Touch(ctx context.Context, group uint32, id stream.ID) error {
	return m.touch.renew(ctx, group, id)
}

// Expire removes one stream whose time has come; its apply checks again.
func (m *member) Expire(ctx context.Context, group uint32, id stream.ID) error {
	_, err := m.Propose(ctx, group, &stream.Command{Kind: stream.KindExpire, IDs: []stream.ID{id}})
	return err
}

package streamhttp

import (
	"context"
	"errors"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/stream"
)

// sendAway answers a request that another node has to serve: a redirect to the
// leader with leader, group and term; from a node without a replica a redirect
// to one with a replica, naming only the group; NO_LEADER when the target is
// not known. There is no third shape (extensions 5.7). Nothing of the request's
// body may have been read.
func (h *Handler) sendAway(x http1.Exchange, loc Location) {
	url := ""
	switch {
	case !loc.Hosted:
		url = loc.AnyURL
	case !loc.Leads && loc.LeaderID != 0 && loc.Term != 0:
		url = loc.LeaderURL
	}
	if url == "" {
		h.noLeader(x, loc.Group)
		return
	}
	if loc.Hosted {
		x.SetHeaderInt(protocol.HeaderRaftLeaderID, int64(loc.LeaderID))
		x.SetHeaderInt(protocol.HeaderRaftTerm, int64(loc.Term))
	}
	x.SetHeaderInt(protocol.HeaderRaftGroup, int64(loc.Group))
	req := x.Request()
	location := url + req.Target
	if req.HasQuery {
		location += "?" + req.RawQuery
	}
	x.SetHeader(protocol.HeaderLocation, location)
	h.answer(x, 307, nil)
}

// leaderFor returns where a request for key that only the leader can serve is
// served; ok is false when it was answered with the way there.
func (h *Handler) leaderFor(x http1.Exchange, key stream.Key) (loc Location, ok bool) {
	loc = h.engine.Locate(key)
	if !loc.Leads {
		h.sendAway(x, loc)
	}
	return loc, loc.Leads
}

// refuseRead answers a read that the leader failed to confirm: a read proposes
// nothing that its client could care about, so its refusal is a redirect or
// NO_LEADER, never OUTCOME_UNKNOWN.
func (h *Handler) refuseRead(x http1.Exchange, key stream.Key, err error) {
	if errors.Is(err, raftgroup.ErrApplyStopped) {
		h.refuse(x, faultApplyStopped)
		return
	}
	loc := h.engine.Locate(key)
	if loc.Leads {
		h.noLeader(x, loc.Group)
		return
	}
	h.sendAway(x, loc)
}

// failRead answers a read that the applied state could not serve.
func (h *Handler) failRead(x http1.Exchange, key stream.Key, err error) {
	if errors.Is(err, raftgroup.ErrNoReplica) {
		h.refuseRead(x, key, err)
		return
	}
	h.refuse(x, err)
}

// bounded returns the context of one leadership round.
func (h *Handler) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), h.config.ConfirmTimeout)
}

package raftgroup

import "go.etcd.io/etcd/raft/v3/raftpb"

type raftMessage = raftpb.Message

// coalesceWindow bounds how far ahead a newer message is looked for.
const coalesceWindow = 64

// coalesce drops appends that only tell a commit index when a later message to
// the same replica tells it too. A busy leader makes one of them for each
// commit, right before the entries it proposes next; any of them may get lost
// on the way as well, so leaving one out is always safe.
func coalesce(msgs []Message) []Message {
	out := msgs[:0]
	for i := range msgs {
		if !superseded(&msgs[i], msgs[i+1:min(len(msgs), i+1+coalesceWindow)]) {
			out = append(out, msgs[i])
		}
	}
	return out
}

func superseded(m *Message, later []Message) bool {
	if m.Type != raftpb.MsgApp || len(m.Entries) > 0 {
		return false
	}
	for i := range later {
		n := &later[i]
		if n.Type == raftpb.MsgApp && n.Group == m.Group && n.To == m.To && n.Term == m.Term &&
			n.Index == m.Index && n.LogTerm == m.LogTerm && n.Commit >= m.Commit {
			return true
		}
	}
	return false
}

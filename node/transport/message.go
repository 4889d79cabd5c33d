package transport

import (
	"go.etcd.io/etcd/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// Message is one raft message of one group. Raft.From and Raft.To are replica
// ids. LossEpoch is the group's count of accepted losses as the sender knows
// it; the receiver drops messages of an older one.
type Message struct {
	Group     uint32
	LossEpoch uint32
	Raft      raftpb.Message
}

// carried says whether a message type crosses the wire in this version. Local
// types must not be injectable; proposals are never forwarded; a snapshot's
// message must not arrive without its staged data, so MsgSnap waits for the
// snapshot stream.
func carried(t raftpb.MessageType) bool {
	switch t {
	case raftpb.MsgApp, raftpb.MsgAppResp,
		raftpb.MsgVote, raftpb.MsgVoteResp,
		raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp,
		raftpb.MsgReadIndex, raftpb.MsgReadIndexResp,
		raftpb.MsgTransferLeader, raftpb.MsgTimeoutNow:
		return true
	}
	return false
}

// maxUrgentContext keeps the beat connection free of anything large.
const maxUrgentContext = 4 << 10

// urgent says that a message goes on the beat connection. Every MsgApp, also
// an empty one, stays on bulk: their order within a group is what keeps a
// pipelining leader from being rejected and falling back to probing. Responses
// are small and decide when a write commits, so they never queue behind bytes.
func urgent(m *Message) bool {
	return m.Raft.Type != raftpb.MsgApp &&
		len(m.Raft.Entries) == 0 &&
		len(m.Raft.Context) <= maxUrgentContext
}

func goesOnBeat(m *Message) bool { return carried(m.Raft.Type) && urgent(m) }
func goesOnBulk(m *Message) bool { return carried(m.Raft.Type) && !urgent(m) }

// minEntryBytes is the least that an encoded entry takes inside a message: tag
// and length, then type, term and index, which are always written.
const minEntryBytes = 8

const entriesField = 7

// decodeMessage decodes one raft message; the result does not alias b. The
// number of entries is checked against b's length first, because an empty
// entry field of two bytes would become a struct of 48.
func decodeMessage(b []byte) (raftpb.Message, error) {
	entries := 0
	for rest := b; len(rest) > 0; {
		num, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return raftpb.Message{}, protocolError("raft message: %v", protowire.ParseError(n))
		}
		if num == entriesField {
			entries++
		}
		rest = rest[n:]
	}
	if entries*minEntryBytes > len(b) {
		return raftpb.Message{}, protocolError("raft message of %d bytes claims %d entries", len(b), entries)
	}
	var m raftpb.Message
	if err := m.Unmarshal(b); err != nil {
		return raftpb.Message{}, protocolError("raft message: %v", err)
	}
	if !carried(m.Type) {
		return raftpb.Message{}, protocolError("raft message type %d is not carried between nodes", int32(m.Type))
	}
	return m, nil
}

package raftgroup

import (
	"errors"
	"fmt"
)

// The outcomes of a proposal that has no result. The first four are refusals:
// nothing was proposed and nothing will apply. ErrOutcomeUnknown is all else.
var (
	// ErrNoReplica: this node has no running replica of the group.
	ErrNoReplica = errors.New("no replica of the group runs here")
	// ErrNotLeader: another replica leads, or none. A *NotLeaderError says which.
	ErrNotLeader = errors.New("this replica does not lead its group")
	// ErrBusy: too many bytes wait or are uncommitted
	// (RAFT_UNCOMMITTED_BACKPRESSURE), the deadline passed while waiting, or the
	// command is above MaxCommandBytes.
	ErrBusy = errors.New("too much is in progress in the group")
	// ErrApplyStopped: this replica can't apply and so takes no work.
	ErrApplyStopped = errors.New("this replica's apply has stopped")
	// ErrOutcomeUnknown: it was proposed and not seen applied; it may apply or
	// have applied.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

var (
	// ErrUnconfirmed: no majority confirmed this replica's leadership by the
	// read's deadline.
	ErrUnconfirmed = errors.New("leadership was not confirmed by the deadline")
	// ErrLeaderRemoval: a leader never removes or demotes itself. Transfer
	// leadership first; the next leader proposes the change.
	ErrLeaderRemoval = errors.New("a leader can't remove or demote itself: transfer leadership first")
	// ErrConfChange: the change is not a legal step from the applied configuration.
	ErrConfChange = errors.New("configuration change refused")
	// ErrNotCaughtUp: the replica is not a voter that follows closely.
	ErrNotCaughtUp = errors.New("replica is not a caught-up voter")
	// ErrTransferFailed: the other replica did not take over in an election timeout.
	ErrTransferFailed = errors.New("leadership transfer did not complete")
)

// NotLeaderError is ErrNotLeader with what the replica knew.
type NotLeaderError struct{ Status Status }

func (e *NotLeaderError) Error() string {
	if e.Status.Leader == 0 {
		return fmt.Sprintf("group %d: no leader is known", e.Status.Group)
	}
	return fmt.Sprintf("group %d: replica %d leads in term %d", e.Status.Group, e.Status.Leader, e.Status.Term)
}

// Is makes errors.Is(err, ErrNotLeader) hold.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

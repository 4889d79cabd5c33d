package adminapi

import (
	"context"
	"fmt"
	"net/http"
)

// MaxBorn bounds one report of births.
const MaxBorn = 8192

// BornRequest reports genesis replicas that exist on the caller's disk now. It
// may be repeated.
type BornRequest struct {
	Replicas []BornReplica `json:"replicas"`
}

// BornReplica is one replica of a data group, by the group's index.
type BornReplica struct {
	Group   uint32 `json:"group"`
	Replica uint64 `json:"replica"`
}

// BornResponse says that the cluster has it on record.
type BornResponse struct{}

// Validate checks the form of a request.
func (r *BornRequest) Validate() *Error {
	if len(r.Replicas) == 0 || len(r.Replicas) > MaxBorn {
		return Refuse(CodeBadRequest, "replicas has %d entries", len(r.Replicas)).Try(fmt.Sprintf("send 1 to %d", MaxBorn))
	}
	return nil
}

// Born reports births to the node, which must lead the meta group.
func (c *Client) Born(ctx context.Context, r BornRequest) (BornResponse, error) {
	if e := r.Validate(); e != nil {
		return BornResponse{}, e
	}
	return call[BornResponse](ctx, c, c.addr, http.MethodPost, PathBorn, r)
}

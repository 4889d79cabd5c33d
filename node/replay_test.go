package node

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/adminapi"
)

// slowLog is a file system whose write-ahead log takes as long to open as
// opening says, as one that has much to replay.
type slowLog struct {
	vfs.FS
	opening func()
}

func (s *slowLog) Lock(name string) (io.Closer, error) {
	if strings.HasSuffix(name, "wal/LOCK") {
		s.opening()
	}
	return s.FS.Lock(name)
}

// freeAddr returns a loopback address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The admin plane is open while a member replays its log. An init that arrives
// then must not take it for an empty node and write another identity over its own.
func TestANodeThatReplaysItsLogIsNoEmptyNode(t *testing.T) {
	fs := vfs.NewMem()
	init := adminapi.InitRequest{ClusterID: "c", Token: "t", Groups: 2, ReplicationFactor: 1, Nodes: 1}
	first, err := Start(t.Context(), testConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (*adminNode)(first).Init(t.Context(), init); err != nil {
		t.Fatal(err)
	}
	stopNode(t, first)

	cfg := testConfig(fs)
	cfg.Admin.Listen = freeAddr(t)
	asked := false
	cfg.FS = &slowLog{FS: fs, opening: func() {
		asked = true
		client := adminapi.NewClient(cfg.Admin.Listen, adminapi.Options{})
		defer client.Close()
		status, err := client.Status(t.Context())
		if err != nil || status.State != adminapi.StateStarting || status.ClusterID != "c" || status.NodeID != 1 {
			t.Errorf("status while the log is replayed: %+v, %v; want node 1 of c, starting", status, err)
		}
		other := init
		other.ClusterID, other.Token = "another", "u"
		var refused *adminapi.Error
		if _, err := client.Init(t.Context(), other); !errors.As(err, &refused) || refused.Code != adminapi.CodeAlreadyInitialized {
			t.Errorf("init of another cluster: %v, want %s", err, adminapi.CodeAlreadyInitialized)
		}
	}}
	second := startNode(t, cfg)
	if !asked {
		t.Fatal("the log was opened without the hook")
	}
	if id := second.member.Load().id.ClusterID; id != "c" {
		t.Errorf("member of %q, want c", id)
	}
	// The same init, repeated, is answered as the first time.
	if _, err := (*adminNode)(second).Init(t.Context(), init); err != nil {
		t.Errorf("the same init again: %v", err)
	}
	id, err := loadIdentity(second.store)
	if err != nil || id == nil || id.ClusterID != "c" {
		t.Errorf("identity on disk %+v, %v; want c's", id, err)
	}
}

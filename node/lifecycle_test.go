package node

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/adminapi"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestReadinessIsMembershipAndLivenessTheProcess(t *testing.T) {
	n := startNode(t, testConfig(vfs.NewMem()))
	base := "http://" + n.HealthAddr()
	if code, _ := get(t, base+"/healthz"); code != 200 {
		t.Errorf("an empty node's liveness: %d", code)
	}
	if code, _ := get(t, base+"/readyz"); code != 503 {
		t.Errorf("an empty node's readiness: %d, want 503", code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.InitAlone(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, base+"/readyz"); code != 200 {
		t.Errorf("a member's readiness: %d %s", code, body)
	}
	code, body := get(t, base+"/metrics")
	if code != 200 {
		t.Fatalf("metrics: %d", code)
	}
	for _, name := range []string{"runnel_wal_sync_seconds", "runnel_base_disk_bytes", "runnel_groups_held 3", "runnel_peer_sent_bytes_total", "runnel_live_readers"} {
		if !strings.Contains(body, name) {
			t.Errorf("a member's metrics lack %s", name)
		}
	}
}

// A node is asked to end while it is on its way to be a member.
func TestANodeThatEndsWhileItIsInitializedLeavesNothingRunning(t *testing.T) {
	for range 5 {
		fs := vfs.NewMem()
		n, err := Start(t.Context(), testConfig(fs))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		var init sync.WaitGroup
		init.Go(func() {
			_, _ = (*adminNode)(n).Init(ctx, adminapi.InitRequest{ClusterID: "c", Token: "t", Groups: 2, ReplicationFactor: 1, Nodes: 1})
		})
		stopNode(t, n)
		cancel()
		init.Wait()
		// The directory is free for the next start, which goes on from there.
		again, err := Start(t.Context(), testConfig(fs))
		if err != nil {
			t.Fatal(err)
		}
		stopNode(t, again)
	}
}

func TestTheTokenIsPersistedBeforeItIsUsed(t *testing.T) {
	fs := vfs.NewMem()
	first, err := Start(t.Context(), testConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	token := first.token
	stopNode(t, first)
	if n := startNode(t, testConfig(fs)); n.token != token || len(token) != 32 {
		t.Errorf("token %q after a restart, %q before", n.token, token)
	}
}

func TestALogOfWhichOnlyTheSegmentsAreGoneIsAMissingLog(t *testing.T) {
	fs := vfs.NewMem()
	n, err := Start(t.Context(), testConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = n.InitAlone(ctx, 1)
	stopNode(t, n)
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("/data/wal")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".wal") {
			if err := fs.Remove("/data/wal/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	n, err = Start(t.Context(), testConfig(fs))
	if err == nil {
		stopNode(t, n)
	}
	if err == nil || !strings.Contains(err.Error(), "this node had a log") {
		t.Errorf("error %v, want one that says that the log is missing", err)
	}
}

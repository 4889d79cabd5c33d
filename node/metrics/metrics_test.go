package metrics

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/basestore"
	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/wal"
)

func names(t *testing.T, s Sources) []string {
	t.Helper()
	families, err := Registry(func() Sources { return s }).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "runnel_") {
			out = append(out, f.GetName())
		}
	}
	return out
}

func TestAScrapeHasTheNamesThatAreThere(t *testing.T) {
	if got := names(t, Sources{}); len(got) != 0 {
		t.Errorf("a node without parts shows %v", got)
	}
	fs := vfs.NewMem()
	base, err := basestore.Open(basestore.Options{FS: fs, Dir: "base"})
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	log, _, err := wal.Open(wal.Options{FS: fs, Dir: "wal", Cluster: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	got := names(t, Sources{Log: log, Base: base, Live: live.NewRegistry(live.Limits{})})
	want := []string{
		"runnel_base_block_cache_bytes", "runnel_base_compaction_debt_bytes", "runnel_base_disk_bytes", "runnel_base_l0_sublevels",
		"runnel_base_record_cache_bytes", "runnel_base_tail_cache_bytes",
		"runnel_live_bytes", "runnel_live_encodes_total", "runnel_live_readers", "runnel_live_topics",
		"runnel_wal_buffer_bytes", "runnel_wal_bytes", "runnel_wal_queue_bytes", "runnel_wal_segments", "runnel_wal_sync_seconds",
		"runnel_wal_writes_total", "runnel_wal_written_bytes_total",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestSyncTimesAreACumulativeHistogram(t *testing.T) {
	st := wal.Stats{}
	sum := uint64(0)
	for i := range wal.SyncBounds {
		st.SyncBuckets[i] = uint64(i + 1)
		sum += uint64(i + 1)
	}
	got := buckets(&st)
	if len(got) != len(wal.SyncBounds) {
		t.Fatalf("%d buckets, want %d", len(got), len(wal.SyncBounds))
	}
	if last := got[wal.SyncBounds[len(wal.SyncBounds)-1].Seconds()]; last != sum {
		t.Errorf("the last bucket counts %d, want %d", last, sum)
	}
}

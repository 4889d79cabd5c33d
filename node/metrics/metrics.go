// Package metrics shows a node's state to Prometheus.
//
// The invariant it keeps: a scrape reads counters that the parts keep anyway.
// Nothing on a request's way knows of it, and the number of series does not
// grow with streams, groups or clients.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"runnel.dev/runnel/node/basestore"
	"runnel.dev/runnel/node/live"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/transport"
	"runnel.dev/runnel/node/wal"
)

// Sources are the parts of a node; any of them may be nil.
type Sources struct {
	Log    *wal.Log
	Base   *basestore.Store
	Groups *raftgroup.Host
	Peers  *transport.Transport
	Live   *live.Registry
}

// Registry returns a registry that reads from what sources returns at each scrape.
func Registry(sources func() Sources) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{sources: sources},
	)
	return r
}

type collector struct{ sources func() Sources }

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("runnel_"+name, help, nil, nil)
}

var (
	walSegments   = desc("wal_segments", "Log segments in use.")
	walBytes      = desc("wal_bytes", "Bytes of the log segments in use.")
	walQueue      = desc("wal_queue_bytes", "Bytes that wait for the log's writer.")
	walBuffer     = desc("wal_buffer_bytes", "Memory of the log's write buffer.")
	walWritten    = desc("wal_written_bytes_total", "Bytes written to the log.")
	walWrites     = desc("wal_writes_total", "Replica writes that the log completed.")
	walSync       = desc("wal_sync_seconds", "Duration of the log's write-and-sync rounds.")
	baseDisk      = desc("base_disk_bytes", "Bytes of the base store on disk.")
	baseBlocks    = desc("base_block_cache_bytes", "Bytes of cached table blocks.")
	baseRecords   = desc("base_record_cache_bytes", "Bytes of cached stream and producer records.")
	baseTails     = desc("base_tail_cache_bytes", "Bytes of cached stream tails.")
	baseDebt      = desc("base_compaction_debt_bytes", "Bytes that compactions still have to move.")
	baseSublevels = desc("base_l0_sublevels", "Sublevels of level 0; many of them slow reads down.")
	groupsHeld    = desc("groups_held", "Groups that this node has a replica of, the cluster's own included.")
	groupsLed     = desc("groups_led", "Groups that this node leads.")
	groupsBad     = desc("groups_unhealthy", "Groups here without a known leader, or whose apply has stopped.")
	proposals     = desc("proposals_total", "Commands that were proposed.")
	entries       = desc("proposed_entries_total", "Log entries that the proposed commands became.")
	mailboxBytes  = desc("mailbox_bytes", "Bytes that wait for the shards.")
	entryCache    = desc("entry_cache_bytes", "Bytes of recent log entries in memory.")
	dropped       = desc("mailbox_dropped_messages_total", "Peer messages dropped at the mailbox's bound.")
	peerSent      = desc("peer_sent_bytes_total", "Bytes sent to peers.")
	peerReceived  = desc("peer_received_bytes_total", "Bytes received from peers.")
	peerDropped   = desc("peer_dropped_messages_total", "Messages to peers that were dropped; raft sends again.")
	peerFailures  = desc("peer_connection_failures_total", "Outgoing peer connections that failed or ended.")
	liveReaders   = desc("live_readers", "Readers that wait for a stream to grow.")
	liveTopics    = desc("live_topics", "Streams that have waiting readers.")
	liveBytes     = desc("live_bytes", "Bytes of events kept for waiting readers.")
	liveEncodes   = desc("live_encodes_total", "Events encoded for readers; each is encoded once for all that share it.")
)

// Describe sends nothing: which metrics there are depends on the node's state.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the counters.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	counter := func(d *prometheus.Desc, v uint64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	s := c.sources()
	if s.Log != nil {
		st := s.Log.Stats()
		gauge(walSegments, float64(st.Segments))
		gauge(walBytes, float64(st.Bytes))
		gauge(walQueue, float64(st.QueueBytes))
		gauge(walBuffer, float64(st.BufferBytes))
		counter(walWritten, st.WrittenBytes)
		counter(walWrites, st.Writes)
		out <- prometheus.MustNewConstHistogram(walSync, st.Rounds, st.SyncTime.Seconds(), buckets(&st))
	}
	if s.Base != nil {
		st := s.Base.Stats()
		gauge(baseDisk, float64(st.DiskBytes))
		gauge(baseBlocks, float64(st.BlockCacheBytes))
		gauge(baseRecords, float64(st.RecordCacheBytes))
		gauge(baseTails, float64(st.TailCacheBytes))
		gauge(baseDebt, float64(st.CompactionDebt))
		gauge(baseSublevels, float64(st.L0Sublevels))
	}
	if s.Groups != nil {
		st := s.Groups.Stats()
		gauge(groupsHeld, float64(st.Groups))
		gauge(groupsLed, float64(st.Leading))
		gauge(groupsBad, float64(st.Unhealthy))
		counter(proposals, st.Proposals)
		counter(entries, st.Entries)
		gauge(mailboxBytes, float64(st.MailboxBytes))
		gauge(entryCache, float64(st.CachedBytes))
		counter(dropped, st.DroppedMessages)
	}
	if s.Peers != nil {
		st := s.Peers.Stats()
		counter(peerSent, st.BytesSent)
		counter(peerReceived, st.BytesReceived)
		counter(peerDropped, st.MessagesDropped)
		counter(peerFailures, st.Failures)
	}
	if s.Live != nil {
		st := s.Live.Stats()
		gauge(liveReaders, float64(st.Watches))
		gauge(liveTopics, float64(st.Topics))
		gauge(liveBytes, float64(st.Bytes))
		counter(liveEncodes, st.Encodes)
	}
}

// buckets turns the log's counts by duration into cumulative ones.
func buckets(st *wal.Stats) map[float64]uint64 {
	out := make(map[float64]uint64, len(wal.SyncBounds))
	sum := uint64(0)
	for i, bound := range wal.SyncBounds {
		sum += st.SyncBuckets[i]
		out[bound.Seconds()] = sum
	}
	return out
}

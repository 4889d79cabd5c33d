package basestore

import (
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion numbers what this package writes: keys, values and the merger.
const formatVersion = 1

// pebbleFormat is pinned: excise needs 16, write-ahead log chunks that tell a
// torn tail from damage need 20, and table footers with checksums 21. Raising
// it makes the directory unreadable for older programs, so it moves with the
// cluster version, never with the library.
const pebbleFormat = pebble.FormatTableFormatV6

// Options say where the store lies and how much memory it takes. A zero bound
// takes the default.
type Options struct {
	FS  vfs.FS // vfs.Default when nil
	Dir string
	// CacheBytes bounds the cache of table blocks; 64 MiB by default.
	CacheBytes int64
	// RecordCacheBytes bounds the cache of stream and producer records; 64 MiB
	// by default, negative for none.
	RecordCacheBytes int64
	// TailCacheBytes bounds the newest bytes of streams that are kept for tail
	// readers; 32 MiB by default, negative for none.
	TailCacheBytes int64
	// MemTableBytes is the size of one memtable, 16 MiB by default. There are at
	// most memTables of them, and one batch larger than half of one.
	MemTableBytes int64
	// OnFatal is told, once, of the first failed write or damage, from any
	// goroutine, where it happens. The store takes no write after it and can't be
	// closed in order: the process should stop.
	OnFatal func(error)
	Logger  *slog.Logger // slog.Default() when nil
}

const memTables = 4

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) {}
	}
	bound := func(v *int64, def int64) {
		switch {
		case *v == 0:
			*v = def
		case *v < 0:
			*v = 0
		}
	}
	bound(&o.CacheBytes, 64<<20)
	bound(&o.RecordCacheBytes, 64<<20)
	bound(&o.TailCacheBytes, 32<<20)
	bound(&o.MemTableBytes, 16<<20)
	return o
}

// pebbleOptions are for a small node: bounded memtables, one compaction unless
// debt grows, and no background work that reads set off.
func pebbleOptions(o Options, log *pebbleLogger) *pebble.Options {
	p := &pebble.Options{
		FS:                          o.FS,
		FormatMajorVersion:          pebbleFormat,
		Merger:                      concatMerger,
		Cache:                       pebble.NewCache(max(o.CacheBytes, 1<<20)),
		MemTableSize:                uint64(o.MemTableBytes),
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               64 << 20,
		FlushSplitBytes:             2 << 20,
		MaxOpenFiles:                500,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		// The node's own log syncs on the same disk: dirty pages are written out
		// steadily, so that no sync of it has to wait for a burst of ours.
		BytesPerSync:    1 << 20,
		WALBytesPerSync: 1 << 20,
		Logger:          log,
		EventListener: &pebble.EventListener{
			BackgroundError: log.fail,
			DataCorruption:  func(info pebble.DataCorruptionInfo) { log.fail(info.Details) },
			WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
				o.Logger.Warn("base store stalls writes", "reason", info.Reason)
			},
			WriteStallEnd: func() { o.Logger.Info("base store accepts writes again") },
			DiskSlow: func(info pebble.DiskSlowInfo) {
				o.Logger.Warn("slow disk", "path", info.Path, "op", info.OpType.String(), "duration", info.Duration)
			},
		},
	}
	p.Experimental.ReadSamplingMultiplier = -1
	for i := range p.Levels {
		p.Levels[i].BlockSize = 16 << 10
		p.Levels[i].IndexBlockSize = 64 << 10
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return p
}

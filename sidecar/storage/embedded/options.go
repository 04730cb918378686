package embedded

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/time/rate"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// The defaults. Memtables, and batches that are larger than these, take their memory from the block cache: beside two,
// and the greatest value, there is room for blocks. A store takes less than 2 MiB when idle.
const (
	DefaultCacheBytes    = 32 << 20
	DefaultMemTableBytes = 4 << 20
	defaultOpenFiles     = 256
)

// diskFormat is fixed rather than "newest", because a store cannot be opened with an older Pebble once it was upgraded.
const diskFormat = pebble.FormatValueSeparation

// Values from a size on are kept in files of their own, and tables name them: else the block of a large value would
// also hold the keys before it, which could only be read with it, and each compaction would copy the value.
const (
	defaultSeparateFrom = 32 << 10
	// maxBlobDepth bounds how many files of values the keys of a small range may have theirs in. Beyond it, a
	// compaction copies values.
	maxBlobDepth = 10
	// Files of values are rewritten when they are as old, and so large a part of all their values is garbage.
	defaultRewriteAge, garbageRatio = time.Minute, 0.2
)

// Options configure a store. The zero value selects the defaults.
type Options struct {
	// FS is the file system. Default vfs.Default.
	FS vfs.FS
	// Cache is a block cache that several stores share. Default: the store has its own, of CacheBytes.
	Cache *pebble.Cache
	// CacheBytes is the size of the store's own block cache. Default DefaultCacheBytes.
	CacheBytes int64
	// MemTableBytes is the size of a memtable, of which there may be two. Default DefaultMemTableBytes.
	MemTableBytes uint64
	// Logger receives Pebble's messages at debug level and its errors at error level. Default slog.Default().
	Logger *slog.Logger
	// Stop, when it is closed, makes everything fail that waits for space on a full disk. Without it, Close may wait as
	// long as the disk is full.
	Stop <-chan struct{}
	// OnFull is called at intervals while Open or a write waits for space on a full disk. It may be nil.
	OnFull func(error)
	// OnFatal is called when the store cannot go on, and must not return. Default: panic.
	OnFatal func(error)
	// CheckOwner is called by Open with a store that has lost data, before it says so. An error of it is that of Open:
	// the store belongs to somebody else. It may be nil.
	CheckOwner func(storage.Store) error
	// KeepsRest makes Renew begin with what is left of the damaged store, if it is known what that lacks.
	KeepsRest bool

	separateFrom int           // 0: defaultSeparateFrom
	rewriteAge   time.Duration // 0: defaultRewriteAge
	trusting     bool          // the mutation: what Pebble finds is taken for everything there was
}

// withDefaults returns the options with defaults for what is used here too.
func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.OnFatal == nil {
		o.OnFatal = func(err error) { panic(err) }
	}
	return o
}

func (o Options) pebble(s *Store) *pebble.Options {
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = DefaultMemTableBytes
	}
	if o.separateFrom == 0 {
		o.separateFrom = defaultSeparateFrom
	}
	if o.rewriteAge == 0 {
		o.rewriteAge = defaultRewriteAge
	}
	backgroundErrors := rate.Sometimes{First: 1, Interval: 10 * time.Second}
	p := &pebble.Options{
		FS:                 o.FS,
		Cache:              o.Cache,
		CacheSize:          o.CacheBytes,
		MemTableSize:       o.MemTableBytes,
		MaxOpenFiles:       defaultOpenFiles,
		FormatMajorVersion: diskFormat,
		Logger:             logger{o.Logger, o.OnFatal},
		EventListener: &pebble.EventListener{
			DiskSlow: func(info pebble.DiskSlowInfo) {
				o.Logger.Warn("storage: slow disk", "path", info.Path, "op", info.OpType.String(), "duration",
					info.Duration.Round(time.Millisecond))
			},
			// Called by the goroutine that reads. Its error is that of the read, or of a compaction, which Pebble
			// repeats.
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				_ = s.noteLost(fmt.Errorf("%s: %w", info.Path, info.Details))
			},
			WALCreated: func(info pebble.WALCreateInfo) {
				s.rotated.Store(true)
				s.noteFiles(info.Err, func() error { return s.ledger.addLog(uint64(info.FileNum)) })
			},
			ManifestCreated: func(info pebble.ManifestCreateInfo) {
				s.noteFiles(info.Err, func() error { return s.ledger.useManifest(uint64(info.FileNum)) })
			},
			BackgroundError: func(err error) { // of a flush or compaction, which Pebble repeats
				backgroundErrors.Do(func() {
					o.Logger.Error("storage: a flush or compaction failed and is repeated", "error", err)
				})
			},
		},
	}
	separation := pebble.ValueSeparationPolicy{Enabled: true, MinimumSize: o.separateFrom,
		MaxBlobReferenceDepth: maxBlobDepth,
		RewriteMinimumAge:     o.rewriteAge, TargetGarbageRatio: garbageRatio}
	p.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy { return separation }
	// The middleman reads a key before it writes it; the filter answers for most new keys without reading a table.
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return p
}

// logger forwards Pebble's log to slog.
type logger struct {
	to      *slog.Logger
	onFatal func(error)
}

func (l logger) Infof(format string, args ...any) {
	l.to.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	l.to.Error("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf ends the process: Pebble calls it when the contents of the disk are unknown and it must not continue.
func (l logger) Fatalf(format string, args ...any) {
	l.onFatal(fmt.Errorf("pebble: "+format, args...))
}

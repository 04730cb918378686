package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The defaults suit a process that holds a dozen stores: about 20 MiB each when busy, less than 2 MiB when idle.
const (
	DefaultCacheBytes    = 8 << 20
	DefaultMemTableBytes = 4 << 20
	defaultOpenFiles     = 256
)

// diskFormat is fixed here rather than "newest", because a store cannot be opened by an older library afterwards.
const diskFormat = pebble.FormatWALSyncChunks

// Options of a store. The zero value is a good one.
type Options struct {
	// FS is the file system; nil is the disk.
	FS vfs.FS
	// Cache is a block cache to share between stores; nil gives the store its own, of CacheBytes.
	Cache *pebble.Cache
	// CacheBytes bounds the store's own block cache. Default DefaultCacheBytes.
	CacheBytes int64
	// MemTableBytes is the size of a memtable; there may be two. Default DefaultMemTableBytes.
	MemTableBytes uint64
	// Logger gets what Pebble says, at debug level; its errors at error level. Default slog.Default().
	Logger *slog.Logger
}

func (o Options) pebble() *pebble.Options {
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = DefaultMemTableBytes
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &pebble.Options{
		FS:                 o.FS,
		Cache:              o.Cache,
		CacheSize:          o.CacheBytes,
		MemTableSize:       o.MemTableBytes,
		MaxOpenFiles:       defaultOpenFiles,
		FormatMajorVersion: diskFormat,
		Logger:             logger{o.Logger},
		EventListener: &pebble.EventListener{
			DiskSlow: func(info pebble.DiskSlowInfo) {
				o.Logger.Warn("storage: slow disk", "path", info.Path, "op", info.OpType.String(), "duration", info.Duration.Round(time.Millisecond))
			},
		},
	}
	// Apply looks up whether each key exists, to count keys; the filter answers for most new keys without a read.
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return p
}

// explain turns the errors of opening that have a remedy into ones that say it.
func explain(dir string, fs vfs.FS, err error) error {
	if fs == nil {
		fs = vfs.Default
	}
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("open store in %s: %w; the directory must be writable by this process", dir, err)
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("open store in %s: %w; move the directory away, and the middle man fills a new one from its peers", dir, err)
	case locked(dir, fs):
		return fmt.Errorf("open store in %s: it is already open, here or in another process; each store needs a directory of its own: %w", dir, err)
	}
	return fmt.Errorf("open store in %s: %w", dir, err)
}

// locked reports whether somebody holds the lock of dir; Pebble's error does not tell in a way that can be tested.
func locked(dir string, fs vfs.FS) bool {
	if _, err := fs.Stat(dir); err != nil {
		return false
	}
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		return true
	}
	_ = lock.Close() // it was only tried
	return false
}

// logger passes Pebble's log on to slog.
type logger struct{ to *slog.Logger }

func (l logger) Infof(format string, args ...any) {
	l.to.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	l.to.Error("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf ends the process: Pebble calls it when it can no longer tell what is on the disk, and must not go on.
func (l logger) Fatalf(format string, args ...any) {
	message := "pebble: " + fmt.Sprintf(format, args...)
	l.to.Error(message)
	panic(message)
}

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// pageCache has the ends of lists of names whose values are still to be read: an engine may return names in groups that
// it cannot divide, and the values of one group may exceed a page by far. Only runTasks uses it.
type pageCache struct {
	last  uint64 // number of the last rest
	rests []restOfNames
}

// restOfNames are names that follow a page. They are kept when they are read, since a page may be asked for again.
type restOfNames struct {
	cursor string
	names  []string
	next   string // of the engine, after these names
}

const (
	// maxRests bounds how many rests are kept, each of at most about storage.MaxNamesBytes. Three pages back suffice
	// for two members that copy.
	maxRests = 8
	// pageNames is the number of names that are listed at a time, and pageReads that of values that are read at a time.
	pageNames, pageReads = 1000, 64
	// restPrefix begins the cursor of a rest, enginePrefix that of an engine.
	restPrefix, enginePrefix = "r", "e"
)

// keep notes a rest and returns its cursor.
func (c *pageCache) keep(names []string, next string) string {
	if len(names) == 0 {
		if next == "" {
			return ""
		}
		return enginePrefix + next
	}
	if len(c.rests) == maxRests {
		c.rests = slices.Delete(c.rests, 0, 1)
	}
	c.last++
	cursor := restPrefix + strconv.FormatUint(c.last, 10)
	c.rests = append(c.rests, restOfNames{cursor, names, next})
	return cursor
}

// namesAt returns the names at a cursor.
func (mm *shardDriver[M]) namesAt(ctx context.Context, cursor string) (names []string, next string, err error) {
	switch {
	case cursor == "":
		return mm.store.Keys(ctx, "", pageNames)
	case cursor[:1] == enginePrefix:
		return mm.store.Keys(ctx, cursor[1:], pageNames)
	}
	for _, r := range mm.pages.rests {
		if r.cursor == cursor {
			return r.names, r.next, nil
		}
	}
	return nil, "", storage.ErrCursor
}

// readPage reads a page of the storage. Values that this deployment did not write are left out, as in a resharding.
func (mm *shardDriver[M]) readPage(ctx context.Context, t *member.StorageTask) (r process.EffectResult) {
	names, next, err := mm.namesAt(ctx, t.After)
	if err != nil {
		return process.EffectResult{Err: fmt.Errorf("list keys to copy: %w", err)}
	}
	if t.First {
		if r.Meta, err = readMiddlemanMeta(ctx, mm.store); err != nil {
			return process.EffectResult{Err: err}
		}
	}
	bytes := 0
	for len(names) > 0 && bytes < t.MaxBytes {
		results, err := mm.store.GetMany(ctx, names[:min(pageReads, len(names))], t.MaxBytes-bytes)
		if err != nil {
			return process.EffectResult{Err: fmt.Errorf("read keys to copy: %w", err)}
		}
		taken := 0
		for ; taken < len(results) && bytes < t.MaxBytes; taken++ {
			if a := results[taken]; a.Found {
				bytes += len(names[taken]) + a.Record.Value.Size()
				if len(r.Records) > 0 && bytes > t.MaxBytes {
					break // it is read again, for the next page: beside others, even a record that fits alone might not
				}
				r.Records = append(r.Records, causal.Moved{Key: names[taken], Record: a.Record})
			} else if errors.Is(a.Err, storage.ErrForeign) {
				mm.logger.Warn("a value that this deployment did not write is not copied to another member", "key",
					names[taken])
			}
		}
		names = names[taken:]
	}
	r.Next = mm.pages.keep(names, next)
	return r
}

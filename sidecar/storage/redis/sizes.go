package redis

import (
	"context"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// A server answers a read as a whole, however large the values are: there and here, all of it takes memory. So a store
// knows which values may be large before it reads them. It has written every value since it was opened, and asks the
// server for the sizes of the others.

const (
	// smallValue is the size up to which a value is read without asking for its size.
	smallValue = 16 << 10
	// maxLargeKeys bounds the keys that are remembered. If more of them have large values, the store asks for the size
	// of every value.
	maxLargeKeys = 1 << 18
)

// sizes knows which values may be larger than smallValue. The zero value knows that none is.
type sizes struct {
	mu sync.Mutex
	// unknown says that any value may be large: those from before the store was opened were not looked at yet, or too
	// many are large.
	unknown bool
	tooMany bool                // unknown for good
	large   map[uint64]struct{} // by hash of the key
}

// noteUnknown says that the server has values whose sizes were never seen.
func (s *sizes) noteUnknown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown = true
}

// noteScanned says that the sizes of all values were noted, unless they were written meanwhile.
func (s *sizes) noteScanned() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown = s.tooMany
}

// noteLarge says that the value of a key may be large from now on.
func (s *sizes) noteLarge(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(key)
}

// add needs s.mu.
func (s *sizes) add(key string) {
	switch {
	case s.tooMany:
	case len(s.large) >= maxLargeKeys:
		s.unknown, s.tooMany, s.large = true, true, nil
	default:
		if s.large == nil {
			s.large = map[uint64]struct{}{}
		}
		s.large[topology.Hash(key)] = struct{}{}
	}
}

// noteBefore notes what writes that are about to be done may make large.
func (s *sizes) noteBefore(writes []storage.Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range writes {
		if w := &writes[i]; !w.Delete && storage.EncodedLen(w.Record) > smallValue {
			s.add(w.Key)
		}
	}
}

// noteAfter notes what writes that were done have made small. In their order: a key may be written twice.
func (s *sizes) noteAfter(writes []storage.Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.large) == 0 {
		return
	}
	for i := range writes {
		w := &writes[i]
		if w.Delete || storage.EncodedLen(w.Record) <= smallValue {
			delete(s.large, topology.Hash(w.Key))
		} else {
			s.add(w.Key)
		}
	}
}

// mayBeLarge returns the indexes of the keys whose values may be large.
func (s *sizes) mayBeLarge(keys []string) (indexes []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unknown && len(s.large) == 0 {
		return nil
	}
	for i, key := range keys {
		if _, large := s.large[topology.Hash(key)]; large || s.unknown {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// readable returns how many of the keys may be read at once: one at least, and no more once their values may have
// maxBytes.
func (s *Store) readable(ctx context.Context, l *link, keys []string, maxBytes int) (int, error) {
	n := min(len(keys), max(1, maxBytes/smallValue))
	doubtful := s.sizes.mayBeLarge(keys[:n])
	if len(doubtful) == 0 {
		return n, nil
	}
	pipe := l.reads.Pipeline()
	replies := make([]*goredis.IntCmd, len(doubtful))
	for i, k := range doubtful {
		replies[i] = pipe.StrLen(ctx, nameOf(keys[k]))
	}
	if err := pipelineError(pipe.Exec(ctx)); err != nil {
		return 0, err
	}
	bytes, asked := 0, 0
	for i := range keys[:n] {
		if i > 0 && bytes >= maxBytes {
			return i, nil
		}
		size := smallValue
		if asked < len(doubtful) && doubtful[asked] == i {
			size = int(replies[asked].Val()) // 0 of what is no string
			asked++
		}
		if size > smallValue {
			s.sizes.noteLarge(keys[i])
		}
		bytes += size
	}
	return n, nil
}

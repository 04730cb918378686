package node

import (
	"context"
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
)

// maxScanCursors bounds the cursors of SCAN that are remembered; the oldest is forgotten.
const maxScanCursors = 128

// scanCursors holds where scans are. Redis' clients know a scan by a number, on whichever connection they continue it.
// A number may be used several times, and is not reused.
type scanCursors struct {
	mu sync.Mutex
	// the newest; the first is random, so that a number of an earlier process is not taken for one of this
	last   uint64
	places map[uint64]scanPlace
}

// scanPlace is where a scan continues.
type scanPlace struct {
	position session.ScanPosition
	rest     []string // keys that were found, and come first
}

func newScanCursors() *scanCursors {
	// clients may use floating-point numbers
	return &scanCursors{last: NewSidecarIndex() >> 16, places: map[uint64]scanPlace{}}
}

func (c *scanCursors) add(p scanPlace) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.places[c.last] = p
	delete(c.places, c.last-maxScanCursors)
	return c.last
}

func (c *scanCursors) find(cursor uint64) (scanPlace, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.places[cursor]
	return p, ok
}

// Scan implements front.Session.
func (c *clientSession) Scan(_ context.Context, cursor uint64, limit int) (stored []string, next uint64, err error) {
	var p scanPlace
	if cursor != 0 {
		var ok bool
		if p, ok = c.sidecar.scans.find(cursor); !ok {
			return nil, 0, front.Errorf(front.Refused,
				"this sidecar does not know the cursor, or no longer: begin again with 0")
		}
	}
	if len(p.rest) == 0 {
		r := c.execute(session.Op{Kind: session.OpScan, Scan: p.position, Limit: limit})
		switch {
		case r.Err == causal.ErrNotFound:
			return nil, 0, front.Errorf(front.Refused,
				"the scan cannot continue, because shards have changed or a storage has restarted: begin again with 0")
		case r.Err != causal.OK:
			return nil, 0, c.recordOutcome(r, "scan")
		}
		p.position, p.rest = r.Scan, r.Keys
	}
	n := min(limit, len(p.rest))
	stored, p.rest = p.rest[:n:n], p.rest[n:]
	if p.position.Done && len(p.rest) == 0 {
		return stored, 0, nil
	}
	return stored, c.sidecar.scans.add(p), nil
}

package node

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
)

// scanPlace is where the last scan of a connection continues. A cursor says the same by a number of the shard's, which
// the shard forgets some time.
type scanPlace struct {
	cursor   uint64
	position session.ScanPosition
}

// errNoPlace refuses a cursor.
var errNoPlace = front.Errorf(front.Refused, "the scan cannot continue: shards have changed, a storage, a shard or "+
	"the coordinator has restarted, or it has forgotten the cursor: begin again with 0")

// Scan implements front.Session.
func (c *clientSession) Scan(_ context.Context, cursor uint64, limit int) (stored []string, next uint64, err error) {
	op := session.Op{Kind: session.OpScan, Cursor: cursor, Limit: limit, Level: c.level()}
	if cursor != 0 && cursor == c.lastScan.cursor {
		op.Cursor, op.Scan = 0, c.lastScan.position
	}
	r := c.execute(op)
	switch {
	case r.Err == causal.ErrNotFound:
		return nil, 0, errNoPlace
	case r.Err != causal.OK:
		return nil, 0, c.recordOutcome(r, "scan")
	}
	next, known := r.Scan.Cursor()
	if !known { // by this connection only
		next = c.lastScan.cursor%unknownCursors + 1
	}
	if next != 0 {
		c.lastScan = scanPlace{next, r.Scan}
	}
	return r.Keys, next, nil
}

// unknownCursors bounds the cursors that only their connection understands. No other one is so small.
const unknownCursors = 1 << 32

package sim

import (
	"maps"
	"slices"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// A scan names keys, and a client reads those. So a key that it does not name was read as missing, at some time during
// the scan: that is what the history says, and the checker judges. Keys that nobody has written are left out.

// scanLimit is how many keys a call of a scan asks for: few, so that a scan takes several.
const scanLimit = 3

// scan is the scan of a process in progress.
type scan struct {
	named map[string]bool
	start int64
}

// scanAll makes the process scan all keys.
func (p *client) scanAll() {
	p.busy, p.scan = true, &scan{named: map[string]bool{}, start: p.load.world.now}
	p.scanNext(session.ScanPosition{})
}

func (p *client) scanNext(from session.ScanPosition) {
	w := p.load.world
	p.load.nextOp++
	op := session.Op{Kind: session.OpScan, ID: p.load.nextOp, Session: p.id, Scan: from, Limit: scanLimit}
	if cursor, ok := from.Cursor(); ok && len(p.scan.named) > 0 && op.ID%2 == 0 {
		op.Scan, op.Cursor = session.ScanPosition{}, cursor // as another sidecar does
	}
	p.load.pending[op.ID] = p
	withMachine(w, p.sidecar, func(m *session.Sidecar, now causal.Now) { m.Do(now, op) })
}

// continueScan takes the result of one call. A scan that fails says nothing.
func (p *client) continueScan(r *session.Result) {
	w := p.load.world
	if r.Err == causal.OK {
		for _, key := range r.Keys {
			p.scan.named[key] = true
		}
		if !r.Scan.Done {
			w.schedule(1, func() { p.scanNext(r.Scan) })
			return
		}
		p.load.scans++
		p.recordUnnamed()
	}
	named := slices.Sorted(maps.Keys(p.scan.named))
	p.busy, p.scan = false, nil
	r.Keys = named
	if p.onResult != nil {
		p.onResult(r)
	}
	if !p.scripted {
		w.schedule(1+w.rng.Int64N(int64(p.load.thinkTime)), p.issueNext)
	}
}

// recordUnnamed records a read for each written key that the scan has not named.
func (p *client) recordUnnamed() {
	written := map[string]bool{}
	for i := range p.load.history {
		if o := &p.load.history[i]; o.Kind == history.Put || o.Kind == history.Add {
			written[o.Key] = true
		}
	}
	w := p.load.world
	for _, key := range slices.Sorted(maps.Keys(written)) {
		if !p.scan.named[key] {
			p.load.history = append(p.load.history,
				history.Op{Session: p.session, Process: p.name, DC: w.topo.DCs[p.sidecar.DC].Name, Kind: history.Get,
					Level: w.settings.Level, Key: key, Missing: true, Start: p.scan.start, End: w.now, OK: true})
		}
	}
}

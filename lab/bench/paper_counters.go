package bench

import (
	"context"
	"time"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// counters are what a deployment has counted since its start, or between two readings.
type counters struct {
	at       time.Time
	reads    session.Stats
	sessions int
	wan      local.WANState
	pairs    []local.RingPair
	inFlight []local.RingTimes
	cpu      time.Duration
	resident int64
}

func (s *system) counters(ctx context.Context) (counters, error) {
	st, err := s.plane.state(ctx)
	if err != nil {
		return counters{}, err
	}
	c := counters{at: time.Now(), wan: st.WAN, pairs: st.RingPairs, inFlight: st.InFlight}
	for _, dc := range st.DataCenters {
		c.reads = plus(c.reads, session.Stats{}, dc.Sidecar)
		c.sessions += dc.Sessions
	}
	if c.cpu, err = cpuTime(s.plane.pid()); err != nil {
		return c, err
	}
	c.resident, err = residentBytes(s.plane.pid())
	return c, err
}

// since subtracts an earlier reading. Memory is the current one.
func (c counters) since(b counters) counters {
	d := counters{reads: plus(session.Stats{}, b.reads, c.reads), sessions: c.sessions, cpu: c.cpu - b.cpu,
		resident: c.resident}
	d.wan.Messages, d.wan.Bytes, d.wan.PayloadBytes = c.wan.Messages-b.wan.Messages, c.wan.Bytes-b.wan.Bytes,
		c.wan.PayloadBytes-b.wan.PayloadBytes
	for i, p := range c.pairs {
		d.pairs = append(d.pairs, local.RingPair{From: p.From, To: p.To,
			Visible:      durationsSince(p.Visible, b.pairs[i].Visible),
			Acknowledged: durationsSince(p.Acknowledged, b.pairs[i].Acknowledged)})
	}
	for i, r := range c.inFlight {
		d.inFlight = append(d.inFlight, local.RingTimes{Ring: r.Ring,
			Complete: durationsSince(r.Complete, b.inFlight[i].Complete)})
	}
	return d
}

// add adds another interval.
func (c *counters) add(d counters) {
	c.reads = plus(c.reads, session.Stats{}, d.reads)
	c.wan.Messages += d.wan.Messages
	c.wan.Bytes += d.wan.Bytes
	c.wan.PayloadBytes += d.wan.PayloadBytes
	if c.pairs == nil {
		c.pairs, c.inFlight = d.pairs, d.inFlight
		return
	}
	for i, p := range d.pairs {
		c.pairs[i].Visible = durationsPlus(c.pairs[i].Visible, p.Visible)
		c.pairs[i].Acknowledged = durationsPlus(c.pairs[i].Acknowledged, p.Acknowledged)
	}
	for i, r := range d.inFlight {
		c.inFlight[i].Complete = durationsPlus(c.inFlight[i].Complete, r.Complete)
	}
}

// answeredReads is the number of values that were read, from wherever.
func answeredReads(r session.Stats) uint64 {
	return r.OwnReads + r.NearHits + r.HomeReads + r.CacheHits + r.LocalReads + r.RemoteReads
}

// plus adds the difference of two readings to the counters that the report uses.
func plus(sum, before, after session.Stats) session.Stats {
	sum.Gets += after.Gets - before.Gets
	sum.Puts += after.Puts - before.Puts
	sum.OwnReads += after.OwnReads - before.OwnReads
	sum.NearHits += after.NearHits - before.NearHits
	sum.HomeReads += after.HomeReads - before.HomeReads
	sum.CacheHits += after.CacheHits - before.CacheHits
	sum.LocalReads += after.LocalReads - before.LocalReads
	sum.RemoteReads += after.RemoteReads - before.RemoteReads
	sum.BoundGets += after.BoundGets - before.BoundGets
	sum.InFlightReads += after.InFlightReads - before.InFlightReads
	sum.Bindings += after.Bindings - before.Bindings
	sum.BoundNs += after.BoundNs - before.BoundNs
	return sum
}

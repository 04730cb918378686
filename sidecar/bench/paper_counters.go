package bench

import (
	"context"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/local"
)

// counters are what a deployment has counted since its start, or between two looks at it.
type counters struct {
	at       time.Time
	reads    causal.SidecarStats
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
		c.reads = plus(c.reads, causal.SidecarStats{}, dc.Sidecar)
		c.sessions += dc.Sessions
	}
	if c.cpu, err = cpuTime(s.plane.pid()); err != nil {
		return c, err
	}
	c.resident, err = residentBytes(s.plane.pid())
	return c, err
}

// since is what came between an earlier look and this one. Memory is as it is now.
func (c counters) since(b counters) counters {
	d := counters{reads: plus(causal.SidecarStats{}, b.reads, c.reads), sessions: c.sessions, cpu: c.cpu - b.cpu, resident: c.resident}
	d.wan.Messages, d.wan.Bytes, d.wan.PayloadBytes = c.wan.Messages-b.wan.Messages, c.wan.Bytes-b.wan.Bytes, c.wan.PayloadBytes-b.wan.PayloadBytes
	for i, p := range c.pairs {
		d.pairs = append(d.pairs, local.RingPair{From: p.From, To: p.To, Visible: durationsSince(p.Visible, b.pairs[i].Visible),
			Acknowledged: durationsSince(p.Acknowledged, b.pairs[i].Acknowledged)})
	}
	for i, r := range c.inFlight {
		d.inFlight = append(d.inFlight, local.RingTimes{Ring: r.Ring, Complete: durationsSince(r.Complete, b.inFlight[i].Complete)})
	}
	return d
}

// add sums up two stretches of time.
func (c *counters) add(d counters) {
	c.reads = plus(c.reads, causal.SidecarStats{}, d.reads)
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

// plus adds what has come between two states of the counters that are of interest.
func plus(sum, before, after causal.SidecarStats) causal.SidecarStats {
	sum.Gets += after.Gets - before.Gets
	sum.Puts += after.Puts - before.Puts
	sum.Own += after.Own - before.Own
	sum.CacheHits += after.CacheHits - before.CacheHits
	sum.Local += after.Local - before.Local
	sum.Remote += after.Remote - before.Remote
	sum.Bound += after.Bound - before.Bound
	sum.InFlight += after.InFlight - before.InFlight
	sum.Bindings += after.Bindings - before.Bindings
	sum.BoundNs += after.BoundNs - before.BoundNs
	return sum
}

package bench

import (
	"context"
	"fmt"
	"time"
)

// sweep measures cells in turn, repeatedly, so that changes of the machine affect all of them.
func (p *paperRun) sweep(ctx context.Context, length time.Duration, cells []*Cell) error {
	for _, c := range cells {
		if _, err := p.fleet.system(ctx, c.spec, c.records()); err != nil {
			return err
		}
	}
	for n := range p.o.Rounds {
		p.o.progress("  round %d of %d", n+1, p.o.Rounds)
		for _, c := range cells {
			if _, err := p.measure(ctx, c, uint64(n)+1, length, nil); err != nil {
				return err
			}
		}
	}
	p.keep(cells)
	return nil
}

// keep adds finished cells to the result.
func (p *paperRun) keep(cells []*Cell) {
	for _, c := range cells {
		c.conclude(p.fleet.systems[c.spec.name()].sites)
		p.res.Cells = append(p.res.Cells, c)
	}
}

// records are the keys that a cell uses.
func (c *Cell) records() records { return newRecords(c.Keys, c.ValueBytes) }

// newCell returns a cell with the default load; its section may change it.
func (p *paperRun) newCell(section string, spec systemSpec, label string, x float64) *Cell {
	c := &Cell{Section: section, Scheme: spec.scheme.Name, Label: label, X: x, ReadRatio: p.o.ReadRatio,
		Clients:    p.o.Clients,
		Keys:       p.o.Keys,
		ValueBytes: p.o.ValueBytes, DataCenters: len(p.fleet.base.DCs), spec: spec}
	if spec.dcs > 0 {
		c.DataCenters = spec.dcs
	}
	return c
}

// settleFor is how long a system may take to complete its writes, after the lead of the next system, before that is
// measured.
const settleFor = 300 * time.Millisecond

// measure runs one round of a cell. Rates, if given, bound the operations per second by data center.
func (p *paperRun) measure(ctx context.Context, c *Cell, round uint64, length time.Duration,
	rates []float64) (*loopResult, error) {
	s, err := p.fleet.system(ctx, c.spec, c.records())
	if err != nil {
		return nil, err
	}
	l := p.loop(s, c, round, length)
	l.rates = rates
	var before, after counters
	var load machineLoad
	previous := p.last
	l.ready = func() (err error) {
		if previous != nil && previous != s {
			if err := previous.awaitIdle(ctx, settleFor); err != nil {
				return err
			}
		}
		if before, err = s.counters(ctx); err == nil {
			load, err = p.machineLoad()
		}
		return err
	}
	l.over = func() (err error) {
		if after, err = s.counters(ctx); err == nil {
			var now machineLoad
			now, err = p.machineLoad()
			p.others.add(load, now)
		}
		return err
	}
	p.last = s
	s.pulse.measured.Store(true)
	defer s.pulse.measured.Store(false)
	r, err := l.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", c.spec.name(), c.Label, err)
	}
	c.add(r, after.since(before))
	return r, nil
}

// loop is the load of a cell, in the manner of YCSB.
func (p *paperRun) loop(s *system, c *Cell, round uint64, length time.Duration) *closedLoop {
	return &closedLoop{addrs: s.addrs, clients: c.Clients, think: p.o.Think, records: c.records(), reads: c.ReadRatio,
		popular: p.fleet.popularity(c.Keys), seed: p.o.Seed<<32 + round, lead: p.o.Lead, length: length}
}

// machineLoad is the load of the machine, and of all systems.
func (p *paperRun) machineLoad() (machineLoad, error) {
	var pids []int
	for _, s := range p.fleet.systems {
		pids = append(pids, s.plane.pid())
	}
	return loadOf(pids)
}

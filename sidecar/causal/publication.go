package causal

// Tick does what is due: resends, publication of the vectors, and the checkpoint in the log.
func (c *Coordinator) Tick(now Now) {
	c.checkpoint(now)
	c.attend(now)
	c.maps.ask(now, c.cfg.Self, c.send)
	for _, l := range c.laneOrder {
		if l.inflight > 0 && now.Mono >= l.resendAt {
			l.backoff = min(l.backoff+1, 3)
			c.resend(now, l, false)
		}
		c.pump(now, l)
	}
	if c.leader != nil {
		c.leader.inUse = c.InUse()
		defer c.leader.tick(now)
	}
	due := c.cfg.IdleEvery
	if c.progress {
		due = c.cfg.PublishEvery
	}
	if now.Mono-c.publishAt < int64(due) {
		return
	}
	if c.leader != nil {
		c.leader.urgent = c.leader.urgent || c.progress
	}
	c.publishAt, c.progress = now.Mono, false
	c.publish(now)
}

// publish computes SV and RV of this origin and sends them with the stable marks. `known` of the leader has every DC's.
func (c *Coordinator) publish(now Now) {
	if !c.inUse() {
		return // the leader does
	}
	idle := c.idle(now)
	e := c.vectors(idle)
	c.learn(c.vouch([]VectorEntry{e}, idle))
	leader := c.cfg.Topology.Leader(c.cfg.Self.DC)
	if c.cfg.Self != leader {
		c.send(Message{Kind: KindVectors, From: c.cfg.Self, To: leader, Vectors: []VectorEntry{e}})
	}
	for _, l := range c.laneOrder {
		if len(l.complete) > 0 {
			c.send(Message{Kind: KindStable, From: c.cfg.Self, To: l.mm, HLC: e.SV, Versions: l.complete})
			l.complete = nil
		}
	}
}

// idle returns up to where nothing is issued any more, not even after a restart: below the ceiling, or issued and durable.
func (c *Coordinator) idle(now Now) HLC {
	// A clock that is behind the others' must not hold back what they wait for to pass all origins.
	if ahead := c.known.MaxSV(); ahead.WallMs() <= now.WallMs+c.cfg.ClockBoundMs && !c.cfg.Broken.has(JoinBelow) {
		c.clock.Raise(ahead)
	}
	return min(c.clock.Peek(now), max(c.held.ceiling, c.lastDurable()))
}

// vectors returns SV and RV of this origin (PROTOCOL §4): the HLC before the oldest write that is not acknowledged, or idle
// when there is none.
func (c *Coordinator) vectors(idle HLC) VectorEntry {
	e := VectorEntry{Origin: c.origin, RV: make([]HLC, len(c.cursor)), SV: ^HLC(0)}
	for r, i := range c.cursor {
		e.RV[r] = idle
		if i < len(c.writes) {
			e.RV[r] = min(idle, c.writes[i].rec.Version.HLC-1)
		}
		e.SV = min(e.SV, e.RV[r])
	}
	if c.cfg.Broken.has(SVEarly) && len(c.writes) > 0 {
		e.SV = c.writes[len(c.writes)-1].rec.Version.HLC
	}
	return e
}

func (c *Coordinator) lastDurable() HLC {
	for i := len(c.writes) - 1; i >= 0; i-- {
		if c.writes[i].durable {
			return c.writes[i].rec.Version.HLC
		}
	}
	return 0
}

// checkpoint keeps the durable ceiling ahead of the clock, so that an idle coordinator may publish SV up to its clock and
// yet never issue such a timestamp after a restart.
func (c *Coordinator) checkpoint(now Now) {
	laid := c.laid.ceiling
	if !c.inUse() || laid > c.clock.Peek(now) && laid > HLCAt(now.WallMs+ceilingMs/2) {
		return
	}
	c.lay(now)
}

// lay makes where this coordinator stands durable.
func (c *Coordinator) lay(now Now) {
	// Counted from the wall clock: after a restart the clock stands at the old ceiling, and must not run away with each.
	c.laid.ceiling = max(c.laid.ceiling, HLCAt(now.WallMs+ceilingMs), c.clock.Peek(now)+HLCAt(ceilingMs/20))
	c.checkpoints = append(c.checkpoints, checkpoint{c.nextIndex, c.laid})
	c.append(c.laid.record(c, c.known.sv[c.origin]))
}

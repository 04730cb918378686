package node

import (
	"context"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/topology"
)

// What clients learn about their session, and carry from one sidecar to another.

// resumeTimeout bounds the wait of Resume.
const resumeTimeout = 10 * time.Second

// Place implements front.Session.
func (c *clientSession) Place() front.Place {
	t := c.sidecar.topo.Load()
	dc := t.DCs[c.sidecar.dc]
	return front.Place{DataCenter: dc.Name, Ring: t.Rings[dc.Ring].Name, Scope: string(c.sidecar.scope),
		TopologyEpoch: t.Epoch}
}

// Level implements front.Session.
func (c *clientSession) Level() (is causal.Level) {
	c.sidecar.Inspect(func(m *session.Sidecar) { is = m.Level() })
	return c.chosen.Or(is)
}

// SetLevel implements front.Session.
func (c *clientSession) SetLevel(level causal.Level) error {
	if level == causal.Local && !c.IsExact() {
		return front.Errorf(front.Refused, "level Local needs session.scope DataCenter: the coordinator keeps no home")
	}
	c.chosen = level
	return nil
}

// Last implements front.Session.
func (c *clientSession) Last() front.Outcome {
	o := &c.lastOutcome
	return front.Outcome{Version: o.Version, Source: o.Source.String(), Status: o.Status}
}

// Status implements front.Session.
func (c *clientSession) Status() front.Status {
	var is session.Status
	var sv causal.HLC
	c.sidecar.Inspect(func(m *session.Sidecar) {
		is = m.Status(c.id)
		sv = m.Stability().MinSV()
	})
	st := front.Status{Restrictions: is.Restrictions, IncompleteWrites: is.IncompleteWrites}
	for r, ring := range c.sidecar.topo.Load().Rings {
		if is.Rings.Has(topology.RingID(r)) {
			st.Rings = append(st.Rings, ring.Name)
		}
	}
	if sv > 0 {
		st.StabilityLag = time.Duration(time.Now().UnixMilli()-sv.WallMs()) * time.Millisecond
	}
	return st
}

// Token implements front.Session. It seals outside of the machine: others use it meanwhile.
func (c *clientSession) Token(context.Context) (string, error) {
	r := c.execute(session.Op{Kind: session.OpToken})
	if r.Err != causal.OK {
		return "", clientError(r.Err, "export")
	}
	sealed, err := c.sidecar.tokens.Seal(r.Token)
	if err != nil {
		return "", front.Errorf(front.Unavailable, "cannot make a token: %v", err)
	}
	return sealed, nil
}

// Resume implements front.Session.
func (c *clientSession) Resume(_ context.Context, sealed string) error {
	token, err := c.sidecar.tokens.Open(sealed)
	if err == nil {
		c.sidecar.Inspect(func(m *session.Sidecar) { err = m.CheckToken(token) })
	}
	if err != nil {
		return front.Errorf(front.Refused, "cannot resume: %v", err)
	}
	switch r := c.execute(session.Op{Kind: session.OpResume, Token: token, Timeout: resumeTimeout}); r.Err {
	case causal.OK:
		return nil
	case causal.ErrClock:
		return front.Errorf(front.ClockAhead,
			"the token has timestamps that are too far ahead of the clock; nothing was resumed; "+
				"check that the clocks of the nodes are synchronised (docs/disasters.md, Timestamps from the future)")
	}
	return front.Errorf(front.Unavailable,
		"no reachable ring has everything that the token and this session have seen yet; try again")
}

// AwaitWrites implements front.Session.
func (c *clientSession) AwaitWrites(_ context.Context, name string, timeout time.Duration) (bool, error) {
	ring := topology.NoRing
	if name != front.AllRings {
		for i, r := range c.sidecar.topo.Load().Rings {
			if r.Name == name {
				ring = topology.RingID(i)
			}
		}
		if ring == topology.NoRing {
			return false, front.Errorf(front.Refused, "there is no ring '%s'; give the name of a ring, or all", name)
		}
	}
	r := c.execute(session.Op{Kind: session.OpWait, Ring: ring, Timeout: max(timeout, time.Nanosecond)})
	return r.Err == causal.OK, nil
}

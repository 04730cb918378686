package node

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/resp"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Causal implements resp.Session: the CAUSAL command.
func (c *session) Causal(_ context.Context, args [][]byte) (resp.Reply, error) {
	switch strings.ToUpper(string(args[0])) {
	case "STATUS":
		return c.status(), nil
	case "LAST":
		return c.last(), nil
	case "TOKEN":
		r := c.run(causal.Op{Kind: causal.OpToken})
		if r.Err != causal.OK {
			return nil, clientError(r.Err, "export")
		}
		return r.Token, nil
	case "RESUME":
		return c.resume(string(args[1]))
	case "WAIT":
		return c.wait(args[1:])
	}
	return nil, resp.Errorf("ERR", "unknown subcommand '%s'. Try CAUSAL HELP.", args[0])
}

// last describes how the connection's newest command was answered: version, source, status.
func (c *session) last() resp.Reply {
	version := ""
	if o := c.latest; o.Version.Written() {
		version = strconv.FormatUint(uint64(o.Version.HLC), 10) + "@" + strconv.FormatUint(uint64(o.Version.Origin), 10)
	}
	return resp.Array{version, c.latest.Source.String(), c.latest.Status.String()}
}

func (c *session) status() resp.Reply {
	var st causal.SessionStatus
	var sv causal.HLC
	c.s.Machine(func(m *causal.Sidecar) {
		st = m.Status(c.id)
		sv = m.Known().MinSV()
	})
	rings := resp.Array{}
	for r, ring := range c.s.topo.Load().Rings {
		if st.Rings.Has(topology.RingID(r)) {
			rings = append(rings, ring.Name)
		}
	}
	bound := "no"
	if st.Bound > 0 {
		bound = "yes"
	}
	dc := c.s.topo.Load().DCs[c.s.dc]
	lag := int64(0)
	if sv > 0 {
		lag = time.Now().UnixMilli() - sv.WallMs()
	}
	return resp.Map{
		"data-center", dc.Name, "ring", c.s.topo.Load().Rings[dc.Ring].Name, "scope", string(c.s.scope),
		"bound", bound, "bound-by", st.Bound, "rings", rings, "incomplete-writes", st.Incomplete,
		"last-source", c.latest.Source.String(), "last-status", c.latest.Status.String(), "stability-lag-ms", lag,
	}
}

func (c *session) resume(token string) (resp.Reply, error) {
	var bad error
	c.s.Machine(func(m *causal.Sidecar) { bad = m.CheckToken(token) })
	if bad != nil {
		return nil, resp.Errorf("ERR", "cannot resume: %v", bad)
	}
	r := c.run(causal.Op{Kind: causal.OpResume, Token: token, Timeout: defaultWait})
	if r.Err != causal.OK {
		return nil, resp.Errorf("UNAVAILABLE", "no reachable ring has everything that the token and this session have seen yet; try again")
	}
	return resp.Simple("OK"), nil
}

// wait answers 1 if the session's writes are where it was asked for, 0 if the time ran out first.
func (c *session) wait(args [][]byte) (resp.Reply, error) {
	ring := topology.NoRing
	if len(args) == 2 {
		name := string(args[0])
		if !strings.EqualFold(name, "all") {
			found := false
			for i, r := range c.s.topo.Load().Rings {
				if r.Name == name {
					ring, found = topology.RingID(i), true
				}
			}
			if !found {
				return nil, resp.Errorf("ERR", "there is no ring '%s'; give the name of a ring, or all", name)
			}
		}
		args = args[1:]
	}
	ms, err := strconv.ParseInt(string(args[0]), 10, 64)
	if err != nil || ms < 0 || ms > int64(time.Hour/time.Millisecond) {
		return nil, resp.Errorf("ERR", "timeout is not an integer of milliseconds between 0 and 3600000")
	}
	r := c.run(causal.Op{Kind: causal.OpWait, Ring: ring, Timeout: max(time.Duration(ms)*time.Millisecond, time.Nanosecond)})
	if r.Err != causal.OK {
		return 0, nil
	}
	return 1, nil
}

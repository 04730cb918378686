package node

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/resp"
	"github.com/causalstore/causalstore/topology"
)

// Causal implements resp.Session: the CAUSAL command.
func (c *clientSession) Causal(_ context.Context, args [][]byte) (resp.Reply, error) {
	switch strings.ToUpper(string(args[0])) {
	case "STATUS":
		return c.statusReply(), nil
	case "LAST":
		return c.lastReply(), nil
	case "TOKEN":
		return c.token()
	case "RESUME":
		return c.resume(string(args[1]))
	case "WAIT":
		return c.wait(args[1:])
	}
	return nil, resp.Errorf("ERR", "unknown subcommand '%s'. Try CAUSAL HELP.", args[0])
}

// lastReply describes the outcome of the connection's last command: version, source and status.
func (c *clientSession) lastReply() resp.Reply {
	version := ""
	if o := c.lastOutcome; o.Version.Written() {
		version = strconv.FormatUint(uint64(o.Version.HLC), 10) + "@" + strconv.FormatUint(uint64(o.Version.Origin), 10)
	}
	return resp.Array{version, c.lastOutcome.Source.String(), c.lastOutcome.Status.String()}
}

func (c *clientSession) statusReply() resp.Reply {
	var st session.Status
	var sv causal.HLC
	c.sidecar.Inspect(func(m *session.Sidecar) {
		st = m.Status(c.id)
		sv = m.Stability().MinSV()
	})
	rings := resp.Array{}
	for r, ring := range c.sidecar.topo.Load().Rings {
		if st.Rings.Has(topology.RingID(r)) {
			rings = append(rings, ring.Name)
		}
	}
	bound := "no"
	if st.Restrictions > 0 {
		bound = "yes"
	}
	dc := c.sidecar.topo.Load().DCs[c.sidecar.dc]
	lag := int64(0)
	if sv > 0 {
		lag = time.Now().UnixMilli() - sv.WallMs()
	}
	return resp.Map{
		"data-center", dc.Name, "ring", c.sidecar.topo.Load().Rings[dc.Ring].Name, "scope", string(c.sidecar.scope),
		"bound", bound, "bound-by", st.Restrictions, "rings", rings, "incomplete-writes", st.IncompleteWrites,
		"last-source", c.lastOutcome.Source.String(), "last-status", c.lastOutcome.Status.String(),
		"stability-lag-ms", lag,
	}
}

// token seals outside of the machine: others use it meanwhile.
func (c *clientSession) token() (resp.Reply, error) {
	r := c.execute(session.Op{Kind: session.OpToken})
	if r.Err != causal.OK {
		return nil, clientError(r.Err, "export")
	}
	sealed, err := c.sidecar.tokens.Seal(r.Token)
	if err != nil {
		return nil, resp.Errorf("UNAVAILABLE", "cannot make a token: %v", err)
	}
	return sealed, nil
}

func (c *clientSession) resume(sealed string) (resp.Reply, error) {
	token, err := c.sidecar.tokens.Open(sealed)
	if err == nil {
		c.sidecar.Inspect(func(m *session.Sidecar) { err = m.CheckToken(token) })
	}
	if err != nil {
		return nil, resp.Errorf("ERR", "cannot resume: %v", err)
	}
	switch r := c.execute(session.Op{Kind: session.OpResume, Token: token, Timeout: resumeTimeout}); r.Err {
	case causal.OK:
		return resp.SimpleString("OK"), nil
	case causal.ErrClock:
		return nil,
			resp.Errorf("CLOCK",
				"the token has timestamps that are too far ahead of the clock; nothing was resumed; check that the "+
					"clocks of the nodes are synchronised (docs/disasters.md, Timestamps from the future)")
	}
	return nil,
		resp.Errorf("UNAVAILABLE",
			"no reachable ring has everything that the token and this session have seen yet; try again")
}

// wait replies 1 if the session's writes reached the given ring, or all rings, and 0 if the timeout expired first.
func (c *clientSession) wait(args [][]byte) (resp.Reply, error) {
	ring := topology.NoRing
	if len(args) == 2 {
		name := string(args[0])
		if !strings.EqualFold(name, "all") {
			found := false
			for i, r := range c.sidecar.topo.Load().Rings {
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
	r := c.execute(session.Op{Kind: session.OpWait, Ring: ring,
		Timeout: max(time.Duration(ms)*time.Millisecond, time.Nanosecond)})
	if r.Err != causal.OK {
		return 0, nil
	}
	return 1, nil
}

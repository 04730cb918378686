package resp

import (
	"strconv"
	"strings"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
)

// CAUSAL LAST: version, source and status of the last reply
func causalLast(c *connection, _ [][]byte) error {
	last, version := c.session.Last(), ""
	if v := last.Version; v.Written() {
		version = strconv.FormatUint(uint64(v.HLC), 10) + "@" + strconv.FormatUint(uint64(v.Origin), 10)
	}
	c.out.writeReply(Array{version, last.Source, last.Status.String()})
	return nil
}

// CAUSAL STATUS
func causalStatus(c *connection, _ [][]byte) error {
	at, is, last := c.session.Place(), c.session.Status(), c.session.Last()
	rings := Array{}
	for _, name := range is.Rings {
		rings = append(rings, name)
	}
	bound := "no"
	if is.Restrictions > 0 {
		bound = "yes"
	}
	c.out.writeReply(Map{
		"data-center", at.DataCenter, "ring", at.Ring, "scope", at.Scope,
		"bound", bound, "bound-by", is.Restrictions, "rings", rings, "incomplete-writes", is.IncompleteWrites,
		"last-source", last.Source, "last-status", last.Status.String(), "stability-lag-ms",
		is.StabilityLag.Milliseconds(),
	})
	return nil
}

// CAUSAL TOKEN
func causalToken(c *connection, _ [][]byte) error {
	token, err := c.session.Token(c.server.context)
	if err != nil {
		return err
	}
	c.out.writeBulkString(token)
	return nil
}

// CAUSAL RESUME token
func causalResume(c *connection, args [][]byte) error {
	if err := c.session.Resume(c.server.context, string(args[2])); err != nil {
		return err
	}
	c.out.writeOK()
	return nil
}

// CAUSAL WAIT [ring|all] timeout-ms: 1 if the writes of the session are in the ring, or in all rings; 0 if the timeout
// has expired first
func causalWait(c *connection, args [][]byte) error {
	ring := front.AllRings
	if len(args) == 4 {
		if !equalFold(args[2], "all") {
			ring = string(args[2])
		}
		args = args[1:]
	}
	ms, err := strconv.ParseInt(string(args[2]), 10, 64)
	if err != nil || ms < 0 || ms > int64(time.Hour/time.Millisecond) {
		return genericError("timeout is not an integer of milliseconds between 0 and 3600000")
	}
	there, err := c.session.AwaitWrites(c.server.context, ring, time.Duration(ms)*time.Millisecond)
	if err != nil {
		return err
	}
	c.out.writeInteger(oneIf(there))
	return nil
}

// CAUSAL LEVEL [level]: at which level the connection reads
func causalLevel(c *connection, args [][]byte) error {
	if len(args) > 3 {
		return errSyntax
	}
	if len(args) == 2 {
		c.out.writeBulkString(strings.ToLower(c.session.Level().String()))
		return nil
	}
	levels := append(causal.SessionLevels(), causal.Local)
	level, ok := causal.ParseName(string(args[2]), levels)
	if !ok {
		return genericError("unknown level; use " + causal.JoinNames(levels))
	}
	if err := c.session.SetLevel(level); err != nil {
		return err
	}
	c.out.writeOK()
	return nil
}

// CAUSAL HELP
func causalHelp(c *connection, _ [][]byte) error {
	c.writeHelp("CAUSAL",
		"LAST", "    Return the version, source and status of the last reply on this connection.",
		"LEVEL [<level>]",
		"    Return or set the level of the reads of this connection: latest, snapshot or, at scope DataCenter, local.",
		"RESUME <token>", "    Resume a session that was exported here or in another data center.",
		"STATUS", "    Return the rings that the session is bound to, and its other state.",
		"TOKEN", "    Export the session as an opaque string.",
		"WAIT [<ring>|all] <timeout-ms>",
		"    Wait until the last write of the session is in one ring or in all rings.")
	return nil
}

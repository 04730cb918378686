package resp

import (
	"github.com/causalstore/causalstore/sidecar/value"
)

// entriesInNode is how many entries Redis keeps in a node of a stream, by default.
const entriesInNode = 100

// XINFO STREAM key [FULL [COUNT count]]
func xinfoStream(c *connection, args [][]byte) error {
	s, exists, err := c.streamAt(args[2])
	switch {
	case err != nil:
		return err
	case !exists:
		return errNoSuchKey
	}
	isFull, count := len(args) > 3, int64(10)
	if isFull {
		if count, err = parseFullInfo(args); err != nil {
			return err
		}
	}
	c.out.writeMapHeader(9 + int(oneIf(!isFull)))
	c.writeStreamInfo(s)
	if isFull {
		c.writeFullInfo(s, count)
		return nil
	}
	c.out.writeBulkString("groups")
	c.out.writeInteger(int64(len(s.Groups())))
	n := len(s.Entries)
	for i, what := range []string{"first-entry", "last-entry"} {
		if c.out.writeBulkString(what); n == 0 {
			c.out.writeNull()
		} else {
			c.writeEntry(&s.Entries[i*(n-1)])
		}
	}
	return nil
}

// parseFullInfo returns how many entries are asked for; 0: all.
func parseFullInfo(args [][]byte) (count int64, err error) {
	if !equalFold(args[3], "full") || len(args) != 4 && (len(args) != 6 || !equalFold(args[4], "count")) {
		return 0, errSubcommand("XINFO", args)
	}
	if len(args) == 4 {
		return 10, nil
	}
	count, ok := parseInt(args[5])
	if !ok {
		return 0, errNotInteger
	}
	if count < 0 {
		count = 10
	}
	return count, nil
}

func (c *connection) writeStreamInfo(s *value.StreamLog) {
	integer := func(name string, n int) {
		c.out.writeBulkString(name)
		c.out.writeInteger(int64(n))
	}
	id := func(name string, id value.StreamID) {
		c.out.writeBulkString(name)
		c.out.writeBulkString(id.String())
	}
	nodes, first := (len(s.Entries)+entriesInNode-1)/entriesInNode, value.StreamID{}
	if len(s.Entries) > 0 {
		first = s.Entries[0].ID
	}
	integer("length", len(s.Entries))
	integer("radix-tree-keys", nodes)
	integer("radix-tree-nodes", nodes+1)
	id("last-generated-id", s.Last)
	id("max-deleted-entry-id", s.MaxDeleted)
	integer("entries-added", int(s.Added))
	id("recorded-first-entry-id", first)
}

func (c *connection) writeFullInfo(s *value.StreamLog, count int64) {
	c.out.writeBulkString("entries")
	entries := s.Entries
	if count > 0 {
		entries = entries[:min(count, int64(len(entries)))]
	}
	c.writeEntries(entries)
	groups := s.Groups()
	c.out.writeBulkString("groups")
	c.out.writeArrayHeader(len(groups))
	for _, g := range groups {
		c.out.writeMapHeader(7)
		c.out.writeBulkString("name")
		c.out.writeBulkString(g.Name)
		c.writeProgress(g)
		c.writePendingOf(g.Pending(), count, true)
		consumers := g.Consumers()
		c.out.writeBulkString("consumers")
		c.out.writeArrayHeader(len(consumers))
		for _, name := range consumers {
			c.out.writeMapHeader(4)
			c.out.writeBulkString("name")
			c.out.writeBulkString(name)
			c.out.writeBulkString("seen-time")
			c.out.writeInteger(g.SeenMs(name))
			c.writePendingOf(g.PendingOf(name), count, false)
		}
	}
}

func (c *connection) writePendingOf(all []value.Pending, count int64, hasConsumer bool) {
	c.out.writeBulkString("pel-count")
	c.out.writeInteger(int64(len(all)))
	if count > 0 {
		all = all[:min(count, int64(len(all)))]
	}
	c.out.writeBulkString("pending")
	c.out.writeArrayHeader(len(all))
	for _, p := range all {
		c.out.writeArrayHeader(3 + int(oneIf(hasConsumer)))
		c.out.writeBulkString(p.ID.String())
		if hasConsumer {
			c.out.writeBulkString(p.Consumer)
		}
		c.out.writeInteger(p.AtMs)
		c.out.writeInteger(p.Count)
		c.out.flushIfFull()
	}
}

// writeProgress writes how far a group is.
func (c *connection) writeProgress(g *value.StreamGroup) {
	c.out.writeBulkString("last-delivered-id")
	c.out.writeBulkString(g.Last().String())
	c.out.writeBulkString("entries-read")
	if g.Read == value.UnknownRead {
		c.out.writeNull()
	} else {
		c.out.writeInteger(g.Read)
	}
	c.out.writeBulkString("lag")
	if lag, ok := g.Lag(); ok {
		c.out.writeInteger(lag)
	} else {
		c.out.writeNull()
	}
}

// XINFO GROUPS key
func xinfoGroups(c *connection, args [][]byte) error {
	s, exists, err := c.streamAt(args[2])
	switch {
	case err != nil:
		return err
	case !exists:
		return errNoSuchKey
	}
	groups := s.Groups()
	c.out.writeArrayHeader(len(groups))
	for _, g := range groups {
		c.out.writeMapHeader(6)
		c.out.writeBulkString("name")
		c.out.writeBulkString(g.Name)
		c.out.writeBulkString("consumers")
		c.out.writeInteger(int64(len(g.Consumers())))
		c.out.writeBulkString("pending")
		c.out.writeInteger(int64(len(g.Pending())))
		c.writeProgress(g)
	}
	return nil
}

// XINFO CONSUMERS key group
func xinfoConsumers(c *connection, args [][]byte) error {
	s, exists, err := c.streamAt(args[2])
	switch {
	case err != nil:
		return err
	case !exists:
		return errNoSuchKey
	}
	g := s.Group(string(args[3]))
	if g == nil {
		return errNoGroupOf(string(args[2]), string(args[3]))
	}
	names, now := g.Consumers(), c.nowMs()
	c.out.writeArrayHeader(len(names))
	for _, name := range names {
		c.out.writeMapHeader(3)
		c.out.writeBulkString("name")
		c.out.writeBulkString(name)
		c.out.writeBulkString("pending")
		c.out.writeInteger(int64(len(g.PendingOf(name))))
		c.out.writeBulkString("idle")
		c.out.writeInteger(max(now-g.SeenMs(name), 0))
	}
	return nil
}

// XINFO HELP
func xinfoHelp(c *connection, _ [][]byte) error {
	c.writeHelp("XINFO",
		"CONSUMERS <key> <groupname>",
		"    Show consumers of <groupname>.",
		"GROUPS <key>",
		"    Show the stream consumer groups.",
		"STREAM <key> [FULL [COUNT <count>]",
		"    Show information about the stream.")
	return nil
}

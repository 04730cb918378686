package resp

func streamCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: access, group: "stream",
			since: since, summary: summary, traits: needsSession | t, run: run}
	}
	const (
		readFast  = "@read @stream @fast"
		readSlow  = "@read @stream @slow"
		writeFast = "@write @stream @fast"
		writeSlow = "@write @stream @slow"
		helpful   = "@stream @slow"
	)
	secondKey := keyRange{first: 2, last: 2, step: 1}
	group := row("xgroup", -2, "", noKey, "@slow", "", "5.0.0", 0, nil,
		"A container for commands about consumer groups")
	group.subs = []*command{
		row("xgroup|create", -5, "write denyoom", secondKey, writeSlow, "RW insert", "5.0.0", pipelinedWrite,
			xgroupCreate, "Create a consumer group"),
		row("xgroup|setid", -5, "write", secondKey, writeSlow, "RW update", "5.0.0", pipelinedWrite, xgroupSetID,
			"Set up to which entry a consumer group has read"),
		row("xgroup|destroy", 4, "write", secondKey, writeSlow, "RW delete", "5.0.0", pipelinedWrite, xgroupDestroy,
			"Destroy a consumer group"),
		row("xgroup|createconsumer", 5, "write denyoom", secondKey, writeSlow, "RW insert", "6.2.0", pipelinedWrite,
			xgroupCreateConsumer, "Create a consumer in a consumer group"),
		row("xgroup|delconsumer", 5, "write", secondKey, writeSlow, "RW delete", "5.0.0", pipelinedWrite,
			xgroupDelConsumer, "Delete a consumer from a consumer group"),
		row("xgroup|help", 2, "loading stale", noKey, helpful, "", "5.0.0", 0, xgroupHelp,
			"Show helpful text about the subcommands"),
	}
	info := row("xinfo", -2, "", noKey, "@slow", "", "5.0.0", 0, nil, "A container for commands that describe streams")
	info.subs = []*command{
		row("xinfo|stream", -3, "readonly", secondKey, readSlow, "RO access", "5.0.0", 0, xinfoStream,
			"Get information about a stream"),
		row("xinfo|groups", 3, "readonly", secondKey, readSlow, "RO access", "5.0.0", 0, xinfoGroups,
			"List the consumer groups of a stream"),
		row("xinfo|consumers", 4, "readonly", secondKey, readSlow, "RO access", "5.0.0", 0, xinfoConsumers,
			"List the consumers of a consumer group"),
		row("xinfo|help", 2, "loading stale", noKey, helpful, "", "5.0.0", 0, xinfoHelp,
			"Show helpful text about the subcommands"),
	}
	return []*command{
		group, info,
		row("xadd", -5, "write denyoom fast", oneKey, writeFast, "RW update", "5.0.0", pipelinedWrite, xadd,
			"Append an entry to a stream"),
		row("xtrim", -4, "write", oneKey, writeSlow, "RW delete", "5.0.0", pipelinedWrite, xtrim,
			"Remove the oldest entries of a stream"),
		row("xdel", -3, "write fast", oneKey, writeFast, "RW delete", "5.0.0", pipelinedWrite, xdel,
			"Remove entries from a stream"),
		row("xsetid", -3, "write denyoom fast", oneKey, writeFast, "RW update", "5.0.0", pipelinedWrite, xsetID,
			"Set the last ID of a stream"),
		row("xlen", 2, "readonly fast", oneKey, readFast, "RO", "5.0.0", 0, xlen,
			"Return the number of entries in a stream"),
		row("xrange", -4, "readonly", oneKey, readSlow, "RO access", "5.0.0", 0, xrange,
			"Return the entries of a stream between two IDs"),
		row("xrevrange", -4, "readonly", oneKey, readSlow, "RO access", "5.0.0", 0, xrevRange,
			"Return the entries of a stream between two IDs, the last one first"),
		row("xread", -4, "readonly blocking movablekeys", keyRange{streams: 1}, readSlow+" @blocking", "RO access",
			"5.0.0", 0, xread, "Return the entries of streams after given IDs, and wait for new ones with BLOCK"),
		row("xreadgroup", -7, "write blocking movablekeys", keyRange{streams: 4}, writeSlow+" @blocking", "RO access",
			"5.0.0", 0, xreadGroup,
			"Deliver new entries of streams to a consumer of a group, and wait for them with BLOCK"),
		row("xack", -4, "write fast", oneKey, writeFast, "RW update", "5.0.0", pipelinedWrite, xack,
			"Mark entries that were delivered to a group as processed"),
		row("xpending", -3, "readonly", oneKey, readSlow, "RO access", "5.0.0", 0, xpending,
			"Return the entries that were delivered to a group, and not acknowledged"),
		row("xclaim", -6, "write fast", oneKey, writeFast, "RW update", "5.0.0", pipelinedWrite, xclaim,
			"Deliver pending entries to another consumer"),
		row("xautoclaim", -6, "write fast", oneKey, writeFast, "RW delete", "6.2.0", pipelinedWrite, xautoClaim,
			"Deliver the oldest pending entries to another consumer"),
	}
}

package resp

func hyperLogLogCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: access, group: "hyperloglog",
			since: since, summary: summary, traits: needsSession | t, run: run}
	}
	return []*command{
		row("pfadd", -2, "write denyoom fast", oneKey, "@write @hyperloglog @fast", "RW insert", "2.8.9",
			pipelinedWrite, pfadd, "Add elements to a HyperLogLog"),
		row("pfcount", -2, "readonly", allKeys, "@read @hyperloglog @slow", "RW access", "2.8.9", 0, pfcount,
			"Return about how many different elements were added to HyperLogLogs"),
		row("pfmerge", -2, "write denyoom", allKeys, "@write @hyperloglog @slow", "RW access insert;RO access",
			"2.8.9", 0, pfmerge, "Merge HyperLogLogs into one"),
	}
}

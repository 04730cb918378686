package resp

func listCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: access, group: "list",
			since: since, summary: summary, traits: needsSession | t, run: run}
	}
	const (
		readFast  = "@read @list @fast"
		readSlow  = "@read @list @slow"
		writeFast = "@write @list @fast"
		writeSlow = "@write @list @slow"
	)
	return []*command{
		row("lpush", -3, "write denyoom fast", oneKey, writeFast, "RW insert", "1.0.0", pipelinedWrite, lpush,
			"Prepend one or multiple elements to a list"),
		row("rpush", -3, "write denyoom fast", oneKey, writeFast, "RW insert", "1.0.0", pipelinedWrite, rpush,
			"Append one or multiple elements to a list"),
		row("lpushx", -3, "write denyoom fast", oneKey, writeFast, "RW insert", "2.2.0", pipelinedWrite, lpushX,
			"Prepend an element to a list, only if the list exists"),
		row("rpushx", -3, "write denyoom fast", oneKey, writeFast, "RW insert", "2.2.0", pipelinedWrite, rpushX,
			"Append an element to a list, only if the list exists"),
		row("linsert", 5, "write denyoom", oneKey, writeSlow, "RW insert", "2.2.0", pipelinedWrite, linsert,
			"Insert an element before or after another element in a list"),
		row("lset", 4, "write denyoom", oneKey, writeSlow, "RW update", "1.0.0", pipelinedWrite, lset,
			"Set the value of an element in a list by its index"),
		row("lpop", -2, "write fast", oneKey, writeFast, "RW access delete", "1.0.0", pipelinedWrite, lpop,
			"Remove and get the first elements in a list"),
		row("rpop", -2, "write fast", oneKey, writeFast, "RW access delete", "1.0.0", pipelinedWrite, rpop,
			"Remove and get the last elements in a list"),
		row("lrem", 4, "write", oneKey, writeSlow, "RW delete", "1.0.0", pipelinedWrite, lrem,
			"Remove elements from a list"),
		row("ltrim", 4, "write", oneKey, writeSlow, "RW delete", "1.0.0", pipelinedWrite, ltrim,
			"Trim a list to the specified range"),
		row("llen", 2, "readonly fast", oneKey, readFast, "RO", "1.0.0", 0, llen,
			"Get the length of a list"),
		row("lindex", 3, "readonly", oneKey, readSlow, "RO access", "1.0.0", 0, lindex,
			"Get an element from a list by its index"),
		row("lrange", 4, "readonly", oneKey, readSlow, "RO access", "1.0.0", 0, lrange,
			"Get a range of elements from a list"),
		row("lpos", -3, "readonly", oneKey, readSlow, "RO access", "6.0.6", 0, lpos,
			"Return the index of matching elements on a list"),
		row("lmove", 5, "write denyoom", twoKeys, writeSlow, "RW access delete;RW insert", "6.2.0", 0, lmove,
			"Pop an element from a list, push it to another list and return it"),
		row("rpoplpush", 3, "write denyoom", twoKeys, writeSlow, "RW access delete;RW insert", "1.2.0", 0, rpopLpush,
			"Remove the last element in a list, prepend it to another list and return it"),
		row("lmpop", -4, "write movablekeys", countedKeysOnly, writeSlow, "RW access delete", "7.0.0", 0, lmpop,
			"Pop elements from a list"),
	}
}

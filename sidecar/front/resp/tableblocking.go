package resp

// blockingCommands are those that wait until there is something in a key.
func blockingCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, group, since string, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl + " @blocking", access: access,
			group: group, since: since, summary: summary, traits: needsSession, run: run}
	}
	const (
		lists    = "@write @list @slow"
		sets     = "@write @sortedset @slow"
		fastSets = "@write @sortedset @fast"
		pop      = "RW access delete"
		move     = "RW access delete;RW insert"
	)
	return []*command{
		row("blpop", -3, "write noscript blocking", allButLast, lists, pop, "list", "2.0.0", blpop,
			"Remove and get the first element in a list, or block until one is available"),
		row("brpop", -3, "write noscript blocking", allButLast, lists, pop, "list", "2.0.0", brpop,
			"Remove and get the last element in a list, or block until one is available"),
		row("blmpop", -5, "write blocking movablekeys", countedSecond, lists, pop, "list", "7.0.0", blmpop,
			"Pop elements from a list, or block until one is available"),
		row("blmove", 6, "write denyoom noscript blocking", twoKeys, lists, move, "list", "6.2.0", blmove,
			"Pop an element from a list, push it to another list and return it; or block until one is available"),
		row("brpoplpush", 4, "write denyoom noscript blocking", twoKeys, lists, move, "list", "2.2.0", brpopLpush,
			"Pop an element from a list, push it to another list and return it; or block until one is available"),
		row("bzpopmin", -3, "write noscript blocking fast", allButLast, fastSets, pop, "sorted-set", "5.0.0", bzpopMin,
			"Remove and return the member with the lowest score from one or more sorted sets, or block until one is "+
				"available"),
		row("bzpopmax", -3, "write noscript blocking fast", allButLast, fastSets, pop, "sorted-set", "5.0.0", bzpopMax,
			"Remove and return the member with the highest score from one or more sorted sets, or block until one is "+
				"available"),
		row("bzmpop", -5, "write blocking movablekeys", countedSecond, sets, pop, "sorted-set", "7.0.0", bzmpop,
			"Remove and return members with scores in a sorted set or block until one is available"),
	}
}

package resp

func hashCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: access, group: "hash",
			since: since, summary: summary, traits: needsSession | t, run: run}
	}
	const (
		readFast  = "@read @hash @fast"
		readSlow  = "@read @hash @slow"
		writeFast = "@write @hash @fast"
	)
	return []*command{
		row("hset", -4, "write denyoom fast", oneKey, writeFast, "RW update", "2.0.0", pipelinedWrite, hset,
			"Set the string value of a hash field"),
		row("hmset", -4, "write denyoom fast", oneKey, writeFast, "RW update", "2.0.0", pipelinedWrite, hmset,
			"Set multiple hash fields to multiple values"),
		row("hsetnx", 4, "write denyoom fast", oneKey, writeFast, "RW insert", "2.0.0", pipelinedWrite, hsetNX,
			"Set the value of a hash field, only if the field does not exist"),
		row("hget", 3, "readonly fast", oneKey, readFast, "RO access", "2.0.0", 0, hget,
			"Get the value of a hash field"),
		row("hmget", -3, "readonly fast", oneKey, readFast, "RO access", "2.0.0", 0, hmget,
			"Get the values of all the given hash fields"),
		row("hgetall", 2, "readonly", oneKey, readSlow, "RO access", "2.0.0", 0, hgetAll,
			"Get all the fields and values in a hash"),
		row("hdel", -3, "write fast", oneKey, writeFast, "RW delete", "2.0.0", pipelinedWrite, hdel,
			"Delete one or more hash fields"),
		row("hlen", 2, "readonly fast", oneKey, readFast, "RO", "2.0.0", 0, hlen,
			"Get the number of fields in a hash"),
		row("hexists", 3, "readonly fast", oneKey, readFast, "RO", "2.0.0", 0, hexists,
			"Determine if a hash field exists"),
		row("hkeys", 2, "readonly", oneKey, readSlow, "RO access", "2.0.0", 0, hkeys,
			"Get all the fields in a hash"),
		row("hvals", 2, "readonly", oneKey, readSlow, "RO access", "2.0.0", 0, hvals,
			"Get all the values in a hash"),
		row("hstrlen", 3, "readonly fast", oneKey, readFast, "RO", "3.2.0", 0, hstrlen,
			"Get the length of the value of a hash field"),
		row("hincrby", 4, "write denyoom fast", oneKey, writeFast, "RW access update", "2.0.0", pipelinedWrite, hincrBy,
			"Increment the integer value of a hash field by the given number"),
		row("hincrbyfloat", 4, "write denyoom fast", oneKey, writeFast, "RW access update", "2.6.0", pipelinedWrite,
			hincrByFloat,
			"Increment the float value of a hash field by the given amount"),
		row("hscan", -3, "readonly", oneKey, readSlow, "RO access", "2.8.0", 0, hscan,
			"Incrementally iterate hash fields and associated values"),
		row("hrandfield", -2, "readonly", oneKey, readSlow, "RO access", "6.2.0", 0, hrandField,
			"Get one or multiple random fields from a hash"),
	}
}

func setCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: access, group: "set",
			since: since, summary: summary, traits: needsSession | t, run: run}
	}
	const (
		readFast  = "@read @set @fast"
		readSlow  = "@read @set @slow"
		writeFast = "@write @set @fast"
		writeSlow = "@write @set @slow"
	)
	return []*command{
		row("sintercard", -3, "readonly movablekeys", countedKeysOnly, readSlow, "RO access", "7.0.0", 0, sinterCard,
			"Intersect multiple sets and return the cardinality of the result"),
		row("sadd", -3, "write denyoom fast", oneKey, writeFast, "RW insert", "1.0.0", pipelinedWrite, sadd,
			"Add one or more members to a set"),
		row("srem", -3, "write fast", oneKey, writeFast, "RW delete", "1.0.0", pipelinedWrite, srem,
			"Remove one or more members from a set"),
		row("scard", 2, "readonly fast", oneKey, readFast, "RO", "1.0.0", 0, scard,
			"Get the number of members in a set"),
		row("sismember", 3, "readonly fast", oneKey, readFast, "RO", "1.0.0", 0, sisMember,
			"Determine if a given value is a member of a set"),
		row("smismember", -3, "readonly fast", oneKey, readFast, "RO access", "6.2.0", 0, smisMember,
			"Returns the membership associated with the given elements for a set"),
		row("smembers", 2, "readonly", oneKey, readSlow, "RO access", "1.0.0", 0, smembers,
			"Get all the members in a set"),
		row("spop", -2, "write fast", oneKey, writeFast, "RW access delete", "1.0.0", pipelinedWrite, spop,
			"Remove and return one or multiple random members from a set"),
		row("srandmember", -2, "readonly", oneKey, readSlow, "RO access", "1.0.0", 0, srandMember,
			"Get one or multiple random members from a set"),
		row("sscan", -3, "readonly", oneKey, readSlow, "RO access", "2.8.0", 0, sscan,
			"Incrementally iterate Set elements"),
		row("smove", 4, "write fast", twoKeys, writeFast, "RW access delete;RW insert", "1.0.0", 0, smove,
			"Move a member from one set to another"),
		row("sunion", -2, "readonly", allKeys, readSlow, "RO access", "1.0.0", 0, sunion,
			"Add multiple sets"),
		row("sinter", -2, "readonly", allKeys, readSlow, "RO access", "1.0.0", 0, sinter,
			"Intersect multiple sets"),
		row("sdiff", -2, "readonly", allKeys, readSlow, "RO access", "1.0.0", 0, sdiff,
			"Subtract multiple sets"),
		row("sunionstore", -3, "write denyoom", allKeys, writeSlow, "OW update;RO access", "1.0.0", 0, sunionStore,
			"Add multiple sets and store the resulting set in a key"),
		row("sinterstore", -3, "write denyoom", allKeys, writeSlow, "RW update;RO access", "1.0.0", 0, sinterStore,
			"Intersect multiple sets and store the resulting set in a key"),
		row("sdiffstore", -3, "write denyoom", allKeys, writeSlow, "OW update;RO access", "1.0.0", 0, sdiffStore,
			"Subtract multiple sets and store the resulting set in a key"),
	}
}

func sortedSetCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: access, group: "sorted-set",
			since: since, summary: summary, traits: needsSession | t, run: run}
	}
	const (
		readFast  = "@read @sortedset @fast"
		readSlow  = "@read @sortedset @slow"
		writeFast = "@write @sortedset @fast"
		writeSlow = "@write @sortedset @slow"
	)
	return []*command{
		row("zunion", -3, "readonly movablekeys", countedKeysOnly, readSlow, "RO access", "6.2.0", 0, zunion,
			"Add multiple sorted sets"),
		row("zinter", -3, "readonly movablekeys", countedKeysOnly, readSlow, "RO access", "6.2.0", 0, zinter,
			"Intersect multiple sorted sets"),
		row("zdiff", -3, "readonly movablekeys", countedKeysOnly, readSlow, "RO access", "6.2.0", 0, zdiff,
			"Subtract multiple sorted sets"),
		row("zintercard", -3, "readonly movablekeys", countedKeysOnly, readSlow, "RO access", "7.0.0", 0, zinterCard,
			"Intersect multiple sorted sets and return the cardinality of the result"),
		row("zunionstore", -4, "write denyoom movablekeys", oneAndCounted, writeSlow, "OW update;RO access", "2.0.0",
			0, zunionStore,
			"Add multiple sorted sets and store the resulting sorted set in a new key"),
		row("zinterstore", -4, "write denyoom movablekeys", oneAndCounted, writeSlow, "OW update;RO access", "2.0.0",
			0, zinterStore,
			"Intersect multiple sorted sets and store the resulting sorted set in a new key"),
		row("zdiffstore", -4, "write denyoom movablekeys", oneAndCounted, writeSlow, "OW update;RO access", "6.2.0",
			0, zdiffStore,
			"Subtract multiple sorted sets and store the resulting sorted set in a new key"),
		row("zadd", -4, "write denyoom fast", oneKey, writeFast, "RW update", "1.2.0", pipelinedWrite, zadd,
			"Add one or more members to a sorted set, or update its score if it already exists"),
		row("zincrby", 4, "write denyoom fast", oneKey, writeFast, "RW access update", "1.2.0", pipelinedWrite, zincrBy,
			"Increment the score of a member in a sorted set"),
		row("zrem", -3, "write fast", oneKey, writeFast, "RW delete", "1.2.0", pipelinedWrite, zrem,
			"Remove one or more members from a sorted set"),
		row("zcard", 2, "readonly fast", oneKey, readFast, "RO", "1.2.0", 0, zcard,
			"Get the number of members in a sorted set"),
		row("zscore", 3, "readonly fast", oneKey, readFast, "RO access", "1.2.0", 0, zscore,
			"Get the score associated with the given member in a sorted set"),
		row("zmscore", -3, "readonly fast", oneKey, readFast, "RO access", "6.2.0", 0, zmscore,
			"Get the score associated with the given members in a sorted set"),
		row("zrank", 3, "readonly fast", oneKey, readFast, "RO access", "2.0.0", 0, zrank,
			"Determine the index of a member in a sorted set"),
		row("zrevrank", 3, "readonly fast", oneKey, readFast, "RO access", "2.0.0", 0, zrevRank,
			"Determine the index of a member in a sorted set, with scores ordered from high to low"),
		row("zcount", 4, "readonly fast", oneKey, readFast, "RO access", "2.0.0", 0, zcount,
			"Count the members in a sorted set with scores within the given values"),
		row("zlexcount", 4, "readonly fast", oneKey, readFast, "RO access", "2.8.9", 0, zlexCount,
			"Count the number of members in a sorted set between a given lexicographical range"),
		row("zrange", -4, "readonly", oneKey, readSlow, "RO access", "1.2.0", 0, zrange,
			"Return a range of members in a sorted set"),
		row("zrevrange", -4, "readonly", oneKey, readSlow, "RO access", "1.2.0", 0, zrevRange,
			"Return a range of members in a sorted set, by index, with scores ordered from high to low"),
		row("zrangebyscore", -4, "readonly", oneKey, readSlow, "RO access", "1.0.5", 0, zrangeByScore,
			"Return a range of members in a sorted set, by score"),
		row("zrevrangebyscore", -4, "readonly", oneKey, readSlow, "RO access", "2.2.0", 0, zrevRangeByScore,
			"Return a range of members in a sorted set, by score, with scores ordered from high to low"),
		row("zrangebylex", -4, "readonly", oneKey, readSlow, "RO access", "2.8.9", 0, zrangeByLex,
			"Return a range of members in a sorted set, by lexicographical range"),
		row("zrevrangebylex", -4, "readonly", oneKey, readSlow, "RO access", "2.8.9", 0, zrevRangeByLex,
			"Return a range of members in a sorted set, by lexicographical range, from higher to lower strings"),
		row("zrangestore", -5, "write denyoom", twoKeys, writeSlow, "OW update;RO access", "6.2.0", 0, zrangeStore,
			"Store a range of members from sorted set into another key"),
		row("zpopmin", -2, "write fast", oneKey, writeFast, "RW access delete", "5.0.0", pipelinedWrite, zpopMin,
			"Remove and return members with the lowest scores in a sorted set"),
		row("zmpop", -4, "write movablekeys", countedKeysOnly, writeSlow, "RW access delete", "7.0.0", 0, zmpop,
			"Remove and return members with scores in a sorted set"),
		row("zpopmax", -2, "write fast", oneKey, writeFast, "RW access delete", "5.0.0", pipelinedWrite, zpopMax,
			"Remove and return members with the highest scores in a sorted set"),
		row("zremrangebyrank", 4, "write", oneKey, writeSlow, "RW delete", "2.0.0", pipelinedWrite, zremRangeByRank,
			"Remove all members in a sorted set within the given indexes"),
		row("zremrangebyscore", 4, "write", oneKey, writeSlow, "RW delete", "1.2.0", pipelinedWrite, zremRangeByScore,
			"Remove all members in a sorted set within the given scores"),
		row("zremrangebylex", 4, "write", oneKey, writeSlow, "RW delete", "2.8.9", pipelinedWrite, zremRangeByLex,
			"Remove all members in a sorted set between the given lexicographical range"),
		row("zscan", -3, "readonly", oneKey, readSlow, "RO access", "2.8.0", 0, zscan,
			"Incrementally iterate sorted sets elements and associated scores"),
		row("zrandmember", -2, "readonly", oneKey, readSlow, "RO access", "6.2.0", 0, zrandMember,
			"Get one or multiple random elements from a sorted set"),
	}
}

package resp

import "slices"

// commandTable lists every command. Names, arities, flags, keys and ACL categories are those of Redis 7.0, because
// clients read them from COMMAND. A test compares them with a real server.
func commandTable() []*command {
	return slices.Concat(stringCommands(), hashCommands(), setCommands(), sortedSetCommands(), geoCommands(),
		listCommands(), streamCommands(), blockingCommands(), bitmapCommands(), hyperLogLogCommands(), keyCommands(),
		connectionCommands(), transactionCommands(), serverCommands())
}

func stringCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: access, group: "string",
			since: since, summary: summary, traits: needsSession | t, run: run}
	}
	const (
		readFast  = "@read @string @fast"
		readSlow  = "@read @string @slow"
		writeFast = "@write @string @fast"
		writeSlow = "@write @string @slow"
	)
	return []*command{
		row("get", 2, "readonly fast", oneKey, readFast, "RO access", "1.0.0", readAheadOf, get,
			"Get the value of a key"),
		row("mget", -2, "readonly fast", allKeys, readFast, "RO access", "1.0.0", 0, mget,
			"Get the values of all the given keys"),
		row("getrange", 4, "readonly", oneKey, readSlow, "RO access", "2.4.0", 0, getRange,
			"Get a substring of the string stored at a key"),
		row("substr", 4, "readonly", oneKey, readSlow, "RO access", "1.0.0", 0, getRange,
			"Get a substring of the string stored at a key"),
		row("lcs", -3, "readonly", twoKeys, readSlow, "RO access", "7.0.0", 0, lcs,
			"Find the longest common subsequence of two strings"),
		row("strlen", 2, "readonly fast", oneKey, readFast, "RO", "2.2.0", 0, strlen,
			"Get the length of the value stored in a key"),

		row("set", -3, "write denyoom", oneKey, writeSlow, "RW access update variable_flags", "1.0.0", pipelinedWrite,
			set, "Set the string value of a key"),
		row("setex", 4, "write denyoom", oneKey, writeSlow, "OW update", "2.0.0", pipelinedWrite, setEx,
			"Set the value and expiration of a key"),
		row("psetex", 4, "write denyoom", oneKey, writeSlow, "OW update", "2.6.0", pipelinedWrite, psetEx,
			"Set the value and expiration in milliseconds of a key"),
		row("mset", -3, "write denyoom", pairs, writeSlow, "OW update", "1.0.1", 0, mset,
			"Set multiple keys to multiple values, one after the other"),
		row("setnx", 3, "write denyoom fast", oneKey, writeFast, "OW insert", "1.0.0", pipelinedWrite, setNX,
			"Set the value of a key, only if the key does not exist"),
		row("getset", 3, "write denyoom fast", oneKey, writeFast, "RW access update", "1.0.0", pipelinedWrite, getSet,
			"Set the string value of a key and return its old value"),
		row("getdel", 2, "write fast", oneKey, writeFast, "RW access delete", "6.2.0", pipelinedWrite, getDel,
			"Get the value of a key and delete the key"),
		row("getex", -2, "write fast", oneKey, writeFast, "RW access update", "6.2.0", pipelinedWrite, getEx,
			"Get the value of a key and optionally set its expiration"),
		row("msetnx", -3, "write denyoom", pairs, writeSlow, "OW insert", "1.0.1", 0, msetNX,
			"Set multiple keys to multiple values, only if none of the keys exist"),
		row("setrange", 4, "write denyoom", oneKey, writeSlow, "RW update", "2.2.0", pipelinedWrite, setRange,
			"Overwrite part of a string at a key starting at the specified offset"),
		row("append", 3, "write denyoom fast", oneKey, writeFast, "RW insert", "2.0.0", pipelinedWrite, appendTo,
			"Append a value to a key"),

		row("incr", 2, "write denyoom fast", oneKey, writeFast, "RW access update", "1.0.0", pipelinedWrite, incr,
			"Increment the integer value of a key by one"),
		row("decr", 2, "write denyoom fast", oneKey, writeFast, "RW access update", "1.0.0", pipelinedWrite, decr,
			"Decrement the integer value of a key by one"),
		row("incrby", 3, "write denyoom fast", oneKey, writeFast, "RW access update", "1.0.0", pipelinedWrite, incrBy,
			"Increment the integer value of a key by the given amount"),
		row("decrby", 3, "write denyoom fast", oneKey, writeFast, "RW access update", "1.0.0", pipelinedWrite, decrBy,
			"Decrement the integer value of a key by the given number"),
		row("incrbyfloat", 3, "write denyoom fast", oneKey, writeFast, "RW access update", "2.6.0", pipelinedWrite,
			incrByFloat, "Increment the float value of a key by the given amount"),
	}
}

func keyCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: access, group: "generic",
			since: since, summary: summary, traits: needsSession | t, run: run}
	}
	all := func(name string, arity int, flags, acl, group, since string, run handler, summary string) *command {
		return &command{name: name, arity: arity, flags: flags, acl: acl, group: group, since: since, summary: summary,
			traits: needsSession | outsideMulti, run: run}
	}
	const (
		readFast  = "@keyspace @read @fast"
		writeFast = "@keyspace @write @fast"
	)
	secondKey := keyRange{first: 2, last: 2, step: 1}
	object := row("object", -2, "", noKey, "@slow", "", "2.2.3", 0, nil, "A container for commands about values")
	object.subs = []*command{
		row("object|encoding", 3, "readonly", secondKey, "@keyspace @read @slow", "RO", "2.2.3", 0, objectEncoding,
			"Return how Redis would represent the value of a key when it is new"),
		row("object|freq", 3, "readonly", secondKey, "@keyspace @read @slow", "RO", "4.0.0", 0, objectFreq,
			"Return an error: uses of keys are not counted"),
		row("object|refcount", 3, "readonly", secondKey, "@keyspace @read @slow", "RO", "2.2.3", 0, objectRefCount,
			"Return how often Redis would use the value of a key when it is new"),
		row("object|help", 2, "loading stale", noKey, "@keyspace @slow", "", "6.2.0", 0, objectHelp,
			"Show helpful text about the subcommands"),
	}
	return []*command{
		object,
		row("del", -2, "write", allKeys, "@keyspace @write @slow", "RM delete", "1.0.0", pipelinedWrite, del,
			"Delete keys"),
		row("unlink", -2, "write fast", allKeys, writeFast, "RM delete", "4.0.0", pipelinedWrite, del,
			"Delete keys; the same as DEL"),
		row("rename", 3, "write", twoKeys, "@keyspace @write @slow", "RW access delete;OW update", "1.0.0", 0, rename,
			"Rename a key: write the new one, then delete the old one"),
		row("renamenx", 3, "write fast", twoKeys, writeFast, "RW access delete;OW insert", "1.0.0", 0, renameNX,
			"Rename a key, only if the new key does not exist"),
		row("copy", -3, "write denyoom", twoKeys, "@keyspace @write @slow", "RO access;OW update", "6.2.0", 0, copyKey,
			"Copy the value and the expire time of a key to another one"),
		row("sort", -2, "write denyoom movablekeys", keyRange{first: 1, last: 1, step: 1, sorts: true},
			"@write @set @sortedset @list @slow @dangerous", "RO access;?RO access;?OW update", "1.0.0", 0, sortKey,
			"Sort the elements of a list, a set or a sorted set, and return or store them"),
		row("sort_ro", -2, "readonly movablekeys", oneKey, "@read @set @sortedset @list @slow @dangerous",
			"RO access;?RO access", "7.0.0", 0, sortRO, "Sort the elements of a list, a set or a sorted set"),
		row("move", 3, "write fast", oneKey, writeFast, "RW access update", "1.0.0", 0, move,
			"Move a key to another database"),
		row("exists", -2, "readonly fast", allKeys, readFast, "RO", "1.0.0", 0, exists,
			"Count the given keys that exist"),
		row("touch", -2, "readonly fast", allKeys, readFast, "RO", "3.2.1", 0, exists,
			"Count the given keys that exist; their last use is not recorded"),
		row("type", 2, "readonly fast", oneKey, readFast, "RO", "1.0.0", 0, typeOf,
			"Determine the type stored at a key"),

		all("scan", -2, "readonly", "@keyspace @read @slow", "generic", "2.8.0", scan,
			"Incrementally iterate the keys that the session knows"),
		all("randomkey", 1, "readonly", "@keyspace @read @slow", "generic", "1.0.0", randomKey,
			"Return a key that the session knows, by chance"),
		all("keys", 2, "readonly", "@keyspace @read @slow @dangerous", "generic", "1.0.0", keysMatching,
			"Find all keys that match a pattern, up to a limit"),
		all("flushdb", -1, "write", "@keyspace @write @slow @dangerous", "server", "1.0.0", flushDB,
			"Delete the keys of the database that the session knows, one after the other"),
		all("flushall", -1, "write", "@keyspace @write @slow @dangerous", "server", "1.0.0", flushAll,
			"Delete the keys of all databases that the session knows, one after the other"),

		row("expire", -3, "write fast", oneKey, writeFast, "RW update", "1.0.0", pipelinedWrite, expire,
			"Set a key's time to live in seconds"),
		row("pexpire", -3, "write fast", oneKey, writeFast, "RW update", "2.6.0", pipelinedWrite, pexpire,
			"Set a key's time to live in milliseconds"),
		row("expireat", -3, "write fast", oneKey, writeFast, "RW update", "1.2.0", pipelinedWrite, expireAt,
			"Set the expiration of a key as a UNIX timestamp"),
		row("pexpireat", -3, "write fast", oneKey, writeFast, "RW update", "2.6.0", pipelinedWrite, pexpireAt,
			"Set the expiration of a key as a UNIX timestamp in milliseconds"),
		row("persist", 2, "write fast", oneKey, writeFast, "RW update", "2.2.0", pipelinedWrite, persist,
			"Remove the expiration of a key"),
		row("ttl", 2, "readonly fast", oneKey, readFast, "RO access", "1.0.0", 0, ttl,
			"Get the time to live of a key in seconds"),
		row("pttl", 2, "readonly fast", oneKey, readFast, "RO access", "2.6.0", 0, pttl,
			"Get the time to live of a key in milliseconds"),
		row("expiretime", 2, "readonly fast", oneKey, readFast, "RO access", "7.0.0", 0, expireTime,
			"Get the expiration of a key as a UNIX timestamp"),
		row("pexpiretime", 2, "readonly fast", oneKey, readFast, "RO access", "7.0.0", 0, pexpireTime,
			"Get the expiration of a key as a UNIX timestamp in milliseconds"),
	}
}

func connectionCommands() []*command {
	row := func(name string, arity int, flags, acl, since string, t trait, run handler, summary string) *command {
		return &command{name: name, arity: arity, flags: flags, acl: acl, group: "connection", since: since,
			summary: summary, traits: t, run: run}
	}
	const (
		fast  = "@fast @connection"
		slow  = "@slow @connection"
		admin = "@admin @slow @dangerous @connection"
		early = "noscript loading stale fast no_auth allow_busy"
		quiet = "noscript loading stale"
	)
	client := row("client", -2, "", "@slow", "2.4.0", 0, nil, "A container for client connection commands")
	client.subs = []*command{
		row("client|id", 2, quiet, slow, "5.0.0", 0, clientID, "Returns the client ID of the current connection"),
		row("client|getname", 2, quiet, slow, "2.6.9", 0, clientGetName, "Get the current connection's name"),
		row("client|setname", 3, quiet, slow, "2.6.9", 0, clientSetName, "Set the current connection's name"),
		row("client|setinfo", 4, quiet, slow, "7.2.0", 0, clientSetInfo,
			"Set the name or version of the client library"),
		row("client|info", 2, quiet, slow, "6.2.0", 0, clientInfo, "Returns information about the current connection"),
		row("client|list", -2, "admin "+quiet, admin, "2.4.0", 0, clientList,
			"Lists the open connections of this sidecar"),
		row("client|no-evict", 3, "admin "+quiet, admin, "7.0.0", 0, clientNoEvict,
			"Accepted; connections are never evicted"),
		row("client|no-touch", 3, quiet, slow, "7.2.0", 0, clientNoTouch, "Accepted; reads have no effect on eviction"),
		row("client|reply", 3, quiet, slow, "3.2.0", 0, clientReply,
			"Instruct the server whether to reply to commands"),
		row("client|unblock", -3, "admin "+quiet, admin, "5.0.0", 0, clientUnblock,
			"End the wait of a client for an element"),
		row("client|help", 2, "loading stale", slow, "5.0.0", 0, clientHelp, "Show helpful text about the subcommands"),
	}
	return []*command{
		row("ping", -1, "fast", fast, "1.0.0", 0, ping, "Ping the server"),
		row("echo", 2, "loading stale fast", fast, "1.0.0", 0, echo, "Echo the given string"),
		row("hello", -1, early, fast, "6.0.0", beforeAuth|outsideMulti, hello,
			"Handshake: choose the protocol, authenticate"),
		row("auth", -2, early, fast, "1.0.0", beforeAuth|outsideMulti, auth, "Authenticate to the server"),
		row("select", 2, "loading stale fast", fast, "1.0.0", 0, selectDB, "Change the selected database, 0 to 15"),
		row("quit", -1, early, fast, "1.0.0", beforeAuth|immediate, quit, "Close the connection"),
		row("reset", 1, early, fast, "6.2.0", beforeAuth|immediate, reset, "Reset the connection"),
		client,
	}
}

func transactionCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: "RO", group: "transactions",
			since:   since,
			summary: summary, traits: t, run: run}
	}
	const (
		quick = "noscript loading stale fast allow_busy"
		fast  = "@fast @transaction"
	)
	return []*command{
		row("multi", 1, quick, noKey, fast, "1.2.0", immediate, multi, "Mark the start of a transaction block"),
		row("exec", 1, "noscript loading stale skip_slowlog", noKey, "@slow @transaction", "1.2.0", immediate,
			execTransaction, "Execute all commands issued after MULTI, with nothing else of this sidecar in between"),
		row("discard", 1, quick, noKey, fast, "2.0.0", immediate, discard, "Discard all commands issued after MULTI"),
		row("watch", -2, quick, allKeys, fast, "2.2.0", needsSession|immediate, watch,
			"Let EXEC execute nothing if one of the keys has changed, as far as this session can tell"),
		row("unwatch", 1, quick, noKey, fast, "2.2.0", 0, unwatch, "Forget about all watched keys"),
	}
}

func serverCommands() []*command {
	row := func(name string, arity int, flags, acl, since string, t trait, run handler, summary string) *command {
		return &command{name: name, arity: arity, flags: flags, acl: acl, group: "server", since: since,
			summary: summary, traits: t, run: run}
	}
	const (
		quiet = "loading stale"
		admin = "admin noscript loading stale"
		shell = "@slow @connection"
		risky = "@admin @slow @dangerous"
	)
	describe := row("command", -1, quiet, shell, "2.8.13", 0, commandAll, "Get an array of command details")
	describe.subs = []*command{
		row("command|count", 2, quiet, shell, "2.8.13", 0, commandCount, "Get the number of commands"),
		row("command|docs", -2, quiet, shell, "7.0.0", 0, commandDocs, "Get command documentation"),
		row("command|info", -2, quiet, shell, "2.8.13", 0, commandInfo, "Get an array of command details"),
		row("command|list", -2, quiet, shell, "7.0.0", 0, commandList, "Get an array of command names"),
		row("command|getkeys", -4, quiet, shell, "2.8.13", 0, commandGetKeys, "Extract the keys of a command"),
		row("command|help", 2, quiet, shell, "5.0.0", 0, commandHelp, "Show helpful text about the subcommands"),
	}
	config := row("config", -2, "", "@slow", "2.0.0", 0, nil, "A container for server configuration commands")
	config.subs = []*command{
		row("config|get", -3, admin, risky, "2.0.0", 0, configGet, "Get the values of configuration parameters"),
		row("config|help", 2, quiet, "@slow", "5.0.0", 0, configHelp, "Show helpful text about the subcommands"),
	}
	acl := row("acl", -2, "", "@slow", "6.0.0", 0, nil, "A container for commands about users")
	acl.subs = []*command{
		row("acl|whoami", 2, "noscript loading stale", "@slow", "6.0.0", 0, aclWhoAmI,
			"Return the name of the connection's user"),
		row("acl|users", 2, admin, risky, "6.0.0", 0, aclUsers, "List the names of the users"),
		row("acl|list", 2, admin, risky, "6.0.0", 0, aclList, "List the users, without passwords"),
		row("acl|help", 2, quiet, "@slow", "6.0.0", 0, aclHelp, "Show helpful text about the subcommands"),
	}
	module := row("module", -2, "", "@slow", "4.0.0", 0, nil, "A container for module commands")
	module.subs = []*command{
		row("module|list", 2, "admin noscript", risky, "4.0.0", 0, moduleList, "List the modules: there are none"),
	}
	causal := row("causal", -2, "", "@slow", "1.0.0", 0, nil, "A container for the commands of causal sessions")
	causal.subs = []*command{
		row("causal|status", 2, quiet, "@slow", "1.0.0", needsSession|outsideMulti, causalStatus,
			"Show the rings that the session is bound to"),
		row("causal|token", 2, quiet, "@slow", "1.0.0", needsSession|outsideMulti, causalToken,
			"Export the session, to resume it elsewhere"),
		row("causal|resume", 3, quiet, "@slow", "1.0.0", needsSession|outsideMulti, causalResume,
			"Resume an exported session"),
		row("causal|wait", -3, quiet, "@slow", "1.0.0", needsSession|outsideMulti, causalWait,
			"Wait until the last write is in one ring or in all rings"),
		row("causal|last", 2, quiet, "@slow", "1.0.0", needsSession|outsideMulti, causalLast,
			"Show the version, source and status of the last reply"),
		row("causal|level", -2, quiet, "@slow", "1.0.0", needsSession|outsideMulti, causalLevel,
			"Show or set the level of the reads of this connection"),
		row("causal|help", 2, quiet, "@slow", "1.0.0", 0, causalHelp, "Show helpful text about the subcommands"),
	}
	return []*command{
		row("info", -1, quiet, "@slow @dangerous", "1.0.0", 0, info, "Get information and statistics about the server"),
		row("time", 1, "loading stale fast", "@fast", "2.6.0", 0, timeNow, "Return the current server time"),
		row("dbsize", 1, "readonly fast", "@keyspace @read @fast", "1.0.0", needsSession, dbSize,
			"Return the number of keys"),
		row("role", 1, "noscript loading stale fast", "@admin @fast @dangerous", "2.8.12", 0, role,
			"Return the role: each sidecar accepts writes"),
		describe, config, acl, module, causal,
	}
}

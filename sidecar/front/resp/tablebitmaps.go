package resp

func bitmapCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: access, group: "bitmap",
			since: since, summary: summary, traits: needsSession | t, run: run}
	}
	const (
		readFast  = "@read @bitmap @fast"
		readSlow  = "@read @bitmap @slow"
		writeSlow = "@write @bitmap @slow"
	)
	keysFromSecond := keyRange{first: 2, last: -1, step: 1}
	return []*command{
		row("setbit", 4, "write denyoom", oneKey, writeSlow, "RW access update", "2.2.0", pipelinedWrite, setBit,
			"Sets or clears the bit at offset in the string value stored at key"),
		row("getbit", 3, "readonly fast", oneKey, readFast, "RO access", "2.2.0", 0, getBit,
			"Returns the bit value at offset in the string value stored at key"),
		row("bitcount", -2, "readonly", oneKey, readSlow, "RO access", "2.6.0", 0, bitCount,
			"Count set bits in a string"),
		row("bitpos", -3, "readonly", oneKey, readSlow, "RO access", "2.8.7", 0, bitPos,
			"Find first bit set or clear in a string"),
		row("bitop", -4, "write denyoom", keysFromSecond, writeSlow, "OW update;RO access", "2.6.0", 0, bitOp,
			"Perform bitwise operations between strings"),
		row("bitfield", -2, "write denyoom", oneKey, writeSlow, "RW access update variable_flags", "3.2.0",
			pipelinedWrite, bitFields,
			"Perform arbitrary bitfield integer operations on strings"),
		row("bitfield_ro", -2, "readonly fast", oneKey, readFast, "RO access", "6.0.0", 0, bitFieldRO,
			"Perform arbitrary bitfield integer operations on strings. Read-only variant of BITFIELD"),
	}
}

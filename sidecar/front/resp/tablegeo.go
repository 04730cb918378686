package resp

func geoCommands() []*command {
	row := func(name string, arity int, flags string, k keyRange, acl, access, since string, t trait, run handler,
		summary string) *command {
		return &command{name: name, arity: arity, flags: flags, keys: k, acl: acl, access: access, group: "geo",
			since: since, summary: summary, traits: needsSession | t, run: run}
	}
	const (
		readSlow  = "@read @geo @slow"
		writeSlow = "@write @geo @slow"
	)
	storeFrom5 := keyRange{first: 1, last: 1, step: 1, store: 5}
	storeFrom6 := keyRange{first: 1, last: 1, step: 1, store: 6}
	return []*command{
		row("geoadd", -5, "write denyoom", oneKey, writeSlow, "RW update", "3.2.0", pipelinedWrite, geoAdd,
			"Add one or more geospatial items in the geospatial index represented using a sorted set"),
		row("geodist", -4, "readonly", oneKey, readSlow, "RO access", "3.2.0", 0, geoDist,
			"Returns the distance between two members of a geospatial index"),
		row("geohash", -2, "readonly", oneKey, readSlow, "RO access", "3.2.0", 0, geoHash,
			"Returns members of a geospatial index as standard geohash strings"),
		row("geopos", -2, "readonly", oneKey, readSlow, "RO access", "3.2.0", 0, geoPos,
			"Returns longitude and latitude of members of a geospatial index"),
		row("geosearch", -7, "readonly", oneKey, readSlow, "RO access", "6.2.0", 0, geoSearchKey,
			"Find the members of a geospatial index inside a box or a circle"),
		row("geosearchstore", -8, "write denyoom", twoKeys, writeSlow, "OW update;RO access", "6.2.0", 0,
			geoSearchStore,
			"Find the members of a geospatial index inside a box or a circle, and store them in another key"),
		row("georadius", -6, "write denyoom movablekeys", storeFrom6, writeSlow, "RO access;OW update;OW update",
			"3.2.0", 0, geoRadius,
			"Find the members of a geospatial index within a distance from a point"),
		row("georadiusbymember", -5, "write denyoom movablekeys", storeFrom5, writeSlow,
			"RO access;OW update;OW update", "3.2.0", 0, geoRadiusByMember,
			"Find the members of a geospatial index within a distance from a member"),
		row("georadius_ro", -6, "readonly", oneKey, readSlow, "RO access", "3.2.10", 0, geoRadiusRO,
			"A read-only variant for GEORADIUS"),
		row("georadiusbymember_ro", -5, "readonly", oneKey, readSlow, "RO access", "3.2.10", 0, geoRadiusByMemberRO,
			"A read-only variant for GEORADIUSBYMEMBER"),
	}
}

package resp

// refusals are commands of Redis that are not in the table, with an error that says what to do instead. Other commands that are
// not in the table are unknown.
var refusals = map[string]string{
	"scan":      noKeyList("SCAN"),
	"keys":      noKeyList("KEYS"),
	"randomkey": noKeyList("RANDOMKEY"),
	"flushdb":   noFlush("FLUSHDB"),
	"flushall":  noFlush("FLUSHALL"),
	"move":      "MOVE is not supported: read the key, SELECT the other database, write it there, and delete it here",
	"swapdb":    "SWAPDB is not supported: the database is part of the name under which a key is stored",
	"eval":      noScripts("EVAL"),
	"evalsha":   noScripts("EVALSHA"),
	"script":    noScripts("SCRIPT"),
	"fcall":     noScripts("FCALL"),
}

func noKeyList(name string) string {
	return name + " is not supported: keep an index of the keys under a key of its own, or derive the keys from the data"
}

func noFlush(name string) string {
	return name + " is not supported: delete the keys by name, or use another database or a new store"
}

func noScripts(name string) string {
	return name + " is not supported: there are no scripts. Use MULTI and WATCH, or do it in the client"
}

package resp

// refusals are commands of Redis that are not in the table, with an error that says what to do instead. Other commands that are
// not in the table are unknown.
var refusals = map[string]string{
	"randomkey": "RANDOMKEY is not supported: use SCAN",
	"move":      "MOVE is not supported: read the key, SELECT the other database, write it there, and delete it here",
	"swapdb":    "SWAPDB is not supported: the database is part of the name under which a key is stored",
	"eval":      noScripts("EVAL"),
	"evalsha":   noScripts("EVALSHA"),
	"script":    noScripts("SCRIPT"),
	"fcall":     noScripts("FCALL"),
}

func noScripts(name string) string {
	return name + " is not supported: there are no scripts. Use MULTI and WATCH, or do it in the client"
}

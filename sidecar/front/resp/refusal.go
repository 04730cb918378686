package resp

import "strings"

// refusal is a family of commands of Redis 7.0 that are not in the table, with what to do instead.
type refusal struct {
	names  string // lower case; "container|sub" for a subcommand
	advice string
}

// refusalTable lists every command of Redis that is not in the command table, so that clients can tell a refused
// command from a typo. A test compares both tables with a real server.
func refusalTable() []refusal {
	return []refusal{
		{"pfdebug pfselftest", "they are for the developers of Redis; GET returns the registers of a HyperLogLog"},
		{"psubscribe publish pubsub punsubscribe spublish ssubscribe subscribe sunsubscribe unsubscribe",
			"there is no publish and subscribe; use a message queue, and send CAUSAL TOKEN along"},
		{"eval eval_ro script", "there are no scripts; use MULTI and WATCH, or do it in the client"},
		{"function", "there are no functions; use MULTI and WATCH, or do it in the client"},

		{"object|idletime", "nothing is evicted, so the last use of a key is not recorded"},
		{"swapdb", "the database is part of the name under which a key is stored"},
		{"dump migrate restore restore-asking", "copy with SCAN, GET, PEXPIRETIME, and SET with PXAT"},

		{"client|caching client|getredir client|tracking client|trackinginfo",
			"the sidecar sends no invalidations; disable client-side caching, the sidecar's data center has a cache"},
		{"client|kill client|pause client|unpause",
			"clients cannot stop each other; restart the sidecar or the app"},
		{"command|getkeysandflags", "COMMAND INFO tells the keys of a command"},
		{"config|resetstat config|rewrite config|set", "change the configuration of the deployment"},
		{"acl|cat acl|deluser acl|dryrun acl|genpass acl|getuser acl|load acl|log acl|save acl|setuser",
			"every user may use every command; change the users in the file of users of the deployment"},
		{"bgrewriteaof bgsave lastsave save", "a write is durable when it is answered"},
		{"failover psync replconf replicaof slaveof sync wait",
			"the deployment replicates; CAUSAL WAIT waits until a write is in one ring or in all rings"},
		{"debug latency lolwut memory monitor slowlog", "use INFO, and the metrics of the sidecar"},
		{"module|help module|load module|loadex module|unload", "there are no modules"},
		{"shutdown", "whoever runs the deployment stops a sidecar"},
	}
}

// refusalErrors are the errors of refused commands, by their names. Clients branch on those that Redis gives itself.
var refusalErrors = func() map[string]*Error {
	errs := make(map[string]*Error)
	for _, r := range refusalTable() {
		for name := range strings.FieldsSeq(r.names) {
			errs[name] = Errorf("ERR", "%s is not supported: %s", strings.ToUpper(strings.Replace(name, "|", " ", 1)),
				r.advice)
		}
	}
	for _, name := range []string{"evalsha", "evalsha_ro"} { // clients send EVAL next, which says what to do
		errs[name] = &Error{Code: "NOSCRIPT", Message: "No matching script. Please use EVAL."}
	}
	for _, name := range []string{"fcall", "fcall_ro"} {
		errs[name] = genericError("Function not found")
	}
	for _, name := range []string{"cluster", "asking", "readonly", "readwrite"} { // clients go on without a cluster
		errs[name] = genericError("This instance has cluster support disabled")
	}
	return errs
}()

// refusalOf returns the error for a command of Redis that is refused, or nil.
func refusalOf(args [][]byte) *Error {
	name := strings.ToLower(cString(args[0], maxNameBytes))
	if len(name) != len(args[0]) || strings.Contains(name, "|") {
		return nil
	}
	if err := refusalErrors[name]; err != nil || len(args) == 1 {
		return err
	}
	return refusalErrors[name+"|"+strings.ToLower(cString(args[1], maxNameBytes))]
}

package resp

import "strconv"

// configParameters returns the parameters of CONFIG GET that clients and tools ask for, with the value that describes
// the sidecar best.
func (c *connection) configParameters() [][2]string {
	lim := &c.server.options.Limits
	return [][2]string{
		{"appendfsync", "always"}, // a write is answered once it is durable (PROTOCOL COO-1)
		{"appendonly", "yes"},
		{"databases", strconv.Itoa(databases)},
		{"maxclients", strconv.Itoa(lim.MaxClients)},
		{"maxmemory", "0"},
		{"maxmemory-policy", "noeviction"},
		{"proto-max-bulk-len", strconv.Itoa(lim.MaxValueBytes)},
		{"save", ""},
		{"tcp-keepalive", "15"},
		{"timeout", "0"},
	}
}

// CONFIG GET pattern [pattern ...]
func configGet(c *connection, args [][]byte) error {
	found := Map{}
	for _, p := range c.configParameters() {
		for _, pattern := range args[2:] {
			if matchGlob(string(pattern), p[0], true) {
				found = append(found, p[0], p[1])
				break
			}
		}
	}
	c.out.writeReply(found)
	return nil
}

// CONFIG HELP
func configHelp(c *connection, _ [][]byte) error {
	c.writeHelp("CONFIG", "GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values.")
	return nil
}

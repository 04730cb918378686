package resp

import "strconv"

// parameters are what CONFIG GET knows: what clients and tools ask for, with the value that describes the sidecar best.
func (c *connection) parameters() [][2]string {
	lim := &c.server.options.Limits
	return [][2]string{
		{"appendfsync", "always"}, // a write is answered once it is durable (PROTOCOL §4)
		{"appendonly", "yes"},
		{"databases", "1"},
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
	for _, p := range c.parameters() {
		for _, pattern := range args[2:] {
			if matchGlob(string(pattern), p[0]) {
				found = append(found, p[0], p[1])
				break
			}
		}
	}
	c.out.value(found)
	return nil
}

// CONFIG SET parameter value [parameter value ...]
func configSet(*connection, [][]byte) error {
	return plainError("CONFIG SET is not supported: the sidecar is configured by its deployment")
}

// CONFIG HELP
func configHelp(c *connection, _ [][]byte) error {
	c.help("CONFIG", "GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values.")
	return nil
}

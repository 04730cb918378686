package resp

// causalCommand leaves the subcommand to the session, which knows what a session is.
func causalCommand(c *connection, args [][]byte) error {
	reply, err := c.session.Causal(c.server.context, args[1:])
	if err != nil {
		return err
	}
	c.out.value(reply)
	return nil
}

// CAUSAL HELP
func causalHelp(c *connection, _ [][]byte) error {
	c.help("CAUSAL",
		"LAST", "    Return how the last command of this connection was answered: version, source, status.",
		"RESUME <token>", "    Go on with a session that was exported, here or in another data centre.",
		"STATUS", "    Return what the session is bound to.",
		"TOKEN", "    Export the session as an opaque string.",
		"WAIT [<ring>|all] <timeout-ms>", "    Wait until the last write of the session is in a ring, or in all of them.")
	return nil
}

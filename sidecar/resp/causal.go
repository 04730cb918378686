package resp

// causalCommand passes a subcommand of CAUSAL to the session.
func causalCommand(c *connection, args [][]byte) error {
	reply, err := c.session.Causal(c.server.context, args[1:])
	if err != nil {
		return err
	}
	c.out.writeReply(reply)
	return nil
}

// CAUSAL HELP
func causalHelp(c *connection, _ [][]byte) error {
	c.writeHelp("CAUSAL",
		"LAST", "    Return the version, source and status of the last reply on this connection.",
		"RESUME <token>", "    Resume a session that was exported here or in another data center.",
		"STATUS", "    Return the rings that the session is bound to, and its other state.",
		"TOKEN", "    Export the session as an opaque string.",
		"WAIT [<ring>|all] <timeout-ms>",
		"    Wait until the last write of the session is in one ring or in all rings.")
	return nil
}

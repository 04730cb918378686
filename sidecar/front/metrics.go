package front

// Metrics receives what happens at a front. Its methods are called concurrently.
type Metrics interface {
	ConnectionOpened()
	ConnectionClosed()
	// ConnectionRefused reports a connection over Limits.MaxClients.
	ConnectionRefused()
	// ConnectionEvicted reports a connection that was closed because of Limits.MaxClientBytes.
	ConnectionEvicted()
	// CommandsDone reports n commands of one name, of which some have failed, with the seconds until the reply of each
	// was ready: for reads that were executed together, until all replies were, and for a pipelined put, until it was
	// issued. The names come from a table, so their number is bounded.
	CommandsDone(name string, n, failed int, seconds float64)
	ProtocolError()
	Panicked()
}

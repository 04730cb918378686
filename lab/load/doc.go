// Package load drives RESP endpoints with unmodified clients, measures them, and records their replies as a history
// that package history can check.
//
// # Contract
//
// Every connection is a goroutine with its own go-redis client of exactly one connection. Commands are sent once,
// without retries, so that an operation in the history is an operation on the wire. In a recorded history, values are
// unique. A lost connection is replaced, which on the server is a new session (PROTOCOL SES); SessionNaming
// determines how the history names sessions.
//
// Operations come from a Workload (YCSB, Twitter's clusters, a file; docs/load.md), whose keys are preloaded. Without
// one they are a mix of GET, SET, DEL and MGET on few keys that is made to check causality, or with the Promise
// DataCenter one with updates of shared keys, for history.CheckDataCenters.
//
// The benchmarks of package bench measure CPU time per operation and use a driver without a client library instead.
//
// # Outcomes
//
// A SET or DEL has failed if its error code guarantees that it had no effect (BUSY, LOADING, UNAVAILABLE and Redis' own
// refusals), or if the connection could not be established. After any other error, a timeout or a lost connection its
// outcome is unknown. A DEL that replies 0 found nothing and did nothing: it is recorded as a get of a missing key.
// Failed reads are recorded as failed.
//
// # Latency
//
// In the closed loop (Rate 0) the latency is that of the round trip. In the open loop it counts from the moment at
// which the operation was due, so that a stalled server is charged for the operations that it delayed (no coordinated
// omission); operations that were never sent are counted. Only successful operations have a latency. A
// read-modify-write is one operation with one latency, from its GET to the reply of its SET.
package load

// Package load drives RESP endpoints with unmodified clients, measures them, and records what they answered as a history
// that package history can judge.
//
// # Contract
//
// Every connection is a goroutine with its own go-redis client of exactly one connection. Commands are sent once, without
// retries, so that an operation in the history is an operation on the wire. Where a history is kept, values are unique. A
// lost connection is made anew, which on the server is a new session (PROTOCOL §3, scope); SessionNaming says how the history
// is to name that.
//
// What is asked comes from a Workload (YCSB, Twitter's clusters, a file; docs/load.md), whose keys are written beforehand, or
// without one from a mix of GET, SET, DEL and MGET on few keys, which shows whether the endpoints are causal.
//
// # Outcomes
//
// A SET or DEL that is answered with an error code that promises that nothing was done (BUSY, LOADING, UNAVAILABLE and
// Redis' own refusals), or whose connection could not be made, has failed. After any other error, a timeout or a lost
// connection its outcome is unknown. A DEL that is answered with 0 has found nothing and done nothing: it is recorded as a
// get of a missing key. Failed reads are recorded as failed.
//
// # Latency
//
// In the closed loop (Rate 0) the latency is that of the round trip. In the open loop it counts from the moment at which
// the operation was due, so that a stalled server is charged for the operations that it kept from being sent (no
// coordinated omission); those that were never sent are counted. Only successful operations have a latency. A
// read-modify-write is one operation with one latency, from its GET to the answer of its SET.
package load

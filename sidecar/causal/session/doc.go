// Package session is the sidecar's machine: it holds the causal sessions of one pod and runs their operations
// (PROTOCOL SES, MGET).
//
// The caller opens a session, starts operations with Do, passes in every message with Step and the time with Tick, and
// collects messages to send with Take and finished operations with TakeResults. Every operation gets exactly one
// Result, at the latest at the first tick after its timeout.
//
// Failure model: that of package causal. A reply is matched to its request by id, so a late or duplicate one changes
// nothing. Sessions live in memory only: they end with the sidecar. Writes that were acknowledged do not.
package session

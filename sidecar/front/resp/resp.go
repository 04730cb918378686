// Package resp is the front for Redis clients: the RESP2 and RESP3 codec, the command table, and the loop that serves
// one client connection. It knows nothing of the protocol; it works on the front.Session that a front.Backend returns.
//
// # Contract
//
// The commands of a connection execute one at a time, in order, and are answered in that order. Two things overlap
// without being visible: consecutive plain SETs of a pipeline are all issued before the first is awaited
// (front.Session.PutAsync), and consecutive GETs in the read buffer are read together (GetEach).
//
// This package applies expire times: a Value carries an absolute one, and a value past it is answered as missing.
//
// Commands that read before they write (INCR, APPEND, SET with NX, XX, GET or KEEPTTL, DEL, EXPIRE, ...) hold
// Session.Lock on their keys, and EXEC holds Session.Isolate on those of its transaction, so connections of one sidecar
// that share a session never lose each other's updates. If each connection is its own session, the next one may not see
// the update yet and overwrite it. Between sidecars, any two commands are concurrent, and the order of versions decides
// (PROTOCOL PRO). MSET, RENAME and the writes of a transaction are sequences of puts: elsewhere, they become visible
// one after the other.
//
// # Failure model
//
// Clients are not trusted. A malformed frame is answered with Redis' own error and closes that connection only. A
// command over a limit is read to its end but not stored, answered with an error, and the connection continues. Limits
// bounds the memory per connection, whatever lengths a client declares. A client that does not read its replies is
// disconnected after Limits.WriteTimeout. A panic closes the connection it occurred on, and is logged and counted.
package resp

// Package history records what clients saw and checks whether it was causal+ consistent (PROTOCOL PRO). For stores that
// promise more inside a data center, CheckDataCenters checks that, too.
//
// # Operations
//
// A history is a list of operations. A process issues operations one after the other: in the order of the history, with
// starts and ends that never decrease. (A connection that pipelines is a process too: its replies come in command
// order.) A session is one or more processes whose operations may overlap; between two processes of one session, A is
// before B iff A ended before B started. Times of different sessions are never compared.
//
// Written values must be unique per key, including failed attempts: a value identifies the write that a read returned.
//
// A put or delete with unknown outcome (connection lost, timed out) may take effect at any time after its start, or
// never. The earlier operations of its session are before it, but it is before another operation only if that
// operation, or one before that, has read it. This also holds for the later operations of its own process. A failed put
// or delete, by contrast, certainly had no effect. Failed reads are ignored.
//
// # Format
//
// On disk a history is JSON lines, one line per operation:
//
//	{"session":"s3","process":"s3/a","op":"put","key":"k","value":"v2","version":"117@3","start":1,"end":2,"ok":true}
//	{"session":"s3","process":"s3/a","op":"put","key":"k","value":"v3","start":30,"end":99,"ok":false,"unknown":true}
//	{"session":"s3","op":"get","key":"k","value":"v2","version":"117@3","start":31,"end":35,"ok":true,"dc":"us"}
//	{"session":"s3","process":"s3/b","op":"get","key":"z","missing":true,"start":36,"end":38,"ok":true}
//	{"session":"s4","op":"mget","reads":[{"key":"k","value":"v"},{"key":"z","value":"w"}],"start":1,"end":2,"ok":true}
//	{"session":"s4","op":"delete","key":"k","start":3,"end":4,"ok":true}
//	{"session":"s4","op":"token","token":"t1","start":5,"end":6,"ok":true}
//	{"session":"s5","op":"resume","token":"t1","start":9,"end":9,"ok":true}
//	{"session":"s5","op":"get","key":"k","missing":true,"final":true,"start":90,"end":91,"ok":true}
//
//	{"session":"s6","op":"add","key":"n","value":"a1","version":"120@3","start":1,"end":2,"ok":true}
//	{"session":"s6","op":"get","key":"n","parts":[{"value":"a1","version":"120@3"},{"value":"a2","version":"121@5"}],
//	 "start":3,"end":4,"ok":true}
//	{"session":"s7","op":"update","key":"c","command":["INCR"],"value":"5","start":1,"end":2,"ok":true,"dc":"us"}
//	{"session":"s8","op":"commit","reads":[{"key":"a","value":"v1"}],"version":"131@3","start":1,"end":2,"ok":true,
//	 "writes":[{"key":"a","missing":true},{"key":"b","value":"v1"}],"dc":"us"}
//
// Its fields:
//
//   - session is required. process defaults to the session's name; a process belongs to one session.
//   - start and end are nanoseconds on a clock that the processes of one session share.
//   - version is "<hlc>@<origin>", or "<ms>.<counter>@<origin>" as causal.Version prints it. It is optional
//     everywhere; a read of a tombstone may give the tombstone's version beside missing. Versions given by reads apply
//     to the write that was read, so a put whose reply was lost still gets one.
//   - ok and unknown: ok alone is success, unknown alone is a write of unknown outcome, neither is failure.
//   - token and resume: the session of resume continues what the session of token had seen at that point.
//   - final marks a get or mget after quiescence. Final reads come after every other operation of the history,
//     whatever the times, so a process does nothing else after its first one.
//   - add is a write of a value that merges: it leaves the other writes of its key in place, and a read returns all of
//     them as parts. Of a key with adds, each write of known outcome needs its version: a put or delete overwrites
//     those with smaller ones.
//   - level is that of a get or mget, if the session has named one: it says what the read promises. Without it, and at
//     every level that there is, that is causal+.
//   - update is a command that reads its key and may write it in one step. Its command has no key, and value is the
//     reply, or missing if that is nil. The values of keys with updates are not unique, so causal+ is
//     checked only of those where all that was read and written has versions.
//   - commit is a step that writes the keys of writes, after it has read those of reads, all at one time among the
//     clients of its data center. A write that is missing is a delete. Writes have consecutive versions, in their
//     order, and version is that of the last one. For causal+ it is an mget and single writes.
//   - inFlight marks a read of a version that was not complete.
//   - source says where a read was answered. Nothing is judged by it.
//   - dc is the data center. Only CheckDataCenters needs it.
//
// # Rules
//
// Happens-before is the smallest transitive order that contains session order, reads-from and token-resume. A delete is
// a write of "missing". A write w' supersedes w, both of one key, if w' has the greater version where both versions are
// known, and otherwise if w happens before w'. The Kind constants list the violations.
//
// Where every write has a version the arbitration order is the order of the versions, and the check is complete.
// Without versions, a read that returned w while w' was in its past implies that w' is arbitrated before w;
// happens-before with these conflict edges (and the order of the known versions) must have no cycle. A read of
// "missing" that does not tell which tombstone it read adds no order of its own: it only needs some delete that can
// explain it.
package history

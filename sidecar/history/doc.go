// Package history records what clients saw and decides whether it was causal+ (PROTOCOL §1, §11.3).
//
// # Operations
//
// A history is a list of operations. A process issues operations one after the other: in the order in which they stand
// in the history, with starts and ends that never go back. (A connection that pipelines is a process too: its answers
// come in command order.) A session is one or more processes whose operations may overlap; between two processes of
// one session, A is before B iff A ended before B started. Times of different sessions are never compared.
//
// Values written are unique per key, failed attempts included. It is the writer's duty, and makes known what a read read from.
//
// A put or delete with unknown outcome (connection lost, timed out) may take effect at any time after its start, or
// never. What its session had done before it is before it; but it is before another operation only if that operation,
// or one that is before that one, has read it. That holds for the later operations of its own process too.
// A failed put or delete, by contrast, promises that nothing was done. Failed reads say nothing and are left out.
//
// # Format
//
// On disk a history is JSON lines, one line an operation:
//
//		{"session":"s3","process":"s3/c1","op":"put","key":"k","value":"v42","version":"117@3","start":10,"end":25,"ok":true,"dc":"us-east-1"}
//		{"session":"s3","process":"s3/c1","op":"put","key":"k","value":"v43","start":30,"end":99,"ok":false,"unknown":true}
//		{"session":"s3","process":"s3/c2","op":"get","key":"k","value":"v42","version":"117@3","start":31,"end":35,"ok":true}
//		{"session":"s3","process":"s3/c2","op":"get","key":"z","missing":true,"start":36,"end":38,"ok":true}
//		{"session":"s4","op":"mget","reads":[{"key":"k","value":"v42"},{"key":"z","missing":true}],"start":1,"end":2,"ok":true}
//		{"session":"s4","op":"delete","key":"k","start":3,"end":4,"ok":true}
//		{"session":"s4","op":"token","token":"t1","start":5,"end":6,"ok":true}
//		{"session":"s5","op":"resume","token":"t1","start":9,"end":9,"ok":true}
//		{"session":"s5","op":"get","key":"k","missing":true,"final":true,"start":90,"end":91,"ok":true}
//
//	  - session is required. process defaults to the session's name; a process belongs to one session.
//	  - start and end are nanoseconds on a clock that the processes of one session share.
//	  - version is "<hlc>@<origin>", or "<ms>.<counter>@<origin>" as causal.Version prints it. It is optional everywhere;
//	    a read of a tombstone may give the tombstone's version beside missing. Versions given by reads count for the
//	    write that was read, so a put whose answer was lost still gets one.
//	  - ok and unknown: ok alone is success, unknown alone is a write of unknown outcome, neither is failure.
//	  - token and resume: the session of resume continues what the session of token had seen at that point.
//	  - final marks a get or mget made after quiescence. Final reads come after every other operation of the history,
//	    whatever the times say, so a process does nothing else after its first one.
//	  - dc is for the reader of the history; the checker does not use it.
//
// # What is decided
//
// Happens-before is the least transitive order that holds session order, reads-from and token-resume. A delete is a
// write of "missing". A write w' supersedes w, both of one key, if w' has the greater version where both versions are
// known, and otherwise if w happens before w'. The Kind constants list the violations, each with its rule.
//
// Where every write has a version the arbitration order is the order of the versions, and the check is complete.
// Without versions, a read that returned w while w' was in its past says that w' is arbitrated before w; happens-before
// with these conflict edges (and the order of such versions as are known) must have no cycle. A read of "missing" that
// does not say which tombstone it read adds no order of its own: it is only tested for being explicable by some delete.
package history

package resp

import "github.com/causalstore/causalstore/sidecar/operation"

// parseInt parses an integer as strictly as Redis.
func parseInt(b []byte) (int64, bool) { return operation.ParseInt(b) }

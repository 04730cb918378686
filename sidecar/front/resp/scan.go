package resp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// A scan of the store returns the names of keys that may exist, of all databases. The commands here read those of the
// selected database to learn which exist, so what they return is what the session would read.

const (
	defaultScanCount = 10
	// maxScanCount bounds the names that are asked for at once.
	maxScanCount = 1000
	// readTogether is how many keys are read at once to learn whether they exist. Their values are in memory together.
	readTogether = 100
	// maxKeysVisited and maxKeysReturned bound KEYS.
	maxKeysVisited, maxKeysReturned = 1_000_000, 100_000
)

var (
	errInvalidCursor = genericError("invalid cursor")
	errTooManyKeys   = Errorf("ERR", "KEYS returns at most %d keys and visits at most %d; use SCAN", maxKeysReturned,
		maxKeysVisited)
)

// scanOptions are the options of SCAN.
type scanOptions struct {
	pattern string // empty: all keys
	count   int
	ofType  string // lower case; empty: all
}

// parseScanOptions parses the options of SCAN, or of HSCAN and SSCAN, which have no TYPE.
func parseScanOptions(args [][]byte, ofKeys bool) (o scanOptions, err error) {
	o.count = defaultScanCount
	for i := 0; i < len(args); i += 2 {
		if i+1 == len(args) {
			return o, errSyntax
		}
		switch value := args[i+1]; {
		case equalFold(args[i], "match"):
			o.pattern = string(value)
		case ofKeys && equalFold(args[i], "type"):
			o.ofType = strings.ToLower(string(value))
		case equalFold(args[i], "count"):
			n, ok := parseInt(value)
			switch {
			case !ok:
				return o, errNotInteger
			case n < 1:
				return o, errSyntax
			}
			o.count = int(min(n, maxScanCount))
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

// parseCursor parses a cursor as C does: it may have a sign, and the empty text is 0.
func parseCursor(arg []byte) (uint64, error) {
	text := cString(arg, len(arg))
	if text == "" {
		return 0, nil
	}
	digits, isNegative := strings.CutPrefix(text, "-")
	if !isNegative {
		digits = strings.TrimPrefix(text, "+")
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, errInvalidCursor
	}
	if isNegative {
		n = -n
	}
	return n, nil
}

// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
func scan(c *connection, args [][]byte) error {
	cursor, err := parseCursor(args[1])
	if err != nil {
		return err
	}
	o, err := parseScanOptions(args[2:], true)
	if err != nil {
		return err
	}
	stored, next, err := c.session.Scan(c.server.context, cursor, o.count)
	if err != nil {
		return err
	}
	live, err := c.existing(c.keysOfDatabase(stored, o.pattern), o.ofType)
	if err != nil {
		return err
	}
	c.out.writeArrayHeader(2)
	c.out.writeBulkString(strconv.FormatUint(next, 10))
	c.writeStrings(live)
	return nil
}

// KEYS pattern
func keysMatching(c *connection, args [][]byte) error {
	pattern, visited := string(args[1]), 0
	found := make(map[string]bool)
	var all []string
	err := c.scanAll(func(stored []string) error {
		if visited += len(stored); visited > maxKeysVisited {
			return errTooManyKeys
		}
		live, err := c.existing(c.keysOfDatabase(stored, pattern), "")
		for _, key := range live {
			if !found[key] { // a scan may name a key more than once
				found[key] = true
				all = append(all, key)
			}
		}
		if err == nil && len(all) > maxKeysReturned {
			err = errTooManyKeys
		}
		return err
	})
	if err != nil {
		return err
	}
	c.writeStrings(all)
	return nil
}

// FLUSHDB [ASYNC|SYNC]: deletes the keys of the database that a scan names.
func flushDB(c *connection, args [][]byte) error {
	return c.flush(args, func(name string) bool {
		database, _, ok := keyStoredAs(name)
		return ok && database == c.database
	})
}

// FLUSHALL [ASYNC|SYNC]: also what is stored under names that are keys of no database.
func flushAll(c *connection, args [][]byte) error {
	return c.flush(args, func(string) bool { return true })
}

// flush deletes what is stored under the names that a scan returns and that are wanted, a page at a time. It does not
// read first, but if the data center is one Redis: there, deleting a key once more is a write that others find.
func (c *connection) flush(args [][]byte, wanted func(name string) bool) error {
	if len(args) > 2 || len(args) == 2 && !equalFold(args[1], "async") && !equalFold(args[1], "sync") {
		return errSyntax
	}
	err := c.scanAll(func(stored []string) error {
		names := slices.DeleteFunc(slices.Clone(stored), func(name string) bool { return !wanted(name) })
		if c.session.IsExact() {
			return c.flushExactly(names)
		}
		return c.putStored(names, func(int) causal.Value { return tombstone })
	})
	c.server.forgetKeyCount()
	if err != nil {
		return err
	}
	c.out.writeOK()
	return nil
}

// flushExactly deletes what is stored under names, where deletions are writes that an EXEC finds which watches the key:
// a key without a value is left as it is.
func (c *connection) flushExactly(names []string) error {
	var live, expired []string
	for some := range slices.Chunk(names, readTogether) {
		records, err := c.session.Newest(c.server.context, some)
		if err != nil {
			return err
		}
		for i := range records {
			switch v := records[i].Value; {
			case c.isLive(v):
				live = append(live, some[i])
			case value.Exists(v):
				expired = append(expired, some[i])
			}
		}
	}
	if err := c.putStored(live, func(int) causal.Value { return tombstone }); err != nil {
		return err
	}
	for some := range slices.Chunk(expired, readTogether) {
		if err := c.retryConflicts(func() error { return c.deleteExpired(some) }); err != nil {
			return err
		}
	}
	return nil
}

// deleteExpired deletes the values under names that have expired. The tombstone of one says when that was: whoever
// watches the key as one that has expired finds that nobody else has written it meanwhile.
func (c *connection) deleteExpired(names []string) error {
	defer c.session.Session.Lock(names...)()
	records, err := c.session.Session.Newest(c.server.context, names)
	if err != nil {
		return err
	}
	var expired []string
	var deadlines []int64
	for i := range records {
		if v := records[i].Value; !v.Tombstone && !c.isLive(v) {
			expired, deadlines = append(expired, names[i]), append(deadlines, v.ExpireAtMs)
		}
	}
	return c.commitStored(expired, func(i int) causal.Value {
		return causal.Value{Tombstone: true, ExpireAtMs: deadlines[i]}
	}, expired)
}

// scanAll calls f with the names under which keys may be stored, until it has seen all or f fails.
func (c *connection) scanAll(f func(stored []string) error) error {
	_, err := c.scanWhile(func(stored []string) (bool, error) { return true, f(stored) })
	return err
}

// scanWhile is scanAll as long as f returns true. It reports whether f has seen all.
func (c *connection) scanWhile(f func(stored []string) (bool, error)) (all bool, err error) {
	for cursor := uint64(0); ; {
		if err := c.server.context.Err(); err != nil {
			return false, err
		}
		stored, next, err := c.session.Scan(c.server.context, cursor, maxScanCount)
		if err != nil {
			return false, err
		}
		more, err := f(stored)
		if err != nil || next == 0 || !more {
			return next == 0, err
		}
		cursor = next
	}
}

// keysOfDatabase returns the keys of the selected database among the names under which keys are stored, if they match.
func (c *connection) keysOfDatabase(stored []string, pattern string) []string {
	var keys []string
	for _, name := range stored {
		database, key, ok := keyStoredAs(name)
		if ok && database == c.database && (pattern == "" || matchGlob(pattern, key, false)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// existing returns the keys that exist, and are of a type, if one is given.
func (c *connection) existing(keys []string, ofType string) ([]string, error) {
	var live []string
	for len(keys) > 0 {
		some := keys[:min(readTogether, len(keys))]
		keys = keys[len(some):]
		values, err := c.getAll(some)
		if err != nil {
			return nil, err
		}
		for i, v := range values {
			if c.isLive(v) && (ofType == "" || ofType == nameOfType(v)) {
				live = append(live, some[i])
			}
		}
	}
	return live, nil
}

func (c *connection) writeStrings(all []string) {
	c.out.writeArrayHeader(len(all))
	for _, s := range all {
		c.out.writeBulkString(s)
	}
}

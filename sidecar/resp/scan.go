package resp

import (
	"strconv"
)

// A scan of the store returns the names of keys that may exist, of all databases. The commands here read those of the selected
// database to learn which exist, so what they return is what the session would read.

const (
	defaultScanCount = 10
	// maxScanCount bounds the names that are asked for at once.
	maxScanCount = 1000
	// readTogether is how many keys are read at once to learn whether they exist. Their values are in memory together.
	readTogether = 100
	// maxKeysVisited and maxKeysReturned bound KEYS.
	maxKeysVisited, maxKeysReturned = 1_000_000, 100_000
	// maxFlushed bounds the keys that one FLUSHDB or FLUSHALL deletes.
	maxFlushed = 100_000
)

var (
	errInvalidCursor = genericError("invalid cursor")
	errTooManyKeys   = Errorf("ERR", "KEYS returns at most %d keys and visits at most %d; use SCAN", maxKeysReturned, maxKeysVisited)
	errNotFlushed    = Errorf("ERR", "deleted %d keys, and there are more: send the command again", maxFlushed)
)

// scanOptions are the options of SCAN.
type scanOptions struct {
	pattern string // empty: all keys
	count   int
	strings bool // the TYPE, if there is one, is string
}

func parseScanOptions(args [][]byte) (o scanOptions, err error) {
	o.count, o.strings = defaultScanCount, true
	for i := 0; i < len(args); i += 2 {
		if i+1 == len(args) {
			return o, errSyntax
		}
		switch value := args[i+1]; {
		case equalFold(args[i], "match"):
			o.pattern = string(value)
		case equalFold(args[i], "type"):
			o.strings = equalFold(value, "string")
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

// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
func scan(c *connection, args [][]byte) error {
	cursor, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		return errInvalidCursor
	}
	o, err := parseScanOptions(args[2:])
	if err != nil {
		return err
	}
	stored, next, err := c.session.Scan(c.server.context, cursor, o.count)
	if err != nil {
		return err
	}
	var live []string
	if o.strings {
		if live, err = c.existing(c.keysOfDatabase(stored, o.pattern)); err != nil {
			return err
		}
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
		live, err := c.existing(c.keysOfDatabase(stored, pattern))
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

// FLUSHDB [ASYNC|SYNC]: deletes the keys of the database that the session knows, one after the other.
func flushDB(c *connection, args [][]byte) error { return c.flush(args, c.database, c.database) }

// FLUSHALL [ASYNC|SYNC]
func flushAll(c *connection, args [][]byte) error { return c.flush(args, 0, databases-1) }

func (c *connection) flush(args [][]byte, first, last int) error {
	if len(args) > 2 || len(args) == 2 && !equalFold(args[1], "async") && !equalFold(args[1], "sync") {
		return errSyntax
	}
	selected := c.database
	defer func() { c.database = selected }()
	deleted := 0
	err := c.scanAll(func(stored []string) error {
		for c.database = first; c.database <= last; c.database++ {
			keys := c.keysOfDatabase(stored, "")
			for len(keys) > 0 {
				n, err := c.remove(keys[:min(readTogether, len(keys)):min(readTogether, len(keys))])
				if err != nil {
					return err
				}
				if deleted += n; deleted > maxFlushed {
					return errNotFlushed
				}
				keys = keys[min(readTogether, len(keys)):]
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.out.writeOK()
	return nil
}

// scanAll calls f with the names under which keys may be stored, until it has seen all or f fails.
func (c *connection) scanAll(f func(stored []string) error) error {
	for cursor := uint64(0); ; {
		stored, next, err := c.session.Scan(c.server.context, cursor, maxScanCount)
		if err == nil {
			err = f(stored)
		}
		if err != nil || next == 0 {
			return err
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

// existing returns the keys that exist.
func (c *connection) existing(keys []string) ([]string, error) {
	var live []string
	for len(keys) > 0 {
		some := keys[:min(readTogether, len(keys))]
		keys = keys[len(some):]
		values, err := c.getAll(some)
		if err != nil {
			return nil, err
		}
		for i, v := range values {
			if c.isLive(v) {
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

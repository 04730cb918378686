package resp

import "github.com/causalstore/causalstore/sidecar/causal"

var errSameObject = genericError("source and destination objects are the same")

// copyOptions are the options of COPY.
type copyOptions struct {
	database int // of the destination
	replace  bool
}

// parseCopyOptions parses the options after COPY source destination. As in Redis, they may be repeated.
func parseCopyOptions(args [][]byte, selected int) (o copyOptions, err error) {
	o.database = selected
	for i := 0; i < len(args); i++ {
		switch {
		case equalFold(args[i], "replace"):
			o.replace = true
		case equalFold(args[i], "db") && i+1 < len(args):
			i++
			if o.database, err = parseDatabase(args[i]); err != nil {
				return o, err
			}
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

// COPY source destination [DB index] [REPLACE]
func copyKey(c *connection, args [][]byte) error {
	o, err := parseCopyOptions(args[3:], c.database)
	if err != nil {
		return err
	}
	from, to := storageKey(c.database, string(args[1])), storageKey(o.database, string(args[2]))
	if from == to {
		return errSameObject
	}
	var exists, copied bool
	err = c.retryConflicts(func() (err error) {
		exists, copied, err = c.copyStored(from, to, o.replace)
		return err
	})
	if err != nil {
		return err
	}
	c.countRead(exists)
	c.out.writeInteger(oneIf(copied))
	return nil
}

// copyStored writes the value and expire time of a key under another one. They are given by the names under which they
// are stored.
func (c *connection) copyStored(from, to string, replace bool) (exists, copied bool, err error) {
	defer c.lockStored(from, to)()
	values, err := c.getStoredToWrite([]string{from, to})
	switch {
	case err != nil || !c.isLive(values[0]):
		return false, false, err
	case !replace && c.isLive(values[1]):
		return true, false, nil
	case c.session.IsExact():
		value := func(int) causal.Value { return values[0] }
		return true, true, c.commitStored([]string{to}, value, []string{from, to})
	}
	return true, true, c.session.Session.Put(c.server.context, to, values[0])
}

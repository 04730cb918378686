package resp

import "github.com/causalstore/causalstore/sidecar/causal"

var errNoSuchKey = genericError("no such key")

// RENAME key newkey
func rename(c *connection, args [][]byte) error {
	if _, err := c.renameExactly(string(args[1]), string(args[2]), true); err != nil {
		return err
	}
	c.out.writeOK()
	return nil
}

// RENAMENX key newkey
func renameNX(c *connection, args [][]byte) error {
	renamed, err := c.renameExactly(string(args[1]), string(args[2]), false)
	if err != nil {
		return err
	}
	c.out.writeInteger(oneIf(renamed))
	return nil
}

// renameExactly is rename, again while others write the keys meanwhile.
func (c *connection) renameExactly(from, to string, overwrite bool) (renamed bool, err error) {
	err = c.retryConflicts(func() (err error) {
		renamed, err = c.rename(from, to, overwrite)
		return err
	})
	return renamed, err
}

// rename writes the value and expire time of a key under another one, and then deletes it: whoever sees that the old
// key is gone sees the new one. If the deletion fails, both exist.
func (c *connection) rename(from, to string, overwrite bool) (renamed bool, err error) {
	unlock := c.session.Lock(from, to)
	defer unlock()
	values, err := c.getToWrite([]string{from, to})
	switch {
	case err != nil:
		return false, err
	case !c.isLive(values[0]):
		return false, errNoSuchKey
	case from == to:
		return overwrite, nil
	case !overwrite && c.isLive(values[1]):
		return false, nil
	}
	written := [2]causal.Value{values[0], tombstone}
	return true, c.putAll([]string{to, from}, func(i int) causal.Value { return written[i] })
}

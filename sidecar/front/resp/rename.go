package resp

var errNoSuchKey = genericError("no such key")

// RENAME key newkey
func rename(c *connection, args [][]byte) error {
	if _, err := c.rename(string(args[1]), string(args[2]), true); err != nil {
		return err
	}
	c.out.writeOK()
	return nil
}

// RENAMENX key newkey
func renameNX(c *connection, args [][]byte) error {
	renamed, err := c.rename(string(args[1]), string(args[2]), false)
	if err != nil {
		return err
	}
	c.out.writeInteger(oneIf(renamed))
	return nil
}

// rename writes the value and expire time of a key under another one, and then deletes it: whoever sees that the old
// key is gone sees the new one. If the deletion fails, both exist.
func (c *connection) rename(from, to string, overwrite bool) (renamed bool, err error) {
	err = c.changeKeys(storageKeys(c.database, []string{to, from}), func(ds []*draft) error {
		renamed = false
		switch old, isNew := ds[1], ds[0]; {
		case !old.exists(c.nowMs()):
			return errNoSuchKey
		case from == to:
			renamed = overwrite
		case overwrite || !isNew.exists(c.nowMs()):
			isNew.replace(old)
			old.set(tombstone)
			renamed = true
		}
		return nil
	})
	return renamed, err
}

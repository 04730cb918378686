package resp

// MOVE key database: as RENAMENX, to another database.
func move(c *connection, args [][]byte) error {
	database, err := parseDatabase(args[2])
	if err != nil {
		return err
	}
	if database == c.database {
		return errSameObject
	}
	key, moved := string(args[1]), false
	names := []string{storageKey(database, key), storageKey(c.database, key)}
	err = c.changeKeys(names, func(ds []*draft) error {
		if moved = ds[1].exists(c.nowMs()) && !ds[0].exists(c.nowMs()); moved {
			ds[0].replace(ds[1])
			ds[1].set(tombstone)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(oneIf(moved))
	return nil
}

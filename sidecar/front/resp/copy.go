package resp

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
	err = c.changeKeys([]string{to, from}, func(ds []*draft) error {
		exists, copied = ds[1].exists(c.nowMs()), false
		if exists && (o.replace || !ds[0].exists(c.nowMs())) {
			ds[0].replace(ds[1])
			copied = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.countRead(exists)
	c.out.writeInteger(oneIf(copied))
	return nil
}

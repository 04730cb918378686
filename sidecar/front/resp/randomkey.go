package resp

import "math/rand/v2"

var errTooManyToPick = Errorf("ERR", "RANDOMKEY visits at most %d keys; use SCAN", maxKeysVisited)

// RANDOMKEY visits the names of all keys, and reads a sample of them.
func randomKey(c *connection, _ [][]byte) error {
	sample, visited := make([]string, 0, readTogether), 0
	err := c.scanAll(func(stored []string) error {
		for _, key := range c.keysOfDatabase(stored, "") {
			if visited++; len(sample) < readTogether {
				sample = append(sample, key)
			} else if i := rand.IntN(visited); i < readTogether {
				sample[i] = key
			}
		}
		if visited > maxKeysVisited {
			return errTooManyToPick
		}
		return nil
	})
	if err != nil {
		return err
	}
	live, err := c.existing(sample, "")
	if err == nil && len(live) == 0 && visited > len(sample) {
		live, err = c.firstExisting()
	}
	switch {
	case err != nil:
		return err
	case len(live) == 0:
		c.out.writeNull()
	default:
		c.out.writeBulkString(live[rand.IntN(len(live))])
	}
	return nil
}

// firstExisting returns some keys that exist, if any does.
func (c *connection) firstExisting() (live []string, err error) {
	_, err = c.scanWhile(func(stored []string) (more bool, err error) {
		live, err = c.existing(c.keysOfDatabase(stored, ""), "")
		return len(live) == 0, err
	})
	return live, err
}

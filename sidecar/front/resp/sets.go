package resp

import (
	"math/rand/v2"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// SADD key member [member ...]: adding a member that is there is a write, too.
func sadd(c *connection, args [][]byte) error {
	members := keyStrings(args[2:])
	added := 0
	return c.change(args[1], bytesOf(members), value.Set, func(ch *value.Change) (bool, error) {
		added = 0
		for _, m := range members {
			added += int(oneIf(ch.Add(value.Set, m, "")))
		}
		return true, nil
	}, func() error {
		c.out.writeInteger(int64(added))
		return nil
	})
}

// SREM key member [member ...]
func srem(c *connection, args [][]byte) error { return c.removeElements(args, value.Set) }

// SCARD key
func scard(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.Set)
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(h.Len()))
	return nil
}

// SISMEMBER key member
func sisMember(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.Set)
	if err != nil {
		return err
	}
	_, ok := h.Get(string(args[2]))
	c.out.writeInteger(oneIf(ok))
	return nil
}

// SMISMEMBER key member [member ...]
func smisMember(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.Set)
	if err != nil {
		return err
	}
	c.out.writeArrayHeader(len(args) - 2)
	for _, m := range args[2:] {
		_, ok := h.Get(string(m))
		c.out.writeInteger(oneIf(ok))
	}
	return nil
}

// SMEMBERS key
func smembers(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.Set)
	if err != nil {
		return err
	}
	c.out.writeSetHeader(h.Len())
	for m := range h.All() {
		c.out.writeBulkString(m)
		c.out.flushIfFull()
	}
	return nil
}

// SPOP key [count]
func spop(c *connection, args [][]byte) error {
	if len(args) > 3 {
		return errSyntax
	}
	count := int64(1)
	if len(args) == 3 {
		var ok bool
		if count, ok = parseInt(args[2]); !ok || count < 0 {
			return genericError("value is out of range, must be positive")
		}
	}
	var popped []string
	return c.change(args[1], 0, value.Set, func(ch *value.Change) (bool, error) {
		popped = popped[:0]
		for m := range ch.All() {
			popped = append(popped, m)
		}
		rand.Shuffle(len(popped), func(i, j int) { popped[i], popped[j] = popped[j], popped[i] })
		popped = popped[:min(count, int64(len(popped)))]
		for _, m := range popped {
			ch.Remove(m)
		}
		return len(popped) > 0, nil
	}, func() error {
		switch {
		case len(args) == 3:
			c.writeMembers(popped)
		case len(popped) == 0:
			c.out.writeNull()
		default:
			c.out.writeBulkString(popped[0])
		}
		return nil
	})
}

func (c *connection) writeMembers(members []string) {
	c.out.writeSetHeader(len(members))
	for _, m := range members {
		c.out.writeBulkString(m)
		c.out.flushIfFull()
	}
}

// SRANDMEMBER key [count]
func srandMember(c *connection, args [][]byte) error {
	if len(args) > 3 {
		return errSyntax
	}
	count, err := randomCount(args, false)
	if err != nil {
		return err
	}
	h, err := c.collectionAt(args[1], value.Set)
	if err != nil {
		return err
	}
	picked := pickElements(&h, count)
	if len(args) == 2 {
		c.writeFirst(picked)
		return nil
	}
	c.out.writeArrayHeader(len(picked))
	for _, e := range picked {
		c.out.writeBulkString(e.name)
		c.out.flushIfFull()
	}
	return nil
}

// SSCAN key cursor [MATCH pattern] [COUNT count]
func sscan(c *connection, args [][]byte) error {
	return c.scanElements(args, value.Set, func(member, _ string) { c.out.writeBulkString(member) }, 1)
}

// SMOVE source destination member
func smove(c *connection, args [][]byte) error {
	member, moved := string(args[3]), false
	names := storageKeys(c.database, []string{string(args[2]), string(args[1])})
	err := c.changeKeys(names, func(ds []*draft) error {
		moved = false
		from, err := ds[1].collection(value.Set, c.nowMs())
		if err != nil {
			return err
		}
		if from.Len() == 0 {
			return nil
		}
		to, err := ds[0].collection(value.Set, c.nowMs())
		if err != nil {
			return err
		}
		if _, moved = from.Get(member); !moved || names[0] == names[1] {
			return nil
		}
		if err := c.checkSize(to.Size() + len(member) + elementBytes); err != nil {
			return err
		}
		from.Remove(member)
		to.Add(value.Set, member, "")
		ds[0].written, ds[1].written = true, true
		return nil
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(oneIf(moved))
	return nil
}

// combine makes one set of several, of which some may be empty.
type combine func(sets []map[string]struct{}) map[string]struct{}

func union(sets []map[string]struct{}) map[string]struct{} {
	all := map[string]struct{}{}
	for _, s := range sets {
		for m := range s {
			all[m] = struct{}{}
		}
	}
	return all
}

func intersection(sets []map[string]struct{}) map[string]struct{} {
	all := map[string]struct{}{}
	for m := range sets[0] {
		if !slices.ContainsFunc(sets[1:], func(s map[string]struct{}) bool { _, has := s[m]; return !has }) {
			all[m] = struct{}{}
		}
	}
	return all
}

func difference(sets []map[string]struct{}) map[string]struct{} {
	all := map[string]struct{}{}
	for m := range sets[0] {
		if !slices.ContainsFunc(sets[1:], func(s map[string]struct{}) bool { _, has := s[m]; return has }) {
			all[m] = struct{}{}
		}
	}
	return all
}

// SUNION key [key ...]
func sunion(c *connection, args [][]byte) error { return c.combineSets(args[1:], union) }

// SINTER key [key ...]
func sinter(c *connection, args [][]byte) error { return c.combineSets(args[1:], intersection) }

// SDIFF key [key ...]
func sdiff(c *connection, args [][]byte) error { return c.combineSets(args[1:], difference) }

func (c *connection) combineSets(keys [][]byte, f combine) error {
	sets, err := c.readSets(keys)
	if err != nil {
		return err
	}
	members := f(sets)
	c.out.writeSetHeader(len(members))
	for m := range members {
		c.out.writeBulkString(m)
		c.out.flushIfFull()
	}
	return nil
}

// readSets reads sets in one step.
func (c *connection) readSets(keys [][]byte) ([]map[string]struct{}, error) {
	values, err := c.readTogether(keys)
	if err != nil {
		return nil, err
	}
	return c.setsIn(values)
}

// readTogether reads keys in one step.
func (c *connection) readTogether(keys [][]byte) ([]causal.Value, error) {
	if limit := c.server.options.Limits.MaxMGetKeys; len(keys) > limit {
		return nil, Errorf("ERR", "%d keys, more than the limit of %d; split it", len(keys), limit)
	}
	return c.getAll(keyStrings(keys))
}

func (c *connection) setsIn(values []causal.Value) ([]map[string]struct{}, error) {
	sets := make([]map[string]struct{}, len(values))
	for i, v := range values {
		h, err := c.collectionIn(v, value.Set)
		if err != nil {
			return nil, err
		}
		sets[i] = make(map[string]struct{}, h.Len())
		for m := range h.All() {
			sets[i][m] = struct{}{}
		}
	}
	return sets, nil
}

// SUNIONSTORE destination key [key ...]
func sunionStore(c *connection, args [][]byte) error { return c.storeSets(args, union) }

// SINTERSTORE destination key [key ...]
func sinterStore(c *connection, args [][]byte) error { return c.storeSets(args, intersection) }

// SDIFFSTORE destination key [key ...]
func sdiffStore(c *connection, args [][]byte) error { return c.storeSets(args, difference) }

func (c *connection) storeSets(args [][]byte, f combine) error {
	stored := 0
	err := c.changeKeys(storageKeys(c.database, keyStrings(args[1:])), func(ds []*draft) error {
		values := make([]causal.Value, len(ds)-1)
		for i, d := range ds[1:] {
			values[i] = d.current()
		}
		sets, err := c.setsIn(values)
		if err != nil {
			return err
		}
		members := f(sets)
		stored = len(members)
		return c.store(ds[0], value.Set, func(yield func(name, payload string) bool) {
			for m := range members {
				if !yield(m, "") {
					return
				}
			}
		})
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(stored))
	return nil
}

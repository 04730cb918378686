package resp

import (
	"errors"
	"maps"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/hyperloglog"
	"github.com/causalstore/causalstore/sidecar/value"
)

// Commands of HyperLogLogs. These are strings to clients: commands of strings read one as Redis writes it, and make
// strings of it; and a string that is one becomes a value that merges when it is written by a command of HyperLogLogs.

var (
	errNoHyperLogLog      = &Error{Code: "WRONGTYPE", Message: "Key is not a valid HyperLogLog string value."}
	errCorruptHyperLogLog = &Error{Code: "INVALIDOBJ", Message: "Corrupted HLL object detected"}
)

// asString returns a value as commands of strings see it. ok is false if it is no string.
func asString(v causal.Value) (s causal.Value, ok bool) {
	switch {
	case !v.Merges():
		return v, true
	case value.KindOf(v) != value.HyperLogLog:
		return causal.Value{}, false
	}
	return causal.Value{Data: registersOf(v).Bytes(), ExpireAtMs: v.ExpireAtMs}, true
}

// registersOf returns the registers in a value that is a HyperLogLog.
func registersOf(v causal.Value) *hyperloglog.Registers {
	registers := &hyperloglog.Registers{}
	h := value.CollectionOf(v)
	for name, row := range h.All() {
		if name != "" {
			copy(registers[value.FirstOfRow(name):], row)
		}
	}
	return registers
}

// registersIn returns the registers in a value that was read; a missing key has none.
func (c *connection) registersIn(v causal.Value) (*hyperloglog.Registers, error) {
	switch {
	case !c.isLive(v):
		return &hyperloglog.Registers{}, nil
	case value.KindOf(v) == value.HyperLogLog:
		return registersOf(v), nil
	case v.Merges():
		return nil, errWrongType
	}
	return parseRegisters(v.Data)
}

func parseRegisters(s []byte) (*hyperloglog.Registers, error) {
	registers, err := hyperloglog.Parse(s)
	switch {
	case errors.Is(err, hyperloglog.ErrCorrupt):
		return nil, errCorruptHyperLogLog
	case err != nil:
		return nil, errNoHyperLogLog
	}
	return registers, nil
}

// convert makes a HyperLogLog of a string that is one, with its expire time.
func (d *draft) convert() error {
	old := d.text()
	registers, err := parseRegisters(old.Data)
	if err != nil {
		return err
	}
	d.change = d.newChange()
	d.change.AddEmptyHyperLogLog()
	raiseAll(d.change, registers)
	d.change.ExpireAt(old.ExpireAtMs)
	return nil
}

// raiseAll makes registers at least what others are, and reports whether it has changed something.
func raiseAll(ch *value.Change, registers *hyperloglog.Registers) (isRaised bool) {
	for i := 0; i < len(registers); i += value.RegistersOfRow {
		name, _ := value.RowOfRegister(i)
		if ch.Raise(name, registers[i:i+value.RegistersOfRow]) {
			isRaised = true
		}
	}
	return isRaised
}

// rowsOf returns the registers that some elements raise, by their rows.
func rowsOf(elements [][]byte) map[string]*[value.RegistersOfRow]byte {
	rows := map[string]*[value.RegistersOfRow]byte{}
	for _, element := range elements {
		register, rank := hyperloglog.Place(element)
		name, at := value.RowOfRegister(register)
		if rows[name] == nil {
			rows[name] = &[value.RegistersOfRow]byte{}
		}
		rows[name][at] = max(rows[name][at], rank)
	}
	return rows
}

// PFADD key [element ...]
func pfadd(c *connection, args [][]byte) error {
	rows := rowsOf(args[2:])
	names := slices.Sorted(maps.Keys(rows))
	changed := false
	return c.change(args[1], value.BytesOfRaises(len(rows)+1), value.HyperLogLog, func(ch *value.Change) (bool, error) {
		if changed = ch.Len() == 0; changed && len(rows) == 0 {
			ch.AddEmptyHyperLogLog()
		}
		for _, name := range names {
			if ch.Raise(name, rows[name][:]) {
				changed = true
			}
		}
		return changed, nil
	}, func() error {
		c.out.writeInteger(oneIf(changed))
		return nil
	})
}

// PFCOUNT key [key ...]
func pfcount(c *connection, args [][]byte) error {
	values, err := c.readTogether(args[1:])
	if err != nil {
		return err
	}
	all := &hyperloglog.Registers{}
	for _, v := range values {
		registers, err := c.registersIn(v)
		if err != nil {
			return err
		}
		all.Raise(registers)
	}
	c.out.writeInteger(int64(all.Estimate()))
	return nil
}

// PFMERGE destkey [sourcekey ...]
func pfmerge(c *connection, args [][]byte) error {
	err := c.changeKeys(storageKeys(c.database, keyStrings(args[1:])), func(ds []*draft) error {
		all := &hyperloglog.Registers{}
		for _, d := range ds {
			registers, err := c.registersIn(d.current())
			if err != nil {
				return err
			}
			all.Raise(registers)
		}
		return c.mergeInto(ds[0], all)
	})
	if err != nil {
		return err
	}
	c.out.writeOK()
	return nil
}

// mergeInto raises the registers of a key, which begins to exist; it writes nothing if that changes nothing.
func (c *connection) mergeInto(d *draft, registers *hyperloglog.Registers) error {
	before := d.change
	ch, err := d.collection(value.HyperLogLog, c.nowMs())
	if err != nil {
		return err
	}
	isNew := ch.Len() == 0
	if isNew {
		ch.AddEmptyHyperLogLog()
	}
	if !raiseAll(ch, registers) && !isNew {
		d.change = before
		return nil
	}
	d.written = true
	return c.checkSize(ch.Size())
}

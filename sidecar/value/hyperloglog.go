package value

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A HyperLogLog has a row for each group of registers that are not all 0, of the number of the group as two bytes. The
// row is dead and has cells, as if something were added to it (sums.go): each has what one write has raised. The
// greatest of each register counts. So registers may be raised in several data centers at the same time, and a removal
// ends the cells that its client has seen.
//
// A cell that says nothing more than newer ones is gone. When a group has several cells, the next write that raises a
// register of it brings all of them, so these are few.
//
// One without a register that is raised has a row without a name, which is as one of a set.
const (
	RegistersOfRow = 32

	registers    = 1 << 14
	nameOfGroup  = 2 // bytes
	maxRegister  = 1<<6 - 1
	maxCells     = 4
	bytesOfCell  = 20
	bytesOfRaise = bytesOfCell + RegistersOfRow + rowBytes
)

// RowOfRegister returns the row of a register, and which one of that it is.
func RowOfRegister(i int) (name string, at int) {
	return string(binary.BigEndian.AppendUint16(nil, uint16(i/RegistersOfRow))), i % RegistersOfRow
}

// FirstOfRow is the inverse of RowOfRegister.
func FirstOfRow(name string) int { return int(binary.BigEndian.Uint16([]byte(name))) * RegistersOfRow }

// BytesOfRaises returns how many bytes a HyperLogLog may grow by if some registers are raised.
func BytesOfRaises(n int) int { return min(n, registers/RegistersOfRow) * bytesOfRaise }

// raised are the registers of a cell.
type raised [RegistersOfRow]byte

func (s *sum) raised() (r raised) {
	copy(r[:], s.total)
	return r
}

// raise makes registers at least what others are, and reports whether one of them was less.
func (r *raised) raise(o raised) (isRaised bool) {
	for i := range r {
		if o[i] > r[i] {
			r[i], isRaised = o[i], true
		}
	}
	return isRaised
}

// above returns the registers that are greater than others; 0 is in place of the rest.
func (r raised) above(o raised) raised {
	for i := range r {
		if r[i] <= o[i] {
			r[i] = 0
		}
	}
	return r
}

// joinRaised returns what cells say that were written above v.
func joinRaised(a, b []sum, v causal.Version) []sum {
	all := slices.DeleteFunc(slices.Concat(a, b), func(s sum) bool { return !v.Less(s.at) })
	if len(all) < 2 {
		return all
	}
	slices.SortFunc(all, func(s, o sum) int { return o.at.Compare(s.at) })
	left, newer := all[:0], raised{}
	for i := 0; i < len(all); {
		r, first := raised{}, i
		for ; i < len(all) && all[i].at == all[first].at; i++ {
			r.raise(all[i].raised())
		}
		if r = r.above(newer); newer.raise(r) {
			left = append(left, raisedBy(all[first].at, r))
		}
	}
	return left
}

func raisedBy(v causal.Version, r raised) sum { return sum{began: v, at: v, total: string(r[:])} }

// registersIn returns the registers that cells have.
func registersIn(cells []sum) (r raised) {
	for i := range cells {
		r.raise(cells[i].raised())
	}
	return r
}

// Raise makes registers of a row of a HyperLogLog at least what they are given as. A collection that is empty becomes
// one; another one has to be one. It reports whether it has changed something.
func (c *Change) Raise(name string, registers []byte) bool {
	e := element{HyperLogLog, name}
	known, own, given := c.row(e), raised{}, raised{}
	copy(given[:], registers)
	bytes := bytesOfRaise
	if i := slices.IndexFunc(known.sums, isOwn); i >= 0 {
		own, bytes = known.sums[i].raised(), RegistersOfRow
	}
	all := registersIn(known.sums)
	own.raise(given.above(all))
	if !all.raise(given) {
		return false
	}
	if len(known.sums) >= maxCells {
		own = all
	}
	next := row{element: e, dead: true, sums: []sum{raisedBy(self, own)}}
	if changed, has := c.changed[e]; has {
		next.at, next.by = changed.at, changed.by
	}
	c.set(next, bytes)
	return true
}

func isOwn(s sum) bool { return s.at == self }

// AddEmptyHyperLogLog makes a collection that is empty a HyperLogLog of which no register is raised.
func (c *Change) AddEmptyHyperLogLog() { c.Add(HyperLogLog, "", "") }

// isRegisters reports whether a row may be one of a HyperLogLog.
func (r *row) isRegisters() bool {
	if r.name == "" {
		return len(r.sums) == 0 && r.payload == ""
	}
	return len(r.name) == nameOfGroup && FirstOfRow(r.name) < registers && r.dead
}

// A cell in a value is the version, 4 bytes of which each bit says whether a register is there, and those.

func appendRaised(b []byte, cells []sum, own causal.Version) []byte {
	b = binary.AppendUvarint(b, uint64(len(cells)))
	for i := range cells {
		r, mask := cells[i].raised(), uint32(0)
		for j := range r {
			if r[j] > 0 {
				mask |= 1 << j
			}
		}
		b = binary.LittleEndian.AppendUint32(appendVersion(b, cells[i].at, own), mask)
		for ; mask > 0; mask &= mask - 1 {
			b = append(b, r[bits.TrailingZeros32(mask)])
		}
	}
	return b
}

// raised reads the cells of a row, of which those above v count.
func (d *rowReader) raised(v causal.Version) (cells []sum) {
	for n := d.Uvarint(); n > 0 && !d.Failed(); n-- {
		at, bytes, r := d.version(), d.Take(4), raised{}
		if len(bytes) != 4 {
			break
		}
		mask := binary.LittleEndian.Uint32(bytes)
		if mask == 0 || at.IsZero() {
			d.Fail()
		}
		for ; mask > 0 && !d.Failed(); mask &= mask - 1 {
			rank := d.byte()
			if rank == 0 || rank > maxRegister {
				d.Fail()
			}
			r[bits.TrailingZeros32(mask)] = rank
		}
		cells = append(cells, raisedBy(at, r))
	}
	return joinRaised(cells, nil, v)
}

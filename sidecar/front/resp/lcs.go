package resp

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

var (
	errLCSType = genericError("The specified keys must contain string values")
	errLCSBoth = genericError("If you want both the length and indexes, please just use IDX.")
)

// maxLCSCells bounds the table that LCS fills, of 4 bytes for each pair of a byte of one string and one of the other.
const maxLCSCells = 4 << 20

// lcsOptions are the options of LCS.
type lcsOptions struct {
	length, ranges, withLengths bool
	minLength                   int64
}

func parseLCSOptions(args [][]byte) (o lcsOptions, err error) {
	for ; len(args) > 0; args = args[1:] {
		switch word := args[0]; {
		case equalFold(word, "idx"):
			o.ranges = true
		case equalFold(word, "len"):
			o.length = true
		case equalFold(word, "withmatchlen"):
			o.withLengths = true
		case equalFold(word, "minmatchlen") && len(args) > 1:
			var ok bool
			if o.minLength, ok = parseInt(args[1]); !ok {
				return o, errNotInteger
			}
			args = args[1:]
		default:
			return o, errSyntax
		}
	}
	if o.ranges && o.length {
		return o, errLCSBoth
	}
	return o, nil
}

// LCS key1 key2 [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]
func lcs(c *connection, args [][]byte) error {
	values, err := c.getAll(keyStrings(args[1:3]))
	if err != nil {
		return err
	}
	for i := range values {
		if !c.isLive(values[i]) {
			values[i] = causal.Value{}
		}
		var ok bool
		if values[i], ok = asString(values[i]); !ok {
			return errLCSType
		}
	}
	o, err := parseLCSOptions(args[3:])
	if err != nil {
		return err
	}
	a, b := values[0].Data, values[1].Data
	cells := (len(a) + 1) * (len(b) + 1)
	if cells > maxLCSCells {
		return Errorf("ERR", "strings of %d and %d bytes are too long for LCS: the product has a limit of %d; "+
			"read the values, and compute in the client", len(a), len(b), maxLCSCells)
	}
	c.hold(4 * cells)
	defer c.hold(0)
	c.writeLCS(o, a, newLCSTable(a, b))
	return nil
}

// writeLCS writes the reply of LCS. a is the first string.
func (c *connection) writeLCS(o lcsOptions, a []byte, t lcsTable) {
	switch length := int64(t.at(t.rows-1, t.columns-1)); {
	case o.length:
		c.out.writeInteger(length)
	case o.ranges:
		c.out.writeMapHeader(2)
		c.out.writeBulkString("matches")
		c.writeMatches(o, t.matches())
		c.out.writeBulkString("len")
		c.out.writeInteger(length)
	default:
		text := make([]byte, 0, length)
		for _, m := range slices.Backward(t.matches()) {
			text = append(text, a[m.a:m.a+m.length]...)
		}
		c.out.writeBulk(text)
	}
}

func (c *connection) writeMatches(o lcsOptions, all []lcsMatch) {
	all = slices.DeleteFunc(all, func(m lcsMatch) bool { return int64(m.length) < o.minLength })
	c.out.writeArrayHeader(len(all))
	for _, m := range all {
		c.out.writeArrayHeader(2 + int(oneIf(o.withLengths)))
		for _, from := range [...]int{m.a, m.b} {
			c.out.writeArrayHeader(2)
			c.out.writeInteger(int64(from))
			c.out.writeInteger(int64(from + m.length - 1))
		}
		if o.withLengths {
			c.out.writeInteger(int64(m.length))
		}
		c.out.flushIfFull()
	}
}

// lcsTable has the length of the longest common subsequence of each beginning of one string and each of another.
type lcsTable struct {
	a, b          []byte
	rows, columns int
	lengths       []uint32
}

func newLCSTable(a, b []byte) lcsTable {
	t := lcsTable{a: a, b: b, rows: len(a) + 1, columns: len(b) + 1}
	t.lengths = make([]uint32, t.rows*t.columns)
	for i := 1; i < t.rows; i++ {
		above, row := t.lengths[(i-1)*t.columns:i*t.columns], t.lengths[i*t.columns:(i+1)*t.columns]
		for j := 1; j < t.columns; j++ {
			if a[i-1] == b[j-1] {
				row[j] = above[j-1] + 1
			} else {
				row[j] = max(above[j], row[j-1])
			}
		}
	}
	return t
}

func (t *lcsTable) at(i, j int) uint32 { return t.lengths[i*t.columns+j] }

// lcsMatch is a part of the subsequence that is in one piece in both strings.
type lcsMatch struct{ a, b, length int }

// matches returns the parts of the subsequence, the last one first. Of several subsequences it is the one of Redis.
func (t *lcsTable) matches() (all []lcsMatch) {
	goesOn := false
	for i, j := t.rows-1, t.columns-1; i > 0 && j > 0; {
		switch {
		case t.a[i-1] == t.b[j-1]:
			i, j = i-1, j-1
			if goesOn {
				m := &all[len(all)-1]
				m.a, m.b, m.length = i, j, m.length+1
			} else {
				all = append(all, lcsMatch{i, j, 1})
			}
			goesOn = true
			continue
		case t.at(i-1, j) > t.at(i, j-1):
			i--
		default:
			j--
		}
		goesOn = false
	}
	return all
}

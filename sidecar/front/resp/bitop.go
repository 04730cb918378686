package resp

import "github.com/causalstore/causalstore/sidecar/causal"

var errBitNot = genericError("BITOP NOT must be called with a single source key.")

// BITOP operation destination key [key ...]
func bitOp(c *connection, args [][]byte) error {
	f, err := parseBitOp(args[1], len(args)-3)
	if err != nil {
		return err
	}
	length := 0
	err = c.changeKeys(storageKeys(c.database, keyStrings(args[2:])), func(ds []*draft) error {
		values := make([][]byte, len(ds)-1)
		length = 0
		for i, d := range ds[1:] {
			v := d.current()
			if !c.isLive(v) {
				continue
			}
			if v, ok := asString(v); !ok {
				return errWrongType
			} else {
				values[i], length = v.Data, max(length, len(v.Data))
			}
		}
		switch {
		case length > 0:
			ds[0].set(causal.Value{Data: combineBits(values, length, f)})
		case ds[0].exists(c.nowMs()):
			ds[0].set(tombstone)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(length))
	return nil
}

// bitOperation combines bytes, of which there is one at least.
type bitOperation struct {
	f   func(a, b byte) byte
	not bool
}

func parseBitOp(name []byte, keys int) (o bitOperation, err error) {
	switch {
	case equalFold(name, "and"):
		o.f = func(a, b byte) byte { return a & b }
	case equalFold(name, "or"):
		o.f = func(a, b byte) byte { return a | b }
	case equalFold(name, "xor"):
		o.f = func(a, b byte) byte { return a ^ b }
	case equalFold(name, "not"):
		if o.not = true; keys != 1 {
			return o, errBitNot
		}
	default:
		return o, errSyntax
	}
	return o, nil
}

// combineBits combines strings to one of a length; shorter ones are filled with zeros.
func combineBits(values [][]byte, length int, o bitOperation) []byte {
	result := make([]byte, length)
	copy(result, values[0])
	if o.not {
		for i := range result {
			result[i] = ^result[i]
		}
	}
	for _, v := range values[1:] {
		for i := range result {
			b := byte(0)
			if i < len(v) {
				b = v[i]
			}
			result[i] = o.f(result[i], b)
		}
	}
	return result
}

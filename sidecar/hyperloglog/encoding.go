package hyperloglog

import "errors"

// A set that is a string begins with a header: "HYLL", a byte for the encoding, three that are 0, and the last
// estimate, of which the topmost bit says that it is outdated. Then the registers follow:
//
//	dense   6 bits each, the lower bits first
//	sparse  00xxxxxx           x+1 registers that are 0
//	        01xxxxxx yyyyyyyy  as many registers, in 14 bits, that are 0
//	        1vvvvvxx           x+1 registers that are v+1
const (
	magic                = "HYLL"
	headerBytes          = 16
	dense, sparse        = 0, 1
	bitsOfRegister       = 6
	denseBytes           = headerBytes + Count*bitsOfRegister/8
	outdatedAt, outdated = headerBytes - 1, 0x80

	// maxSparseBytes is up to where Redis writes sparse ones, by default.
	maxSparseBytes             = 3000
	maxZeros, maxManyZeros     = 64, 1 << 14
	maxSparseRank, maxRepeated = 32, 4
	manyZerosBit, ranksBit     = 0x40, 0x80
	rankShift                  = 2
)

var (
	// ErrNone is returned for a string that is no HyperLogLog.
	ErrNone = errors.New("no HyperLogLog")
	// ErrCorrupt is returned for one that begins as one.
	ErrCorrupt = errors.New("corrupt HyperLogLog")
)

// Parse returns the registers in a string.
func Parse(s []byte) (*Registers, error) {
	if len(s) < headerBytes || string(s[:len(magic)]) != magic {
		return nil, ErrNone
	}
	encoding := s[len(magic)]
	if encoding > sparse || encoding == dense && len(s) != denseBytes {
		return nil, ErrNone
	}
	r := &Registers{}
	if encoding == dense {
		r.parseDense(s[headerBytes:])
		return r, nil
	}
	if !r.parseSparse(s[headerBytes:]) {
		return nil, ErrCorrupt
	}
	return r, nil
}

func (r *Registers) parseDense(s []byte) {
	for i := range r {
		at := i * bitsOfRegister
		two := uint(s[at/8])
		if at/8+1 < len(s) {
			two |= uint(s[at/8+1]) << 8
		}
		r[i] = byte(two>>(at%8)) & (1<<bitsOfRegister - 1)
	}
}

func (r *Registers) parseSparse(s []byte) (ok bool) {
	i := 0
	for len(s) > 0 {
		op, n, rank := s[0], 0, byte(0)
		switch s = s[1:]; {
		case op&ranksBit != 0:
			n, rank = int(op&(maxRepeated-1))+1, op>>rankShift&(maxSparseRank-1)+1
		case op&manyZerosBit == 0:
			n = int(op) + 1
		case len(s) == 0:
			return false
		default:
			n, s = int(op&^manyZerosBit)<<8+int(s[0])+1, s[1:]
		}
		if i+n > len(r) {
			return false
		}
		for range n {
			r[i] = rank
			i++
		}
	}
	return i == len(r)
}

// Bytes returns the registers as a string without an estimate: sparse if that is short. Redis may write more sparse
// parts for the same registers, by their history.
func (r *Registers) Bytes() []byte {
	s := r.appendSparse(append(make([]byte, 0, maxSparseBytes), header(sparse)...))
	if s == nil || len(s) > maxSparseBytes {
		s = r.appendDense(append(make([]byte, 0, denseBytes), header(dense)...))
	}
	return s
}

func header(encoding byte) []byte {
	h := [headerBytes]byte{}
	copy(h[:], magic)
	h[len(magic)], h[outdatedAt] = encoding, outdated
	return h[:]
}

func (r *Registers) appendDense(s []byte) []byte {
	s = s[:denseBytes]
	clear(s[headerBytes:])
	for i, rank := range r {
		at := i * bitsOfRegister
		two := uint(rank) << (at % 8)
		s[headerBytes+at/8] |= byte(two)
		if two > 0xff {
			s[headerBytes+at/8+1] |= byte(two >> 8)
		}
	}
	return s
}

// appendSparse returns nil if a register is too great.
func (r *Registers) appendSparse(s []byte) []byte {
	for i := 0; i < len(r); {
		n := 1
		for i+n < len(r) && r[i+n] == r[i] && (r[i] == 0 || n < maxRepeated) {
			n++
		}
		switch rank := r[i]; {
		case rank > maxSparseRank:
			return nil
		case rank > 0:
			s = append(s, ranksBit|(rank-1)<<rankShift|byte(n-1))
		case n > maxZeros:
			s = append(s, manyZerosBit|byte((n-1)>>8), byte(n-1))
		default:
			s = append(s, byte(n-1))
		}
		i += n
	}
	return s
}

package member

import (
	"encoding/binary"
	"errors"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// Applied is what a storage says about itself: which changes of which log it has. It is written atomically with the
// changes that it names, so each is applied once. The zero Applied stands for a storage that was never that of a
// member.
type Applied struct {
	// Group names the group for ever, and Volume the log beside the storage.
	Group, Volume uint64
	// The storage has the changes up to Position, whose record has Stamp.
	Position uint64
	Stamp    group.Stamp
	// Exact: up to this position, Write.KeyExists may be wrong, since the storage may have later changes of some keys
	// already; 0: nowhere.
	Exact uint64
	// Copying: the storage holds a part of another one, and is to be emptied.
	Copying bool
}

// appliedFormat is the version of the encoding of an Applied. A reader refuses every other one.
const appliedFormat = 1

const flagCopying byte = 1 << 0

// AppendTo appends the encoding of a to dst: a byte for the format, then the fields, numbers as varints.
func (a *Applied) AppendTo(dst []byte) []byte {
	dst = append(dst, appliedFormat, flagIf(a.Copying, flagCopying))
	for _, n := range [...]uint64{a.Group, a.Volume, a.Position, a.Stamp.Epoch, a.Stamp.Life, a.Exact} {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// ParseApplied decodes what a storage says about itself.
func ParseApplied(b []byte) (Applied, error) {
	d, err := newReader(b, appliedFormat, "marker of a storage")
	if err != nil {
		return Applied{}, err
	}
	flags := d.flags(flagCopying)
	a := Applied{Group: d.Uvarint(), Volume: d.Uvarint(), Position: d.Uvarint(), Stamp: d.stamp(), Exact: d.Uvarint(),
		Copying: flags&flagCopying != 0}
	if !d.isComplete() || a.Volume == 0 {
		return Applied{}, errors.New("damaged marker of a storage")
	}
	return a, nil
}

package operation

import (
	"encoding/binary"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// MaxFoundBytes bounds the values that are sent with an operation, in bytes.
const MaxFoundBytes = 64 << 10

// Found is what a session has found of the key of an operation elsewhere than at its home: the value to go on from,
// unless the home knows a newer one.
type Found struct {
	Version causal.Version // as of causal.GetReply
	Value   causal.Value
	// From is up to which HLC everything is included.
	From causal.HLC
}

// CanBeSent reports whether what was found is not too long to be sent with an operation.
func (f *Found) CanBeSent() bool { return len(f.Value.Data) <= MaxFoundBytes }

// append appends what a put carries of f.
func (f *Found) append(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(f.Version.HLC)), uint64(f.Version.Origin))
	b = binary.AppendVarint(binary.AppendUvarint(b, uint64(f.From)), f.Value.ExpireAtMs)
	if f.Value.Merges() {
		b = binary.AppendUvarint(b, uint64(f.Value.Type))
	}
	if f.Value.Tombstone {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, 1+uint64(len(f.Value.Data))), f.Value.Data...)
}

// readFound returns what append has appended, of a value that merges or not. It fails the reader if there is something
// else.
func readFound(r *causal.FieldReader, merges bool) *Found {
	f := &Found{Version: causal.Version{HLC: causal.HLC(r.Uvarint())}}
	origin := r.Uvarint()
	f.Version.Origin = topology.Origin(origin)
	f.From, f.Value.ExpireAtMs = causal.HLC(r.Uvarint()), r.Varint()
	if merges {
		n := r.Uvarint()
		if f.Value.Type = causal.TypeID(n); uint64(f.Value.Type) != n || !f.Value.Merges() {
			r.Fail()
		}
	}
	if length := r.Uvarint(); length > 0 {
		f.Value.Data = r.Take(length - 1)
	} else {
		f.Value.Tombstone = true
	}
	if uint64(f.Version.Origin) != origin || !f.CanBeSent() {
		r.Fail()
	}
	return f
}

// HasFound reports whether a put carries, with its operation, what to go on from.
func HasFound(v causal.Value) bool { return len(v.Data) > 2 && v.Data[2]&flagFound != 0 }

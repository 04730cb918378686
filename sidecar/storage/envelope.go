package storage

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The envelope is around every value, so that the version is stored with the value and survives a restart
// (PROTOCOL LOSS-3). Integers are big-endian:
//
//	magic     1  0xC5
//	format    1  2
//	flags     1  bit 0: tombstone, bit 1: has a deadline, bit 2: has a type, other bits: 0
//	hlc       8
//	origin    4
//	deadline  8  milliseconds since the epoch, not 0; only with bit 1
//	type      1  of the value, not 0, which is that of registers; only with bit 2
//	data         a tombstone has none
//	checksum  8  xxhash of all preceding bytes, plus a hash of the key
//
// Each record has exactly one encoding. The checksum detects a value that is not as it was written, and one that is
// under another key. The probability that a random foreign value passes for an envelope is below 2^-64.
//
// Format 1 is read as well: its checksum has 2 bytes, covers what precedes the data, and is before them.
const (
	envelopeMagic  = 0xC5
	envelopeFormat = 2
	headSumFormat  = 1

	flagTombstone = 1 << 0
	flagDeadline  = 1 << 1
	flagType      = 1 << 2
	knownFlags    = flagTombstone | flagDeadline | flagType

	fixedLen    = 1 + 1 + 1 + 8 + 4
	deadlineLen = 8
	typeLen     = 1
	checksumLen = 8
	headSumLen  = 2

	// MaxEnvelopeOverhead is the maximum size of an envelope without the data, in bytes.
	MaxEnvelopeOverhead = fixedLen + deadlineLen + typeLen + checksumLen
)

// EncodedLen returns the exact length of rec in its envelope, in bytes.
func EncodedLen(rec causal.Record) int {
	n := fixedLen + checksumLen
	if rec.Value.ExpireAtMs != 0 {
		n += deadlineLen
	}
	if rec.Value.Merges() {
		n += typeLen
	}
	if !rec.Value.Tombstone {
		n += len(rec.Value.Data)
	}
	return n
}

// AppendRecord appends the record of a key in its envelope to dst, without the data if rec is a tombstone.
func AppendRecord(dst []byte, key string, rec causal.Record) []byte {
	dst = slices.Grow(dst, EncodedLen(rec))
	start := len(dst)
	var flags byte
	if rec.Value.Tombstone {
		flags |= flagTombstone
	}
	if rec.Value.ExpireAtMs != 0 {
		flags |= flagDeadline
	}
	if rec.Value.Merges() {
		flags |= flagType
	}
	dst = append(dst, envelopeMagic, envelopeFormat, flags)
	dst = binary.BigEndian.AppendUint64(dst, uint64(rec.Version.HLC))
	dst = binary.BigEndian.AppendUint32(dst, uint32(rec.Version.Origin))
	if flags&flagDeadline != 0 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(rec.Value.ExpireAtMs))
	}
	if flags&flagType != 0 {
		dst = append(dst, byte(rec.Value.Type))
	}
	if !rec.Value.Tombstone {
		dst = append(dst, rec.Value.Data...)
	}
	return binary.BigEndian.AppendUint64(dst, checksum(key, dst[start:]))
}

// checksum returns the checksum of the envelope of a key, of which b is all but the checksum.
func checksum(key string, b []byte) uint64 {
	return xxhash.Sum64(b) + bits.RotateLeft64(xxhash.Sum64String(key), 32)
}

// DecodeRecord decodes what AppendRecord wrote for a key. The record's data is a part of b, not a copy; that of a
// tombstone is nil. If b is the envelope of a record and not as it was written, the error is a *DamagedError. If b is
// anything else, it is a *ForeignError.
func DecodeRecord(key string, b []byte) (causal.Record, error) {
	rec, reason := decode(key, b)
	switch {
	case reason == "":
		return rec, nil
	case wasEnvelope(key, b):
		return causal.Record{}, &DamagedError{Key: key, Reason: reason}
	}
	return causal.Record{}, &ForeignError{Key: key, Data: b, Reason: reason}
}

// wasEnvelope reports whether b, which cannot be decoded, once was the envelope of a record of the key, or of another
// key. No text begins with the magic and the number of a format. If one of these two is damaged, the checksum fits to
// what it was.
func wasEnvelope(key string, b []byte) bool {
	switch {
	case len(b) < 2:
		return false
	case b[0] == envelopeMagic && (b[1] == envelopeFormat || b[1] == headSumFormat):
		return true
	case len(b) < fixedLen+checksumLen || b[0] != envelopeMagic && b[1] != envelopeFormat:
		return false
	}
	was := slices.Clone(b)
	was[0], was[1] = envelopeMagic, envelopeFormat
	_, reason := decode(key, was)
	return reason == ""
}

// MaxFlippedName is the greatest length of a key for NamesOf.
const MaxFlippedName = 4 << 10

// NamesOf returns the keys of which b is the record, if that is one whose key has become another one by one flipped
// bit.
func NamesOf(key string, b []byte) (keys []string) {
	if len(b) < fixedLen+checksumLen || b[1] != envelopeFormat {
		return nil
	}
	end := len(b) - checksumLen
	of := binary.BigEndian.Uint64(b[end:]) - xxhash.Sum64(b[:end]) // what the key adds to the checksum
	name := []byte(key)
	for i := range name {
		for bit := range 8 {
			name[i] ^= 1 << bit
			if bits.RotateLeft64(xxhash.Sum64(name), 32) == of {
				keys = append(keys, string(name))
			}
			name[i] ^= 1 << bit
		}
	}
	return keys
}

// decode returns the record, or the reason why b is not one.
func decode(key string, b []byte) (rec causal.Record, reason string) {
	switch {
	case len(b) < fixedLen:
		return rec, "shorter than an envelope"
	case b[0] != envelopeMagic:
		return rec, "no envelope magic"
	case b[1] != envelopeFormat && b[1] != headSumFormat:
		return rec, "unknown envelope format"
	}
	flags, header := b[2], fixedLen
	if flags&flagDeadline != 0 {
		header += deadlineLen
	}
	if flags&flagType != 0 {
		header += typeLen
	}
	if flags&^knownFlags != 0 || len(b) < header {
		return rec, "wrong envelope checksum"
	}
	data, ok := open(key, b, header)
	if !ok {
		return rec, "wrong envelope checksum"
	}
	rec.Version.HLC = causal.HLC(binary.BigEndian.Uint64(b[3:]))
	rec.Version.Origin = topology.Origin(binary.BigEndian.Uint32(b[11:]))
	if flags&flagDeadline != 0 {
		rec.Value.ExpireAtMs = int64(binary.BigEndian.Uint64(b[fixedLen:]))
		if rec.Value.ExpireAtMs == 0 {
			return causal.Record{}, "envelope with an empty deadline"
		}
	}
	if flags&flagType != 0 {
		rec.Value.Type = causal.TypeID(b[header-typeLen])
		if !rec.Value.Merges() {
			return causal.Record{}, "envelope with the type of registers"
		}
	}
	if flags&flagTombstone != 0 {
		if len(data) != 0 {
			return causal.Record{}, "tombstone with data"
		}
		rec.Value.Tombstone = true
		return rec, ""
	}
	rec.Value.Data = data[:len(data):len(data)]
	return rec, ""
}

// open returns the data in an envelope, if its checksum is right.
func open(key string, b []byte, header int) (data []byte, ok bool) {
	if b[1] == headSumFormat {
		if len(b) < header+headSumLen {
			return nil, false
		}
		return b[header+headSumLen:], uint16(xxhash.Sum64(b[:header])) == binary.BigEndian.Uint16(b[header:])
	}
	end := len(b) - checksumLen
	if end < header {
		return nil, false
	}
	return b[header:end], checksum(key, b[:end]) == binary.BigEndian.Uint64(b[end:])
}

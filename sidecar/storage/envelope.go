package storage

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// The envelope precedes every value, so that the version is stored with the value and survives a restart (PROTOCOL §5).
// Integers are big-endian:
//
//	magic     1  0xC5
//	format    1  1
//	flags     1  bit 0: tombstone, bit 1: has a deadline, other bits: 0
//	hlc       8
//	origin    4
//	deadline  8  milliseconds since the epoch, not 0; only with bit 1
//	checksum  2  the low bits of the xxhash of all preceding bytes
//	data      the rest; a tombstone has none
//
// Each record has exactly one encoding. The probability that a random foreign value passes for an envelope is below 2^-37.
const (
	envelopeMagic  = 0xC5
	envelopeFormat = 1

	flagTombstone = 1 << 0
	flagDeadline  = 1 << 1
	knownFlags    = flagTombstone | flagDeadline

	fixedLen    = 1 + 1 + 1 + 8 + 4
	deadlineLen = 8
	checksumLen = 2

	// MaxEnvelopeOverhead is the maximum size of an envelope without the data, in bytes.
	MaxEnvelopeOverhead = fixedLen + deadlineLen + checksumLen
)

// EncodedLen returns the exact length of rec in its envelope, in bytes.
func EncodedLen(rec causal.Record) int {
	n := fixedLen + checksumLen
	if rec.Value.ExpireAtMs != 0 {
		n += deadlineLen
	}
	if !rec.Value.Tombstone {
		n += len(rec.Value.Data)
	}
	return n
}

// AppendRecord appends rec in its envelope to dst, without the data if rec is a tombstone.
func AppendRecord(dst []byte, rec causal.Record) []byte {
	dst = slices.Grow(dst, EncodedLen(rec))
	start := len(dst)
	var flags byte
	if rec.Value.Tombstone {
		flags |= flagTombstone
	}
	if rec.Value.ExpireAtMs != 0 {
		flags |= flagDeadline
	}
	dst = append(dst, envelopeMagic, envelopeFormat, flags)
	dst = binary.BigEndian.AppendUint64(dst, uint64(rec.Version.HLC))
	dst = binary.BigEndian.AppendUint32(dst, uint32(rec.Version.Origin))
	if flags&flagDeadline != 0 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(rec.Value.ExpireAtMs))
	}
	dst = binary.BigEndian.AppendUint16(dst, headerSum(dst[start:]))
	if rec.Value.Tombstone {
		return dst
	}
	return append(dst, rec.Value.Data...)
}

// DecodeRecord decodes what AppendRecord wrote. The record's data is a part of b, not a copy; that of a tombstone is nil.
// If b is anything else, the error is a *ForeignError for key.
func DecodeRecord(key string, b []byte) (causal.Record, error) {
	rec, reason := decode(b)
	if reason != "" {
		return causal.Record{}, &ForeignError{Key: key, Data: b, Reason: reason}
	}
	return rec, nil
}

// decode returns the record, or the reason why b is not one.
func decode(b []byte) (rec causal.Record, reason string) {
	switch {
	case len(b) < fixedLen+checksumLen:
		return rec, "shorter than an envelope"
	case b[0] != envelopeMagic:
		return rec, "no envelope magic"
	case b[1] != envelopeFormat:
		return rec, "unknown envelope format"
	}
	flags := b[2]
	header := fixedLen
	if flags&flagDeadline != 0 {
		header += deadlineLen
	}
	if flags&^knownFlags != 0 || len(b) < header+checksumLen || headerSum(b[:header]) != binary.BigEndian.Uint16(b[header:]) {
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
	data := b[header+checksumLen:]
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

func headerSum(header []byte) uint16 { return uint16(xxhash.Sum64(header)) }

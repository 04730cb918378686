package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A segment is a header followed by records, without gaps. Integers are little-endian, checksums are CRC-32C.
//
//	header:  magic [8] | version u32 | checksum u32 | first index u64 | salt u64
//	record:  length u32 | ordinal u32 | index u64 | payload checksum u32 | checksum u32 | payload
//
// The checksum of a segment header covers the other header fields. The checksum of a record covers the salt of its
// segment and the preceding fields, one of which is the checksum of the payload. The ordinal is the number of records
// before this one in the same write.
//
// Why a record identifies the write it belongs to: a crash may leave any part of an unsynced write, even a later part
// without an earlier one, so an intact record after a damaged one proves nothing by itself. But a write starts only
// after the previous one was synced. So a record whose write started after the damaged record proves that the damaged
// record was durable. This is how recovery tells a disk that lost data from a crash.
//
// Why a salt, and a checksum of the fields alone: payloads come from clients and may contain anything, even a copy of a
// log. Within a damaged write they must not pass for records, nor make the search for records slow.
const (
	segmentHeaderSize = 32
	recordHeaderSize  = 24

	// formatVersion is the version of this format. It changes with the format of segments and with that of the records'
	// payloads: a log is read by the version that wrote it.
	formatVersion = 2
)

var (
	magic      = [8]byte{'c', 's', 't', 'o', 'r', 'w', 'a', 'l'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// appendSegmentHeader appends the header of a segment to dst.
func appendSegmentHeader(dst []byte, first uint64, salt [8]byte) []byte {
	at := len(dst)
	dst = append(dst, magic[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, formatVersion)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, first)
	dst = append(dst, salt[:]...)
	h := dst[at:]
	binary.LittleEndian.PutUint32(h[12:], segmentChecksum(h))
	return dst
}

func segmentChecksum(h []byte) uint32 {
	return crc32.Update(crc32.Checksum(h[:12], castagnoli), castagnoli, h[16:segmentHeaderSize])
}

// parseSegmentHeader returns the initial value of the record checksums of a segment. A segment always has a complete
// header, because it gets its name after its header is durable.
func parseSegmentHeader(data []byte, path string, first uint64) (salt uint32, err error) {
	problem := ""
	switch {
	case len(data) < segmentHeaderSize:
		problem = fmt.Sprintf("it has %d bytes, less than a segment header of %d", len(data), segmentHeaderSize)
	case [8]byte(data) != magic:
		problem = "it does not begin with a segment header"
	case binary.LittleEndian.Uint32(data[12:]) != segmentChecksum(data):
		problem = "its header fails its checksum"
	case binary.LittleEndian.Uint32(data[8:]) != formatVersion:
		return 0, &FormatError{Segment: path, Found: binary.LittleEndian.Uint32(data[8:]), Supported: formatVersion}
	case binary.LittleEndian.Uint64(data[16:]) != first:
		problem = fmt.Sprintf("it begins with record %d, its name says %d",
			binary.LittleEndian.Uint64(data[16:]), first)
	}
	if problem != "" {
		return 0, &CorruptError{File: path, Problem: problem}
	}
	return crc32.Checksum(data[24:segmentHeaderSize], castagnoli), nil
}

// recordSize returns the size of a record with this payload in a segment, in bytes.
func recordSize(payload []byte) int64 { return recordHeaderSize + int64(len(payload)) }

// appendRecord appends a record to dst.
func appendRecord(dst []byte, salt uint32, index uint64, ordinal uint32, payload []byte) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint32(dst, ordinal)
	dst = binary.LittleEndian.AppendUint64(dst, index)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(payload, castagnoli))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(salt, castagnoli, dst[at:]))
	return append(dst, payload...)
}

// recordHeader is the decoded header of a record.
type recordHeader struct {
	length     int
	ordinal    uint32
	index      uint64
	payloadCRC uint32
}

// writeFirst returns the index of the first record of the write that the record belongs to.
func (h recordHeader) writeFirst() uint64 { return h.index - uint64(h.ordinal) }

// parseRecordHeader decodes the header at the beginning of data. ok is false if it is incomplete or its checksum is
// wrong.
func parseRecordHeader(data []byte, salt uint32) (h recordHeader, ok bool) {
	if len(data) < recordHeaderSize {
		return recordHeader{}, false
	}
	if binary.LittleEndian.Uint32(data[20:]) != crc32.Update(salt, castagnoli, data[:20]) {
		return recordHeader{}, false
	}
	h = recordHeader{
		length:     int(binary.LittleEndian.Uint32(data)),
		ordinal:    binary.LittleEndian.Uint32(data[4:]),
		index:      binary.LittleEndian.Uint64(data[8:]),
		payloadCRC: binary.LittleEndian.Uint32(data[16:]),
	}
	return h, uint64(h.ordinal) < h.index
}

// damage describes the first record of a segment that is not as it was written.
type damage struct {
	offset int64
	index  uint64
	// torn says that a crash during the last write may have caused it. It is meaningful only in the last segment.
	torn    bool
	problem string
}

// scanRecords calls fn for each record of a segment whose header is intact. It returns the offset at which the intact
// records end, and the index of the record after them. The payload passed to fn is a part of data.
func scanRecords(data []byte, salt uint32, first uint64, fn func(index uint64, payload []byte) error) (end int64,
	next uint64, bad *damage, err error) {
	off, index := segmentHeaderSize, first
	for off < len(data) {
		h, ok := parseRecordHeader(data[off:], salt)
		switch {
		case !ok:
			return int64(off), index, classifyDamage(data, off, salt, index, "fails its checksum"), nil
		case h.index != index:
			// A crash loses bytes. It does not move intact ones.
			return int64(off), index, &damage{offset: int64(off), index: index,
				problem: fmt.Sprintf("record %d is in the place of record %d", h.index, index)}, nil
		case h.length > len(data)-off-recordHeaderSize:
			return int64(off), index, classifyDamage(data, off, salt, index, "is incomplete"), nil
		}
		payload := data[off+recordHeaderSize:][:h.length:h.length]
		if crc32.Checksum(payload, castagnoli) != h.payloadCRC {
			return int64(off), index, classifyDamage(data, off, salt, index, "fails its checksum"), nil
		}
		if fn != nil {
			if err := fn(index, payload); err != nil {
				return int64(off), index, nil, err
			}
		}
		off += recordHeaderSize + h.length
		index++
	}
	return int64(off), index, nil, nil
}

// classifyDamage decides whether a crash can have left the record at off as it is: it cannot if a later write started.
func classifyDamage(data []byte, off int, salt uint32, index uint64, problem string) *damage {
	d := &damage{offset: int64(off), index: index, torn: true, problem: fmt.Sprintf("record %d %s", index, problem)}
	maxIndex := index + uint64((len(data)-off)/recordHeaderSize)
	for p := off + 1; p+recordHeaderSize <= len(data); p++ {
		// Nearly every position is ruled out here, without computing a checksum.
		if i := binary.LittleEndian.Uint64(data[p+8:]); i <= index || i > maxIndex {
			continue
		}
		if h, ok := parseRecordHeader(data[p:], salt); ok && h.writeFirst() > index {
			d.torn = false
			d.problem += fmt.Sprintf(", but record %d at byte %d was written after it was durable", h.index, p)
			return d
		}
	}
	return d
}

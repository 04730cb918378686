package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// The watermark (PROTOCOL LOG-8) is the index up to which the log was acknowledged, in a file
// beside the segments. The segments alone do not tell a torn tail, the rest of a write that was never acknowledged,
// from a lost one: both are records that are missing or damaged at the end. A log that ends below its watermark has
// lost acknowledged records. No watermark is above what was durable when it was written, so a crash never makes an
// intact log look like a damaged one.
//
// The file has two slots in different blocks. The first one is written before the file gets its name, and never again.
// The second one is overwritten by each append, after its sync and before it returns, and not synced: an append has one
// sync. So it survives the end of the process, and a power cut may leave it older or torn. The file is replaced when
// the log is opened and when a segment starts, so after a power cut too the watermark covers all segments but the last
// one.
//
//	slot: magic [8] | checksum u32 | zero u32 | index u64
const (
	watermarkName     = "acknowledged"
	watermarkSlotSize = 24
	// watermarkSlot2 is the offset of the second slot: a torn write damages at most the block that it is to.
	watermarkSlot2 = 4096
)

var watermarkMagic = [8]byte{'c', 's', 't', 'o', 'r', 'a', 'c', 'k'}

func encodeWatermark(dst *[watermarkSlotSize]byte, index uint64) []byte {
	copy(dst[:], watermarkMagic[:])
	binary.LittleEndian.PutUint64(dst[16:], index)
	binary.LittleEndian.PutUint32(dst[8:], crc32.Checksum(dst[12:], castagnoli))
	return dst[:]
}

// parseWatermark decodes the slot at the beginning of data. ok is false if it is incomplete or not as it was written.
func parseWatermark(data []byte) (index uint64, ok bool) {
	if len(data) < watermarkSlotSize {
		return 0, false
	}
	index = binary.LittleEndian.Uint64(data[16:])
	return index, bytes.Equal(data[:watermarkSlotSize], encodeWatermark(new([watermarkSlotSize]byte), index))
}

func (l *Log) watermarkPath() string { return l.opts.FS.PathJoin(l.dir, watermarkName) }

// readWatermark returns the index up to which the log is known to have been acknowledged. found is false if there is no
// file: it is made before the first segment.
func (l *Log) readWatermark() (index uint64, found bool, err error) {
	path := l.watermarkPath()
	f, err := l.opts.FS.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("open %s: %w", path, err)
	}
	data, err := readInto(f, nil)
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, false, fmt.Errorf("read %s: %w", path, err)
	}
	first, ok := parseWatermark(data)
	second, ok2 := parseWatermark(data[min(len(data), watermarkSlot2):])
	if !ok && !ok2 {
		return 0, true,
			&CorruptError{File: path, Problem: "it says how far the log was acknowledged, and fails its checksums"}
	}
	if ok2 { // if not, a power cut may have left it so
		index = second
	}
	if ok {
		index = max(index, first)
	}
	return index, true, nil
}

// checkWatermark returns an error if the log was acknowledged beyond the record before next, the first one that is
// missing or bad. In the last segment the intact records end at the offset end.
func (l *Log) checkWatermark(segment string, end int64, next uint64, bad *damage) error {
	acknowledged, found, err := l.readWatermark()
	if err != nil {
		return err
	}
	if !found {
		return &CorruptError{File: l.watermarkPath(),
			Problem: fmt.Sprintf("it is gone. It says how far the log was acknowledged, "+
				"and so whether records are missing after record %d, the last one that is there", next-1)}
	}
	if next > acknowledged || l.opts.acceptLostTail {
		return nil
	}
	problem := "the segment ends"
	if bad != nil {
		problem = bad.problem
	}
	return &CorruptError{File: segment, Offset: end,
		Problem: fmt.Sprintf("%s. The log goes to record %d, and was acknowledged up to record %d: "+
			"%d acknowledged records are lost or damaged", problem, next-1, acknowledged, acknowledged-next+1)}
}

// installWatermark replaces the file durably by one that says that the log was acknowledged up to index. On a full disk
// the file remains as it is: a watermark that is too low is only less of use.
func (l *Log) installWatermark(index uint64) error {
	fs, path := l.opts.FS, l.watermarkPath()
	slot := encodeWatermark(&l.slot, index)
	content := make([]byte, watermarkSlot2+watermarkSlotSize)
	copy(content, slot)
	copy(content[watermarkSlot2:], slot)
	f, err := l.installFile(path, content)
	switch {
	case err == nil:
		err = f.Close() // reopened below: a file that was created need not support WriteAt
	case errors.Is(err, ErrNoSpace) && (l.watermark != nil || len(l.segments) > 0): // there is one already
		l.opts.Logger.Warn("no space for a copy of the watermark; writing it in place", "file", path, "err", err)
		err = nil
	}
	if err != nil {
		return err
	}
	if f, err = fs.OpenReadWrite(path, diskCategory); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	if l.watermark != nil {
		if err := l.watermark.Close(); err != nil {
			l.watermark = nil
			return errors.Join(fmt.Errorf("close %s: %w", path, err), f.Close())
		}
	}
	l.watermark = f
	return l.raiseWatermark(index)
}

// raiseWatermark records that everything up to index is durable. It does not sync.
func (l *Log) raiseWatermark(index uint64) error {
	_, err := l.watermark.WriteAt(encodeWatermark(&l.slot, index), watermarkSlot2)
	switch {
	case err == nil:
		l.watermarkStuck = false
	case isNoSpace(err): // some file systems need space to overwrite
		if !l.watermarkStuck {
			l.watermarkStuck = true
			l.opts.Logger.Warn("no space to record how far the log is acknowledged", "file", l.watermarkPath(),
				"err", err)
		}
	default:
		return fmt.Errorf("write to %s that records up to %d are acknowledged: %w", l.watermarkPath(), index, err)
	}
	return nil
}

// closeWatermark makes the watermark durable, unless the log has failed, and closes its file.
func (l *Log) closeWatermark() (err error) {
	if l.watermark == nil {
		return nil
	}
	if l.failed == nil {
		if err = l.watermark.Sync(); isNoSpace(err) {
			err = nil
		}
	}
	return errors.Join(err, l.watermark.Close())
}

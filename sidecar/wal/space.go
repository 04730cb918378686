package wal

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
)

// ErrNoSpace is wrapped by the errors of Open and Append if the disk is full. Unlike other disk errors it is not final:
// nothing that was durable is affected, and the same call may be repeated until there is space.
//
// A part of the records that did not fit may be on the disk. So the next Append after ErrNoSpace must be of the same
// payloads: it continues where the disk became full.
var ErrNoSpace = errors.New("no space left for the write buffer log; free space on its volume, or enlarge the volume")

// isNoSpace reports whether err says that the disk, or the quota of this user on it, is full.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// wrapNoSpace adds ErrNoSpace to an error that says that the disk is full, and returns other errors as they are.
func wrapNoSpace(err error) error {
	if isNoSpace(err) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// unfinished is a write that met a full disk. The zero value is none.
type unfinished struct {
	buf     []byte // the encoded records
	written int    // how many of its bytes are in the active segment
}

// continueWrite returns the part of buf that is not in the active segment yet.
func (u *unfinished) continueWrite(buf []byte) ([]byte, error) {
	if u.buf == nil {
		return buf, nil
	}
	if !bytes.Equal(u.buf, buf) {
		return nil,
			errors.New(
				"the append before met a full disk, and a part of it is in the log: append the same records first")
	}
	return buf[u.written:], nil
}

// stop records that only n more bytes of buf were written.
func (u *unfinished) stop(buf []byte, n int) {
	if u.buf == nil {
		u.buf, u.written = buf, 0
	}
	u.written += n
}

// rewriteInPlace is how recoverLast makes the intact part of the last segment, data[:end], durable if there is no space
// for a second copy of it. It writes the bytes that are there already, which needs no space; a crash meanwhile leaves
// them as they are. What was cut off is filled with zeros: a later append must not make an old record behind it valid
// again.
func (l *Log) rewriteInPlace(first uint64, data []byte, end int64) (err error) {
	path := l.segmentPath(first)
	f, err := l.opts.FS.OpenReadWrite(path, diskCategory)
	if err != nil {
		return fmt.Errorf("open segment %s: %w", path, err)
	}
	if _, err = f.Write(data[:end]); err != nil { // leaves the position at end, where the next append writes
		err = fmt.Errorf("write segment %s again: %w", path, err)
	} else if rest := int64(len(data)) - end; rest > 0 {
		if _, err = f.WriteAt(make([]byte, rest), end); err != nil {
			err = fmt.Errorf("clear the incomplete write at the end of segment %s: %w", path, err)
		}
	}
	if err == nil {
		if err = f.Sync(); err != nil {
			err = fmt.Errorf("sync segment %s: %w", path, err)
		} else {
			err = syncDir(l.opts.FS, l.dir) // its name may be as new as its content
		}
	}
	if err != nil {
		return errors.Join(wrapNoSpace(err), f.Close())
	}
	l.active = f
	return nil
}

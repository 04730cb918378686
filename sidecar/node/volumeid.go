package node

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/cespare/xxhash/v2"

	"github.com/causalstore/causalstore/sidecar/wal"
)

// volumeCopyFile holds the id of the volume and its checksum, from which volumeFile is repaired. A volume whose
// volumeFile is gone has no id, whatever the copy says.
const volumeCopyFile = "volume.copy"

// readID returns the id of the volume; 0: it has none. It repairs what is damaged of the two files.
func (v *volume) readID() (uint64, error) {
	text, err := v.readText(volumeFile)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	isValid := err == nil && id != 0
	isAsWritten := text == formatID(id)
	text, err = v.readText(volumeCopyFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	copied, ok := parseVolumeCopy(text)
	switch {
	case ok && (!isAsWritten || id != copied):
		return copied, v.writeText(volumeFile, formatID(copied))
	case !isValid:
		return 0, &wal.CorruptError{File: v.path(volumeFile),
			Problem: "it holds no volume id, and there is no intact copy of it in " + volumeCopyFile}
	case !ok: // an earlier version has written none
		err = v.writeText(volumeCopyFile, formatVolumeCopy(id))
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) { // it is written at another start
		err = nil
	}
	return id, err
}

func formatID(id uint64) string { return strconv.FormatUint(id, 10) + "\n" }

func formatVolumeCopy(id uint64) string {
	text := strconv.FormatUint(id, 10)
	return fmt.Sprintf("%s %016x\n", text, xxhash.Sum64String(text))
}

// parseVolumeCopy returns the id in a copy; false if it is not as it was written.
func parseVolumeCopy(text string) (uint64, bool) {
	first, _, _ := strings.Cut(text, " ")
	id, err := strconv.ParseUint(first, 10, 64)
	return id, err == nil && text == formatVolumeCopy(id)
}

func drawID() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("draw a volume id: %w", err)
	}
	return max(binary.LittleEndian.Uint64(b[:]), 1), nil
}

// writeID gives the volume an id, durably. A copy of an earlier one is removed before.
func (v *volume) writeID() (uint64, error) {
	id, err := drawID()
	if err != nil {
		return 0, err
	}
	if err := v.fs.Remove(v.path(volumeCopyFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("remove %s: %w", v.path(volumeCopyFile), err)
	}
	if err := v.sync(); err != nil {
		return 0, fmt.Errorf("sync %s: %w", v.dir, err)
	}
	if err := v.writeText(volumeFile, formatID(id)); err != nil {
		return 0, err
	}
	return id, v.writeText(volumeCopyFile, formatVolumeCopy(id))
}

func (v *volume) readText(name string) (string, error) {
	f, err := v.fs.Open(v.path(name))
	if err != nil {
		return "", fmt.Errorf("open %s: %w", v.path(name), err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", v.path(name), err)
	}
	return string(b), nil
}

// writeText replaces a file, durably.
func (v *volume) writeText(name, text string) error {
	staged := v.path(name + ".tmp")
	f, err := v.fs.Create(staged, diskCategory)
	if err != nil {
		return fmt.Errorf("create %s: %w", staged, err)
	}
	_, err = io.WriteString(f, text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = v.fs.Rename(staged, v.path(name))
	}
	if err == nil {
		err = v.sync()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", v.path(name), err)
	}
	return nil
}

package embedded

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// What a store does that finds that it is damaged: it refuses all calls, and its watermark says that it has lost
// something, so that the next Open refuses it.

// lossNote is the first damage that was found.
type lossNote struct {
	dir    string
	logger *slog.Logger
	err    atomic.Pointer[error]
}

// get returns the damage, which is storage.ErrDataLost; nil if none was found.
func (n *lossNote) get() error {
	if err := n.err.Load(); err != nil {
		return *err
	}
	return nil
}

// noteLost takes note of damage. It returns the error of all calls from now on.
func (s *Store) noteLost(cause error) error {
	err := lostError(s.lost.dir, cause)
	if !s.lost.err.CompareAndSwap(nil, &err) {
		return s.lost.get()
	}
	s.lost.logger.Error("storage: it has lost acknowledged data; nothing is read from it any more", "error", err)
	s.markLost()
	return err
}

// markLost makes the next Open refuse the store.
func (s *Store) markLost() {
	if w := s.watermark.Load(); w != nil { // else Open sees to it
		if err := w.MarkLost(); err != nil { // then the damage is found again
			s.lost.logger.Error("storage: cannot record the loss", "error", err)
		}
	}
}

// readError returns the error of a call whose read has failed.
func (s *Store) readError(verb string, err error) error {
	if isDamage(err) {
		return s.noteLost(err)
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// recoverDamage is deferred by reads: what Pebble does not expect in a file is an error of the read. Tables from
// before FormatTableFormatV6 have no checksum over their last 53 bytes.
func (s *Store) recoverDamage(err *error) {
	if r := recover(); r != nil {
		*err = s.noteLost(fmt.Errorf("%w: %v", pebble.ErrCorruption, r))
	}
}

// isDamage reports whether an error of Pebble says that files are gone or not as they were written.
func isDamage(err error) bool {
	return pebble.IsCorruptionError(err) || errors.Is(err, os.ErrNotExist) || errors.Is(err, pebble.ErrDBDoesNotExist)
}

// isDamageAtOpen reports whether an error of pebble.Open says that files are gone or not as they were written. Not
// all of these errors can be told by their type, so it is each that does not come from the system, and is not about
// the format of a later version.
func isDamageAtOpen(err error) bool {
	var system syscall.Errno
	switch {
	case errors.Is(err, storage.ErrDataLost), isDamage(err):
		return true
	case errors.As(err, &system), errors.Is(err, os.ErrPermission),
		strings.Contains(err.Error(), "format major version"):
		return false
	}
	return true
}

func lostError(dir string, cause error) error {
	if errors.Is(cause, storage.ErrDataLost) {
		return cause
	}
	return fmt.Errorf("store in %s: %w: %w", dir, storage.ErrDataLost, cause)
}

func readFile(fs vfs.FS, path string) (string, error) {
	f, err := fs.Open(path)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(f)
	return string(b), errors.Join(err, f.Close())
}

package storage

import (
	"errors"
	"fmt"
)

var (
	// ErrForeign: the value of a key was not written by a middleman.
	ErrForeign = errors.New("value without a valid envelope: it was not written by this middleman")

	// ErrRestarted: the engine restarted or failed over, and has what it acknowledged as far as can be seen. At least
	// one of the calls after that returns it, and so may calls that were under way. It means "a request failed", as any
	// other error does: later calls use what the engine holds now.
	//
	// The middleman continues with that as well. It repeats writes that were not acknowledged.
	ErrRestarted = errors.New("the store restarted or failed over")

	// ErrDataLost: the engine no longer has what it acknowledged: it was emptied, has evicted keys, came back with
	// older data, or holds something that is not as it was written. Every later call returns it too, and so does the
	// next attempt to open the store, until it is renewed. The middleman must not answer reads from what is left
	// (PROTOCOL LOSS).
	ErrDataLost = errors.New("the store has lost data that it had acknowledged")

	// ErrFenced: another middleman has opened the same store. This one can never use it again.
	ErrFenced = errors.New("another middleman has taken over this store: stop this one, or give each its own store")

	// ErrFull: the store has no room for the writes, in memory or on disk. Nothing is lost, reads are served, and the
	// same writes may be repeated until there is room.
	ErrFull = errors.New("the store is full: raise its memory or enlarge its volume; writes wait until there is room")
	// ErrCursor: Keys cannot continue where it was; begin again.
	ErrCursor = errors.New("the list of keys cannot be continued: begin again")

	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// ForeignError says that the value of one key has no valid envelope.
type ForeignError struct {
	Key string
	// Data is the value as it is in the store; nil if it is not a string.
	Data []byte
	// Reason says what is wrong with it.
	Reason string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("key %q: %s: %v", e.Key, e.Reason, ErrForeign)
}

// Is makes errors.Is(e, ErrForeign) true.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// DamagedError says that the record of one key is not as it was written. It is ErrDataLost: what the record was is
// unknown, so it must be neither returned, nor compared with, nor taken for missing.
type DamagedError struct {
	Key string
	// Reason says what is wrong with it.
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("key %.100q: %s: %v", e.Key, e.Reason, ErrDataLost)
}

// Is makes errors.Is(e, ErrDataLost) true.
func (e *DamagedError) Is(target error) bool { return target == ErrDataLost }

// maxSkippedKeys limits the examples in a SkippedError.
const maxSkippedKeys = 8

// SkippedError says how many foreign values a scan skipped. The zero value is ready to count.
type SkippedError struct {
	Count int64
	// Keys has the first few of them.
	Keys []string
}

// Add counts the foreign value of key.
func (e *SkippedError) Add(key string) {
	e.Count++
	if len(e.Keys) < maxSkippedKeys {
		e.Keys = append(e.Keys, key)
	}
}

// OrNil returns e if it counted anything.
func (e *SkippedError) OrNil() error {
	if e.Count == 0 {
		return nil
	}
	return e
}

func (e *SkippedError) Error() string {
	return fmt.Sprintf("scan skipped %d foreign values, such as %q: %v", e.Count, e.Keys, ErrForeign)
}

// Is makes errors.Is(e, ErrForeign) true.
func (e *SkippedError) Is(target error) bool { return target == ErrForeign }

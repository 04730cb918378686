package storage

import (
	"errors"
	"fmt"
)

var (
	// ErrForeign: a key holds something that no middle man wrote.
	ErrForeign = errors.New("value without a valid envelope: something other than this middle man wrote it")

	// ErrRestarted: the engine restarted, failed over or lost data on its own. It is returned by the calls that were
	// under way when this was noticed, at least one, and then no more: the middle man serves nothing until it has
	// reconciled (PROTOCOL §5), for which it uses the store as usual.
	ErrRestarted = errors.New("the store restarted or failed over: reconcile before serving")

	// ErrFenced: another middle man has opened the same store. This one can never use it again.
	ErrFenced = errors.New("another middle man has taken over this store: stop this one, or give each its own store")

	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// ForeignError says that the value of one key has no valid envelope.
type ForeignError struct {
	Key string
	// Data is the value as it stands in the store; nil if it is not a string at all.
	Data []byte
	// Reason says what is wrong with it.
	Reason string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("key %q: %s: %v", e.Key, e.Reason, ErrForeign)
}

// Is makes a ForeignError an ErrForeign.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// maxSkippedKeys bounds the examples in a SkippedError.
const maxSkippedKeys = 8

// SkippedError says how many foreign values a scan passed over. The zero value is ready to count.
type SkippedError struct {
	Count int64
	// Keys are the first few of them.
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
	return fmt.Sprintf("scan passed over %d foreign values, such as %q: %v", e.Count, e.Keys, ErrForeign)
}

// Is makes a SkippedError an ErrForeign.
func (e *SkippedError) Is(target error) bool { return target == ErrForeign }

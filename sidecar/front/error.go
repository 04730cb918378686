package front

import "fmt"

// Code says what the failure of an operation means to the client. Each front has its own words for it.
type Code uint8

// The codes. After any but UnknownOutcome, nothing was written.
const (
	// Unavailable: nothing that may answer did so in time. Another try may succeed.
	Unavailable Code = iota + 1
	// Busy: too much is in progress. Another try may succeed later.
	Busy
	// ClockAhead: a timestamp is too far ahead of the clock of whoever had to accept it.
	ClockAhead
	// UnknownOutcome: the write may or may not have been accepted.
	UnknownOutcome
	// TooLarge: a key or a value is longer than the store accepts.
	TooLarge
	// Conflict: another client of the data center has written the key since this session has read it, see
	// Session.IsExact. Another try may succeed.
	Conflict
	// Refused: the request cannot be carried out as it is. The same one fails again.
	Refused
)

var codeNames = [...]string{Unavailable: "unavailable", Busy: "busy", ClockAhead: "clock ahead",
	UnknownOutcome: "unknown outcome",
	TooLarge:       "too large", Conflict: "conflict", Refused: "refused"}

// IsKnown reports whether c is one of the codes.
func (c Code) IsKnown() bool { return c > 0 && int(c) < len(codeNames) }

func (c Code) String() string {
	if !c.IsKnown() {
		return fmt.Sprintf("code %d", uint8(c))
	}
	return codeNames[c]
}

// Error is the failure of an operation of a Session.
type Error struct {
	Code Code
	// Message says what is wrong and what to do. It is for clients.
	Message string
}

func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// Errorf returns an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

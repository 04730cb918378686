package resp

import (
	"context"
	"errors"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/front"
)

// Error is an error reply, "-CODE message". Redis clients distinguish errors by the code.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Code + " " + e.Message }

// Errorf returns an Error. Line breaks in the message are sent as spaces.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// genericError returns an Error with the code ERR.
func genericError(message string) *Error { return &Error{Code: "ERR", Message: message} }

// Errors without parameters. All but errStopping are word for word those of Redis.
var (
	errSyntax    = genericError("syntax error")
	errOvertaken = &Error{Code: "CONFLICT", Message: "a later command of the pipeline was executed before; " +
		"nothing was written, try again"}
	errWrongType = &Error{Code: "WRONGTYPE",
		Message: "Operation against a key holding the wrong kind of value"}
	errNotInteger     = genericError("value is not an integer or out of range")
	errNotFloat       = genericError("value is not a valid float")
	errNaNOrInfinity  = genericError("increment would produce NaN or Infinity")
	errOverflow       = genericError("increment or decrement would overflow")
	errDecrOverflow   = genericError("decrement would overflow")
	errOffset         = genericError("offset is out of range")
	errNXIncompatible = genericError("NX and XX, GT or LT options at the same time are not compatible")
	errGTIncompatible = genericError("GT and LT options at the same time are not compatible")
	errBadClientName  = genericError("Client names cannot contain spaces, newlines or special characters.")
	errMaxClients     = genericError("max number of clients reached")
	errNoAuth         = &Error{Code: "NOAUTH", Message: "Authentication required."}
	errWrongPass      = &Error{Code: "WRONGPASS", Message: "invalid username-password pair or user is disabled."}
	errNoProto        = &Error{Code: "NOPROTO", Message: "unsupported protocol version"}
	errStopping       = genericError("the sidecar is shutting down; reconnect")
)

// Errors that close the connection, word for word those of Redis.
var (
	errMultibulkLength          = protocolError("invalid multibulk length")
	errMultibulkUnauthenticated = protocolError("unauthenticated multibulk length")
	errMultibulkLine            = protocolError("too big mbulk count string")
	errBulkLength               = protocolError("invalid bulk length")
	errBulkUnauthenticated      = protocolError("unauthenticated bulk length")
	errBulkLine                 = protocolError("too big bulk count string")
	errInlineLine               = protocolError("too big inline request")
	errQuotes                   = protocolError("unbalanced quotes in request")
)

// Errors of clients that use TLS on the wrong port, or do not on the other one. They close the connection.
var (
	errTLS   = protocolError("this port is not for TLS")
	errNoTLS = protocolError("this port is for TLS: use rediss:// or redis-cli --tls")
)

func protocolError(message string) *Error { return genericError("Protocol error: " + message) }

func errArity(command string) *Error {
	return Errorf("ERR", "wrong number of arguments for '%s' command", command)
}

func errExpireTime(command string) *Error {
	return Errorf("ERR", "invalid expire time in '%s' command", command)
}

func errTooLong(what string, n, limit int) *Error {
	return Errorf("ERR", "%s is %d bytes, more than the limit of %d bytes", what, n, limit)
}

// codes are the codes with which clients are told of what fails in the store. BUSY, UNAVAILABLE and CLOCK promise that
// nothing was written; UNKNOWN does not.
var codes = map[front.Code]string{front.Unavailable: "UNAVAILABLE", front.Busy: "BUSY", front.ClockAhead: "CLOCK",
	front.UnknownOutcome: "UNKNOWN", front.Conflict: "CONFLICT", front.TooLarge: "ERR", front.Refused: "ERR"}

// toError converts any error of a command or a session to an error reply.
func toError(err error) *Error {
	var reply *Error
	var failed *front.Error
	switch {
	case errors.As(err, &reply):
		return reply
	case errors.As(err, &failed) && codes[failed.Code] != "":
		return &Error{Code: codes[failed.Code], Message: failed.Message}
	case errors.Is(err, context.Canceled):
		return errStopping
	default:
		return genericError(err.Error())
	}
}

package resp

import (
	"context"
	"errors"
	"fmt"
)

// Error is an error reply with its code, as Redis clients tell errors apart: "-CODE message".
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Code + " " + e.Message }

// Errorf makes an Error. Line breaks in the message are sent as spaces.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func plainError(message string) *Error { return &Error{Code: "ERR", Message: message} }

// The errors of Redis that need no parameter, word for word.
var (
	errSyntax         = plainError("syntax error")
	errNotInteger     = plainError("value is not an integer or out of range")
	errNotFloat       = plainError("value is not a valid float")
	errNaNOrInfinity  = plainError("increment would produce NaN or Infinity")
	errOverflow       = plainError("increment or decrement would overflow")
	errDecrOverflow   = plainError("decrement would overflow")
	errNXIncompatible = plainError("NX and XX, GT or LT options at the same time are not compatible")
	errGTIncompatible = plainError("GT and LT options at the same time are not compatible")
	errBadClientName  = plainError("Client names cannot contain spaces, newlines or special characters.")
	errMaxClients     = plainError("max number of clients reached")
	errNoAuth         = &Error{Code: "NOAUTH", Message: "Authentication required."}
	errWrongPass      = &Error{Code: "WRONGPASS", Message: "invalid username-password pair or user is disabled."}
	errNoProto        = &Error{Code: "NOPROTO", Message: "unsupported protocol version"}
	errStopping       = plainError("the sidecar is stopping; connect again")
)

// The frames that end a connection, word for word.
var (
	errMultibulkLength       = protocolError("invalid multibulk length")
	errMultibulkUnauthorised = protocolError("unauthenticated multibulk length")
	errMultibulkLine         = protocolError("too big mbulk count string")
	errBulkLength            = protocolError("invalid bulk length")
	errBulkUnauthorised      = protocolError("unauthenticated bulk length")
	errBulkLine              = protocolError("too big bulk count string")
	errInlineLine            = protocolError("too big inline request")
	errQuotes                = protocolError("unbalanced quotes in request")
)

func protocolError(message string) *Error { return plainError("Protocol error: " + message) }

func errArity(command string) *Error {
	return Errorf("ERR", "wrong number of arguments for '%s' command", command)
}

func errExpireTime(command string) *Error {
	return Errorf("ERR", "invalid expire time in '%s' command", command)
}

func errTooLong(what string, n, limit int) *Error {
	return Errorf("ERR", "%s is %d bytes, more than the limit of %d bytes", what, n, limit)
}

// asReply turns any error of a session into the reply for the client.
func asReply(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return errStopping
	default:
		return plainError(err.Error())
	}
}

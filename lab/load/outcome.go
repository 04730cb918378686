package load

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// harmless are the codes of error replies that guarantee that the command had no effect.
var harmless = []string{"BUSY", "LOADING", "UNAVAILABLE", "READONLY", "OOM", "MISCONF", "NOAUTH", "NOPERM", "MOVED",
	"CLUSTERDOWN", "MASTERDOWN"}

// Answered reports whether a command received a reply, be it an error or nil.
func Answered(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}

// ErrorKind classifies an error for counting: the code of an error reply, or what happened to the connection.
func ErrorKind(err error) string {
	var reply redis.Error
	var timeout net.Error
	switch {
	case errors.As(err, &reply):
		code, _, _ := strings.Cut(strings.TrimPrefix(reply.Error(), "-"), " ")
		return strings.TrimSuffix(code, ":")
	case errors.Is(err, errUnwritten):
		return "unwritten"
	case notSent(err):
		return "connect"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	default:
		return "connection"
	}
}

// notSent reports whether the connection could not be established.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// HadNoEffect reports whether a write that ended with this error certainly had no effect.
func HadNoEffect(err error) bool {
	return notSent(err) || Answered(err) && slices.Contains(harmless, ErrorKind(err))
}

package load

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/history"
)

// request is one operation in flight: what to send, when it was due, and what came back.
type request struct {
	verb Verb
	keys []int // numbers of its keys
	// op is what the history records. For a read-modify-write, op is the read and write is the write.
	op, write history.Op
	value     string // as sent: the value of op or write with its padding
	ttl       time.Duration
	insert    int // number of the new key

	due time.Duration // open loop
	// The replies, with CAUSAL LAST last; then those of the second half of a read-modify-write, nil if it was not sent.
	reply, written redis.Cmder
	last, after    *redis.Cmd
	source         string // where its (first) command was answered, once that is known
}

// reset prepares a request for reuse.
func (r *request) reset(op history.Op) {
	*r = request{keys: r.keys[:0], op: op}
}

// source chooses the operations of a connection: it fills in the request's verb, keys, op, value and ttl.
type source interface {
	next(r *request)
}

// queue adds the (first) command of a request to a pipeline.
func (r *request) queue(ctx context.Context, p redis.Pipeliner) redis.Cmder {
	if r.op.Kind == history.Update {
		words := []any{r.op.Command[0], r.op.Key}
		for _, word := range r.op.Command[1:] {
			words = append(words, word)
		}
		return p.Do(ctx, words...)
	}
	switch r.verb {
	case Set, Insert:
		return p.Set(ctx, r.op.Key, r.value, r.ttl)
	case Add:
		return p.SetNX(ctx, r.op.Key, r.value, r.ttl)
	case Incr:
		return p.Incr(ctx, r.op.Key)
	case Del:
		return p.Del(ctx, r.op.Key)
	case MGet:
		keys := make([]string, len(r.op.Reads))
		for i := range r.op.Reads {
			keys[i] = r.op.Reads[i].Key
		}
		return p.MGet(ctx, keys...)
	default:
		return p.Get(ctx, r.op.Key)
	}
}

// ended is when the whole operation was answered.
func (r *request) ended() time.Duration { return time.Duration(max(r.op.End, r.write.End)) }

// decisive is the operation whose outcome is the outcome of the request.
func (r *request) decisive() *history.Op {
	if r.verb == ReadModifyWrite && r.op.OK {
		return &r.write
	}
	return &r.op
}

// misses counts the keys that a read did not find, and the keys that it looked up.
func (r *request) misses() (misses, reads int64) {
	switch r.verb {
	case Get, ReadModifyWrite:
		reads = 1
		if r.op.Missing {
			misses = 1
		}
	case MGet:
		reads = int64(len(r.op.Reads))
		for i := range r.op.Reads {
			if r.op.Reads[i].Missing {
				misses++
			}
		}
	}
	return misses, reads
}

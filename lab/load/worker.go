package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// worker drives one connection: it chooses, sends, measures and records.
type worker struct {
	run      *run
	conn     *connection
	source   source
	name     string // of the connection
	session  string // ByEndpoint
	due      *schedule
	requests []request
}

// redialPause is how long a worker waits before it retries an unreachable endpoint.
const redialPause = 50 * time.Millisecond

func (w *worker) work(ctx context.Context) error {
	for {
		if n := w.take(ctx); n == 0 {
			return nil
		}
		for i := range w.requests {
			w.source.next(&w.requests[i])
		}
		good := w.batch(ctx)
		if err := w.settle(); err != nil {
			return err
		}
		if !good && !w.reconnect(ctx) {
			return nil
		}
	}
}

// take waits until operations are due, and prepares as many requests as may be sent at once: a full pipeline in the
// closed loop, the due ones in the open loop. It returns 0 when the run is over.
func (w *worker) take(ctx context.Context) int {
	w.requests = w.requests[:0]
	if w.run.claim(1) == 0 || ctx.Err() != nil {
		return 0
	}
	if w.due == nil {
		w.ready(1+w.run.claim(w.run.config.Pipeline-1), 0)
		return len(w.requests)
	}
	due, ok := w.due.next(ctx)
	if !ok {
		return 0
	}
	w.ready(1, due)
	for len(w.requests) < w.run.config.Pipeline && w.run.claim(1) == 1 {
		if due, ok = w.due.overdue(); !ok {
			w.run.unclaim(1)
			break
		}
		w.ready(1, due)
	}
	return len(w.requests)
}

// ready adds n requests.
func (w *worker) ready(n int, due time.Duration) {
	for range n {
		i := len(w.requests)
		if i < cap(w.requests) {
			w.requests = w.requests[:i+1]
		} else {
			w.requests = append(w.requests, request{})
		}
		w.requests[i].reset(history.Op{Session: w.session, Process: w.name, DC: w.conn.target.DataCenter})
		w.requests[i].due = due
	}
}

// reconnect replaces a lost connection. It reports false if ctx ends first.
func (w *worker) reconnect(ctx context.Context) bool {
	lost := w.conn.hasReplied
	w.conn.renew()
	if lost {
		w.run.meter.reconnected()
		return true
	}
	return pause(ctx, redialPause)
}

// batch sends the requests and waits for their replies; then it sends the second halves of read-modify-writes.
func (w *worker) batch(ctx context.Context) (good bool) {
	ask := w.conn.capturesVersions()
	start := w.run.now()
	good = w.conn.send(ctx, func(p redis.Pipeliner) {
		for i := range w.requests {
			r := &w.requests[i]
			if r.reply = r.queue(ctx, p); ask {
				r.last = p.Do(ctx, "CAUSAL", "LAST")
			}
		}
	})
	end := w.run.now()
	second := false
	for i := range w.requests {
		r := &w.requests[i]
		r.op.Start, r.op.End = start, end
		second = second || r.verb == ReadModifyWrite
	}
	if good && second {
		good = w.modify(ctx)
	}
	w.identify()
	return good
}

// modify sends the SET of each read-modify-write whose GET was answered.
func (w *worker) modify(ctx context.Context) (good bool) {
	ask := w.conn.capturesVersions()
	start := w.run.now()
	good = w.conn.send(ctx, func(p redis.Pipeliner) {
		for i := range w.requests {
			r := &w.requests[i]
			if err := r.reply.Err(); r.verb != ReadModifyWrite || err != nil && !errors.Is(err, redis.Nil) {
				continue
			}
			if r.written = p.Set(ctx, r.write.Key, r.value, r.ttl); ask {
				r.after = p.Do(ctx, "CAUSAL", "LAST")
			}
		}
	})
	end := w.run.now()
	for i := range w.requests {
		if r := &w.requests[i]; r.written != nil {
			r.write.Start, r.write.End = start, end
		}
	}
	return good
}

// identify assigns the operations to their session. A new connection is a new session: the server does not know the
// lost one.
func (w *worker) identify() {
	if w.run.config.SessionNaming == ByEndpoint {
		return
	}
	name := w.name
	if g := w.conn.generation; g > 1 {
		name = fmt.Sprintf("%s#%d", name, g)
	}
	for i := range w.requests {
		r := &w.requests[i]
		r.op.Session, r.op.Process = name, name
		r.write.Session, r.write.Process = name, name
	}
}

// settle reads the replies, measures and records.
func (w *worker) settle() error {
	m := w.run.meter
	m.mu.Lock()
	for i := range w.requests {
		r := &w.requests[i]
		err := w.outcome(r)
		m.take(r, r.ended()-w.from(r), err)
	}
	m.mu.Unlock()
	for i := range w.requests {
		if r := &w.requests[i]; r.verb == Insert {
			w.run.keys.inserts.finish(r.insert)
		}
	}
	// The second halves of read-modify-writes were sent after everything else.
	for i := range w.requests {
		if err := w.note(&w.requests[i].op, w.requests[i].keys); err != nil {
			return err
		}
	}
	for i := range w.requests {
		if r := &w.requests[i]; r.written != nil {
			if err := w.note(&r.write, r.keys); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *worker) note(op *history.Op, keys []int) error {
	w.run.written(op, keys)
	if w.run.shared != nil {
		w.run.shared.take(op)
	}
	return w.run.record(op)
}

// errUnwritten ends a read-modify-write whose connection broke after its read.
var errUnwritten = errors.New("not written after its read")

// outcome derives the outcome of a request from its replies, and returns the error that it failed with. The caller
// holds the lock of the meter.
func (w *worker) outcome(r *request) error {
	kind := r.op.Kind // fill may turn a delete into a get
	err := fill(&r.op, r.reply)
	if err == nil {
		r.source = w.takeLast(&r.op, kind, r.last)
	}
	if err != nil || r.verb != ReadModifyWrite {
		return err
	}
	if r.written == nil {
		return errUnwritten
	}
	if err = fill(&r.write, r.written); err == nil {
		w.takeLast(&r.write, history.Put, r.after)
	}
	return err
}

// from is the start of the latency of an operation.
func (w *worker) from(r *request) time.Duration {
	if w.due == nil {
		return time.Duration(r.op.Start)
	}
	return min(r.due, time.Duration(r.op.Start))
}

// takeLast applies a reply to CAUSAL LAST to an operation that was sent as kind, and returns where it was answered. The
// caller holds the lock of the meter.
func (w *worker) takeLast(op *history.Op, kind history.OpKind, cmd *redis.Cmd) (source string) {
	if cmd == nil {
		return ""
	}
	m := &w.run.meter.result
	l, err := w.conn.lastOf(cmd)
	if err != nil {
		if Answered(cmd.Err()) {
			m.Errors["causal-last"]++
		}
		return ""
	}
	if l.source != "" {
		m.Sources[l.source]++
	}
	if l.status != "" {
		m.Statuses[l.status]++
	}
	if kind == op.Kind && kind != history.MGet {
		// An MGET has one version per key, and a DEL that found nothing wrote none: neither gets this version.
		op.Version = l.version
	}
	if kind == history.Get || kind == history.MGet {
		op.InFlight, op.Source = l.status == inFlight, l.source
	}
	return l.source
}

// inFlight is what CAUSAL LAST says of a version that is not complete.
var inFlight = causal.InFlight.String()

// fill derives the outcome of an operation from its reply, and returns the error that it failed with.
func fill(op *history.Op, cmd redis.Cmder) error {
	err := cmd.Err()
	if errors.Is(err, redis.Nil) && (op.Kind == history.Get || op.Kind == history.Update) {
		op.OK, op.Missing = true, true
		return nil
	}
	if err != nil {
		op.Unknown = (op.Kind == history.Put || op.Kind == history.Delete || op.Kind == history.Update) &&
			!HadNoEffect(err)
		return err
	}
	op.OK = true
	switch cmd := cmd.(type) {
	case *redis.Cmd:
		op.Value = fmt.Sprint(cmd.Val())
	case *redis.StringCmd:
		op.Value = unpadded(cmd.Val())
	case *redis.IntCmd:
		if op.Kind == history.Delete && cmd.Val() == 0 { // the key did not exist, so nothing was done
			op.Kind, op.Missing = history.Get, true
		}
	case *redis.SliceCmd:
		for i := range min(len(op.Reads), len(cmd.Val())) {
			value, found := cmd.Val()[i].(string)
			op.Reads[i].Value, op.Reads[i].Missing = unpadded(value), !found
		}
	}
	return nil
}

package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/sidecar/history"
)

// worker is one connection at work: choose, send, measure, record.
type worker struct {
	run     *run
	conn    *connection
	choose  *chooser
	session string // ByEndpoint
	due     *schedule

	ops  []history.Op
	keys [][]int
	cmds []redis.Cmder
	last []*redis.Cmd
}

// redialPause is how long a worker waits before it tries an endpoint again that it cannot reach.
const redialPause = 50 * time.Millisecond

func (w *worker) work(ctx context.Context) error {
	for {
		n := w.run.claim(w.run.config.Pipeline)
		if n == 0 {
			return nil
		}
		due, ok := w.due.next(ctx, n)
		if !ok {
			return nil
		}
		good := w.batch(ctx, n)
		if err := w.settle(n, due); err != nil {
			return err
		}
		if !good {
			lost := w.conn.worked
			w.conn.renew()
			if lost {
				w.run.reconnected()
			} else if !pause(ctx, redialPause) {
				return nil
			}
		}
	}
}

// batch chooses n operations, sends them and waits for their answers.
func (w *worker) batch(ctx context.Context, n int) (good bool) {
	w.ops, w.cmds, w.last = w.ops[:0], w.cmds[:0], w.last[:0]
	for len(w.keys) < n {
		w.keys = append(w.keys, nil)
	}
	for i := range n {
		op := history.Op{Session: w.session, Process: w.choose.name, DC: w.conn.target.Name}
		w.keys[i] = append(w.keys[i][:0], w.choose.next(&op)...)
		w.ops = append(w.ops, op)
	}
	ask := w.conn.asksVersions()
	start := w.run.now()
	good = w.conn.send(ctx, func(p redis.Pipeliner) {
		for i := range w.ops {
			w.cmds = append(w.cmds, w.queue(ctx, p, &w.ops[i]))
			if ask {
				w.last = append(w.last, p.Do(ctx, "CAUSAL", "LAST"))
			}
		}
	})
	end := w.run.now()
	for i := range w.ops {
		w.ops[i].Start, w.ops[i].End = start, end
	}
	w.name()
	return good
}

// name gives the operations their session. A connection that is made anew is another session: the server knows nothing
// of the lost one.
func (w *worker) name() {
	if w.run.config.SessionNaming == ByEndpoint {
		return
	}
	name := w.choose.name
	if g := w.conn.generation; g > 1 {
		name = fmt.Sprintf("%s#%d", name, g)
	}
	for i := range w.ops {
		w.ops[i].Session, w.ops[i].Process = name, name
	}
}

func (w *worker) queue(ctx context.Context, p redis.Pipeliner, op *history.Op) redis.Cmder {
	switch op.Kind {
	case history.Put:
		return p.Set(ctx, op.Key, w.choose.padded(op.Value), 0)
	case history.Delete:
		return p.Del(ctx, op.Key)
	case history.MGet:
		keys := make([]string, len(op.Reads))
		for i := range op.Reads {
			keys[i] = op.Reads[i].Key
		}
		return p.MGet(ctx, keys...)
	default:
		return p.Get(ctx, op.Key)
	}
}

// settle reads the answers, measures and records.
func (w *worker) settle(n int, due time.Duration) error {
	m := w.run.meter
	m.mu.Lock()
	for i := range n {
		op := &w.ops[i]
		kind := op.Kind // fill may turn a delete into a get
		err := fill(op, w.cmds[i])
		if err == nil && len(w.last) > 0 {
			w.takeLast(op, kind, w.last[i])
		}
		switch {
		case op.OK:
			m.result.Ops++
			record(m.result.of(kind), time.Duration(op.End)-w.from(due, op))
		case op.Unknown:
			m.result.Unknown++
		default:
			m.result.Failed++
		}
		if err != nil {
			m.result.Errors[errorKind(err)]++
		}
	}
	m.mu.Unlock()
	for i := range n {
		w.run.written(&w.ops[i], w.keys[i])
		if err := w.run.record(&w.ops[i]); err != nil {
			return err
		}
	}
	return nil
}

// from is when the latency of an operation starts to count.
func (w *worker) from(due time.Duration, op *history.Op) time.Duration {
	if w.due == nil {
		return time.Duration(op.Start)
	}
	return min(due, time.Duration(op.Start))
}

// takeLast uses an answer of CAUSAL LAST about an operation that was sent as kind. The meter is locked.
func (w *worker) takeLast(op *history.Op, kind history.OpKind, cmd *redis.Cmd) {
	m := &w.run.meter.result
	l, err := w.conn.lastOf(cmd)
	if err != nil {
		if answered(cmd.Err()) {
			m.Errors["causal-last"]++
		}
		return
	}
	if l.source != "" {
		m.Sources[l.source]++
	}
	if l.status != "" {
		m.Statuses[l.status]++
	}
	if kind == op.Kind && kind != history.MGet {
		// An MGET has a version for each key, and a DEL that found nothing wrote none: neither has this one.
		op.Version = l.version
	}
}

// fill takes the outcome of an operation from its reply. It returns the error that kept it from success.
func fill(op *history.Op, cmd redis.Cmder) error {
	err := cmd.Err()
	if errors.Is(err, redis.Nil) && op.Kind == history.Get {
		op.OK, op.Missing = true, true
		return nil
	}
	if err != nil {
		op.Unknown = (op.Kind == history.Put || op.Kind == history.Delete) && !didNothing(err)
		return err
	}
	op.OK = true
	switch cmd := cmd.(type) {
	case *redis.StringCmd:
		op.Value = unpadded(cmd.Val())
	case *redis.IntCmd:
		if cmd.Val() == 0 { // nothing was there, nothing was done
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

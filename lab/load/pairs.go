package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/causalstore/causalstore/history"
)

// Inside is what a load of shared keys has seen inside the data centers, beside what a checker finds in its history.
type Inside struct {
	// Pairs counts SETs at one endpoint of a data center that were followed by a GET at another one, right after the
	// reply; OldPairs those of which the GET did not return what was set, and FailedPairs those with an error. Nobody
	// else writes these keys.
	Pairs       int64 `json:"pairs"`
	OldPairs    int64 `json:"oldPairs"`
	FailedPairs int64 `json:"failedPairs"`
	// Added is what was added and acknowledged to counters that only one data center uses, AddedUnknown what may have
	// been added to them, and Counted the sum of their last values.
	Added        int64 `json:"added"`
	AddedUnknown int64 `json:"addedUnknown"`
	Counted      int64 `json:"counted"`
	// Unread counts the reads of last values that failed.
	Unread int64 `json:"unread"`
}

// pairWorker sets keys at one endpoint of a data center and reads them at another one, as long as the load lasts.
type pairWorker struct {
	run *run
	dc  string
	at  []*worker // one for each endpoint
	r   *rand.Rand
	seq int
	sum Inside
}

// newPairs returns a worker for each data center with several endpoints.
func (r *run) newPairs() (all []*pairWorker) {
	byDC := map[string]*pairWorker{}
	for i, t := range r.targets {
		p := byDC[t.DataCenter]
		if p == nil {
			p = &pairWorker{run: r, dc: t.DataCenter, r: rand.New(rand.NewPCG(r.config.Seed, uint64(i)^0x9a115))}
			byDC[t.DataCenter] = p
			all = append(all, p)
		}
		name := fmt.Sprintf("pair%d", i)
		w := &worker{run: r, conn: dial(t, &r.config), name: name}
		if r.config.SessionNaming == ByEndpoint {
			w.session = t.Name
		}
		p.at = append(p.at, w)
	}
	return all
}

func (p *pairWorker) work(ctx context.Context) error {
	for len(p.at) > 1 && ctx.Err() == nil && p.run.claim(2) == 2 {
		p.seq++
		set := p.r.IntN(len(p.at))
		get := (set + 1 + p.r.IntN(len(p.at)-1)) % len(p.at)
		// a few keys, so that caches and near copies have them, and others after a while
		key := fmt.Sprintf("%sp:%s:%d:%d", p.run.config.KeyPrefix, p.dc, p.seq%pairKeys,
			p.seq/operationsPerKey/pairKeys)
		value := fmt.Sprintf("%s-%d", p.at[set].name, p.seq)
		op := history.Op{Kind: history.Put, Key: key, Value: value}
		if ok, err := p.do(ctx, p.at[set], Set, &op); err != nil || !ok {
			p.sum.FailedPairs++
			if err != nil {
				return err
			}
			p.seq += pairKeys * operationsPerKey // other keys: it may take effect later
			continue
		}
		op = history.Op{Kind: history.Get, Key: key}
		ok, err := p.do(ctx, p.at[get], Get, &op)
		switch {
		case err != nil:
			return err
		case !ok:
			p.sum.FailedPairs++
		default:
			p.sum.Pairs++
			if op.Missing || op.Value != value {
				p.sum.OldPairs++
			}
		}
	}
	return nil
}

// pairKeys is how many keys a worker uses at a time.
const pairKeys = 16

// do executes an operation at an endpoint.
func (p *pairWorker) do(ctx context.Context, w *worker, verb Verb, op *history.Op) (ok bool, err error) {
	w.requests = w.requests[:0]
	w.ready(1, 0)
	r := &w.requests[0]
	r.verb, r.value = verb, op.Value
	r.op.Kind, r.op.Key, r.op.Value = op.Kind, op.Key, op.Value
	good := w.batch(ctx)
	err = w.settle()
	*op = r.op
	if !good && !w.reconnect(ctx) {
		return false, err
	}
	return op.OK, err
}

// startPairs starts the workers of pairs. The function that it returns waits until they have ended.
func (r *run) startPairs(do func(*pairWorker) error) (wait func() error) {
	var wg sync.WaitGroup
	errs := make([]error, len(r.pairs))
	for i, p := range r.pairs {
		wg.Go(func() { errs[i] = do(p) })
	}
	return func() error {
		wg.Wait()
		if inside := r.meter.result.Inside; inside != nil {
			for _, p := range r.pairs {
				inside.Pairs += p.sum.Pairs
				inside.OldPairs += p.sum.OldPairs
				inside.FailedPairs += p.sum.FailedPairs
			}
		}
		return errors.Join(errs...)
	}
}

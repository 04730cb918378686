package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// Burst compares a chain of dependent puts of one session, each sent after the previous one was acknowledged, with a
// single put. A put is visible when clients in every ring, in the data center that owns its key there, have read it. It
// is complete when CAUSAL WAIT all returns: it is in every ring and out of all caches, and the writer knows.
type Burst struct {
	Scheme string `json:"scheme"`
	DC     string `json:"dataCenter"`
	Puts   int    `json:"puts"`
	// Unfinished is set if the burst did not finish in time; then only the single put has figures.
	Unfinished bool `json:"unfinished,omitempty"`

	SingleVisibleMs  summary `json:"singleVisibleMs"`
	SingleCompleteMs summary `json:"singleCompleteMs"`
	// Of the last put, since the first one was sent.
	VisibleMs  summary `json:"visibleMs"`
	CompleteMs summary `json:"completeMs"`
	// Ratio is the time until the burst is visible divided by that of a single put.
	Ratio float64 `json:"visibleRatio"`
	// AcceptedPerSecond is the rate of acknowledgements, CompletedPerSecond the rate of completion.
	AcceptedPerSecond  summary `json:"acceptedPerSecond"`
	CompletedPerSecond summary `json:"completedPerSecond"`
}

// burstWait bounds a burst.
const burstWait = 3 * time.Minute

// burstSection measures sessions that write as fast as they can on an otherwise idle system.
func (p *paperRun) burstSection() section {
	s := section{name: "burst", title: "A burst of dependent puts", estimate: 45 * time.Second}
	for _, scheme := range burstSchemes {
		s.systems = append(s.systems, systemSpec{scheme: scheme, quiet: true})
	}
	s.measure = func(ctx context.Context) error {
		for _, spec := range s.systems {
			sys, err := p.fleet.running(ctx, spec)
			if err != nil {
				return err
			}
			p.o.progress("  %s: a put, then %d", spec.name(), p.o.Burst)
			b, err := p.burst(ctx, sys)
			if err != nil {
				return fmt.Errorf("%s: %w", spec.name(), err)
			}
			p.res.Bursts = append(p.res.Bursts, b)
		}
		return nil
	}
	return s
}

// burstRun is what one session measured.
type burstRun struct{ accepted, visible, complete time.Duration }

func (p *paperRun) burst(ctx context.Context, s *system) (*Burst, error) {
	single, err := p.sessions(ctx, s, "one", 1)
	if err != nil {
		return nil, err
	}
	puts := float64(p.o.Burst)
	b := &Burst{Scheme: s.spec.scheme.Name, DC: s.sites[0], Puts: p.o.Burst}
	many, err := p.sessions(ctx, s, "many", p.o.Burst)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		many, b.Unfinished, err = nil, true, nil
	}
	if err != nil {
		return nil, err
	}
	visible := func(r burstRun) float64 { return r.visible.Seconds() * 1e3 }
	complete := func(r burstRun) float64 { return r.complete.Seconds() * 1e3 }
	b.SingleVisibleMs, b.SingleCompleteMs = summaryOfRuns(single, visible), summaryOfRuns(single, complete)
	b.VisibleMs, b.CompleteMs = summaryOfRuns(many, visible), summaryOfRuns(many, complete)
	b.Ratio = b.VisibleMs.Mean / max(b.SingleVisibleMs.Mean, 1e-9)
	b.AcceptedPerSecond = summaryOfRuns(many, func(r burstRun) float64 {
		return puts / max(r.accepted.Seconds(), 1e-9)
	})
	b.CompletedPerSecond = summaryOfRuns(many, func(r burstRun) float64 {
		return puts / max(r.complete.Seconds(), 1e-9)
	})
	return b, nil
}

func summaryOfRuns(runs []burstRun, f func(burstRun) float64) summary {
	var values []float64
	for _, r := range runs {
		values = append(values, f(r))
	}
	return summaryOf(values)
}

// sessions runs one session per round, all concurrently: they wait for the WAN, not for each other.
func (p *paperRun) sessions(ctx context.Context, s *system, name string, puts int) ([]burstRun, error) {
	ctx, cancel := context.WithTimeout(ctx, burstWait)
	defer cancel()
	runs := make([]burstRun, p.o.Rounds)
	return runs, forEachConcurrently(len(runs), func(i int) (err error) {
		runs[i], err = p.session(ctx, s, prefixed(fmt.Sprintf("burst:%s:%d:", name, i), puts, p.o.ValueBytes))
		return err
	})
}

// session writes all records in the first data center, one after the other, and waits for the last one.
func (p *paperRun) session(ctx context.Context, s *system, r records) (burstRun, error) {
	var run burstRun
	c, err := dial(s.addrs[0])
	if err != nil {
		return run, err
	}
	defer c.Close()
	begun := time.Now()
	ctx, cancel := context.WithCancel(ctx) // a failed session must release its readers
	defer cancel()
	var seen sync.WaitGroup
	seenErrs, seenAt := make([]error, len(p.fleet.base.Rings)), make([]time.Duration, len(p.fleet.base.Rings))
	last := string(r.key(nil, r.count-1))
	for ring := range p.fleet.base.Rings {
		owner := p.fleet.base.Owner(topology.RingID(ring), topology.SlotOf(last))
		seen.Go(func() {
			seenErrs[ring] = awaitKey(ctx, s.addrs[owner.DC], r)
			seenAt[ring] = time.Since(begun)
		})
	}
	err = r.writeInTurn(ctx, c)
	run.accepted = time.Since(begun)
	if err == nil {
		err = awaitComplete(ctx, c)
		run.complete = time.Since(begun)
	}
	if err != nil {
		cancel()
	}
	seen.Wait()
	run.visible = slices.Max(seenAt)
	return run, errors.Join(append(seenErrs, err)...)
}

// writeInTurn writes each record after the previous one was acknowledged.
func (r records) writeInTurn(ctx context.Context, c *conn) error {
	for i := range r.count {
		c.send(r.set, i)
		if err := errors.Join(c.expect(1, isOK), ctx.Err()); err != nil {
			return fmt.Errorf("put %d: %w", i+1, err)
		}
	}
	return nil
}

// pollEvery is how often readers poll for a key, and so the precision of the times until it is visible.
const pollEvery = 5 * time.Millisecond

// awaitKey polls the last key until it exists.
func awaitKey(ctx context.Context, addr string, r records) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		answer, err := c.ask("GET", string(r.key(nil, r.count-1)))
		switch {
		case err != nil:
			return fmt.Errorf("read the last put at %s: %w", addr, err)
		case answer.isValue():
			return nil
		case strings.HasPrefix(answer.line, "-"):
			return fmt.Errorf("read the last put at %s: %s", addr, answer)
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("the last put is not visible at %s: %w", addr, err)
		}
	}
}

// awaitComplete waits until the session's last put is complete.
func awaitComplete(ctx context.Context, c *conn) error {
	for {
		answer, err := c.ask("CAUSAL", "WAIT", "all", "5000")
		if err = errors.Join(err, ctx.Err()); err != nil || answer.line == ":1" {
			return err
		}
		if !strings.HasPrefix(answer.line, ":") {
			return fmt.Errorf("CAUSAL WAIT: %q", answer)
		}
	}
}

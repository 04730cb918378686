package bench

import (
	"context"
	"fmt"
	"time"
)

// backlogPoll is how often the progress of a backlog is looked at.
const backlogPoll = 25 * time.Millisecond

// backlog writes values in the first region while the path is cut, and measures how fast they reach the other one after
// that.
func (p *pair) backlog(ctx context.Context, ceiling float64) error {
	if err := p.path.Cut(); err != nil {
		return err
	}
	cut := time.Now()
	count := max(p.o.BacklogBytes/p.o.ValueBytes, 10)
	if err := failOnWrongReplies(p.driver.burst(ctx,
		burst{workload: workload{records: prefixed("backlog:", count, p.o.ValueBytes), pipeline: 16}})); err != nil {
		return fmt.Errorf("write a backlog: %w", err)
	}
	if err := p.path.Heal(); err != nil {
		return err
	}
	healed := time.Now()
	var tenth, nineTenths time.Time
	var atTenth, atNineTenths float64
	for progress := healed; ; {
		left, err := p.parts.partMetric(ctx, "coordinator", "causalstore_coordinator_incomplete_writes")
		if err != nil {
			return err
		}
		now, done := time.Now(), float64(count)-left
		if tenth.IsZero() && done >= 0.1*float64(count) {
			tenth, atTenth = now, done
		}
		if done <= 0.9*float64(count) || atNineTenths == 0 {
			nineTenths, atNineTenths = now, done
		}
		if left == 0 {
			break
		}
		if now.Sub(progress) > 5*time.Minute {
			return fmt.Errorf("%.0f writes of a backlog of %d are not complete after %s", left, count, now.Sub(healed))
		}
		if err := sleep(ctx, backlogPoll); err != nil {
			return err
		}
	}
	p.o.progress("a backlog of %d writes in a cut of %.1f s: a tenth in the other region %.1f s after the heal, nine "+
		"tenths after %.1f s, all after %.1f s", count,
		healed.Sub(cut).Seconds(), tenth.Sub(healed).Seconds(), nineTenths.Sub(healed).Seconds(),
		time.Since(healed).Seconds())
	f, values := p.result, float64(count*p.o.ValueBytes)
	rate := values / time.Since(healed).Seconds()
	f.backlogs, f.shares = append(f.backlogs, rate), append(f.shares, rate/ceiling)
	if took := nineTenths.Sub(tenth); took > 0 && atNineTenths > atTenth {
		rate = (atNineTenths - atTenth) * float64(p.o.ValueBytes) / took.Seconds()
		f.steadyBacklogs, f.steadyShares = append(f.steadyBacklogs, rate), append(f.steadyShares, rate/ceiling)
	}
	return nil
}

// measureHeals cuts the path of all pairs, again and again, for longer each time, and measures when writes cross it
// again.
func measureHeals(ctx context.Context, o *RegionsOptions, pairs []*pair) error {
	for i := range o.Cuts {
		length := o.ShortestCut
		if o.Cuts > 1 {
			length += time.Duration(i) * (o.LongestCut - o.ShortestCut) / time.Duration(o.Cuts-1)
		}
		o.progress("delay %s: cut %d of %d, for %s", pairs[0].delay, i+1, o.Cuts, length)
		err := forEachConcurrently(len(pairs), func(number int) error {
			p := pairs[number]
			took, err := p.heal(ctx, length, fmt.Sprintf("heal:%d", i))
			if err != nil {
				return fmt.Errorf("%s: %w", p.result.Form, err)
			}
			p.result.HealsMs = append(p.result.HealsMs, took.Seconds()*1e3)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// heal cuts the path, writes a key in each region, and returns how long after the cut both are seen in the other one.
func (p *pair) heal(ctx context.Context, length time.Duration, key string) (time.Duration, error) {
	if err := p.path.Cut(); err != nil {
		return 0, err
	}
	conns := map[string]*conn{}
	for _, dc := range pairDCs {
		c, err := dial(p.parts.sidecar(dc))
		if err != nil {
			return 0, err
		}
		defer c.Close()
		conns[dc] = c
		if answer, err := c.ask("SET", key+dc, "1"); err != nil || !isOK(answer) {
			return 0, fmt.Errorf("write in a cut: %q, %w", answer, err)
		}
	}
	if err := sleep(ctx, length); err != nil {
		return 0, err
	}
	if err := p.path.Heal(); err != nil {
		return 0, err
	}
	healed := time.Now()
	for _, dc := range pairDCs {
		for {
			answer, err := conns[dc].ask("GET", key+otherDC(dc))
			if err != nil {
				return 0, fmt.Errorf("read after a cut: %w", err)
			}
			if numberIn(answer) == 1 {
				break
			}
			if time.Since(healed) > time.Minute {
				return 0, fmt.Errorf("a write of %s is not seen in %s a minute after a cut", otherDC(dc), dc)
			}
			if err := sleep(ctx, 2*time.Millisecond); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(healed), nil
}

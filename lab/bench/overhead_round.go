package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// burst loads one side. It fails if there are no replies, or too many wrong ones.
func (r *overheadRun) burst(ctx context.Context, side int, b burst) (burstResult, error) {
	l, err := r.sides[side].burst(ctx, b)
	if err == nil && l.Ops == 0 {
		err = errors.New("no operation finished")
	}
	if err == nil && l.Wrong > l.Ops/10 {
		err = fmt.Errorf("%d of %d replies are wrong, such as %q", l.Wrong, l.Ops, l.Example)
	}
	return l, err
}

// compare measures a case once on each side.
func (r *overheadRun) compare(ctx context.Context, c *Case) error {
	if err := r.measureDirect(ctx, c); err != nil {
		return fmt.Errorf("directly: %w", err)
	}
	if err := r.measureThrough(ctx, c); err != nil {
		return fmt.Errorf("through the data plane: %w", err)
	}
	return nil
}

// warmUp runs the case briefly, so that all rounds start with full caches and valid leases.
func (r *overheadRun) warmUp(ctx context.Context, side int, c *Case) error {
	b := c.load
	if c.warm {
		b.duration, b.pipeline = 0, 16
		if _, err := r.burst(ctx, side, b); err != nil {
			return err
		}
	}
	b = c.load
	b.duration = max(c.load.duration/10, 20*time.Millisecond)
	_, err := r.burst(ctx, side, b)
	return err
}

// watch runs the burst of a case on one side, and notes what all other processes of the machine used meanwhile.
func (r *overheadRun) watch(ctx context.Context, side int, c *Case) (burstResult, error) {
	used := func() (busy, ours time.Duration, err error) {
		busy, err1 := busyTime()
		redis, err2 := cpuTime(r.redis.pid())
		plane, storage, err3 := r.planeCPU()
		return busy, redis + plane + storage + ownCPU(), errors.Join(err1, err2, err3)
	}
	busy, ours, err := used()
	if err != nil {
		return burstResult{}, err
	}
	l, err := r.burst(ctx, side, c.load)
	if err != nil {
		return l, err
	}
	busyAfter, oursAfter, err := used()
	c.others += max(0, busyAfter-busy-(oursAfter-ours))
	c.watched += l.Elapsed
	return l, err
}

func (r *overheadRun) measureDirect(ctx context.Context, c *Case) error {
	if err := r.warmUp(ctx, direct, c); err != nil {
		return err
	}
	before, err := cpuTime(r.redis.pid())
	if err != nil {
		return err
	}
	l, err := r.watch(ctx, direct, c)
	if err != nil {
		return err
	}
	after, err := cpuTime(r.redis.pid())
	c.Direct.add(l, after-before)
	return err
}

func (r *overheadRun) measureThrough(ctx context.Context, c *Case) error {
	if err := r.warmUp(ctx, through, c); err != nil {
		return err
	}
	stats, err := r.plane.state(ctx)
	if err != nil {
		return err
	}
	allocated, err := r.plane.allocations(ctx)
	if err != nil {
		return err
	}
	plane, storage, err := r.planeCPU()
	if err != nil {
		return err
	}
	own := ownCPU()
	l, err := r.watch(ctx, through, c)
	if err != nil {
		return err
	}
	c.generator += ownCPU() - own
	backlog, took, err := r.plane.drain(ctx)
	if err != nil {
		return err
	}
	// Writes also cost something after their acknowledgement: CPU time and allocations are read after the drain.
	planeAfter, storageAfter, err := r.planeCPU()
	if err != nil {
		return err
	}
	allocatedAfter, err := r.plane.allocations(ctx)
	if err != nil {
		return err
	}
	c.Through.add(l, planeAfter-plane+storageAfter-storage)
	c.storage += storageAfter - storage
	a := allocatedAfter.since(allocated)
	c.allocated.Objects, c.allocated.Bytes = c.allocated.Objects+a.Objects, c.allocated.Bytes+a.Bytes
	c.Collections += a.Collections
	c.backlogs, c.drains = append(c.backlogs, float64(backlog)), append(c.drains, float64(took.Microseconds())/1e3)
	statsAfter, err := r.plane.state(ctx)
	if err != nil {
		return err
	}
	s, e := stats.DataCenters[0].Sidecar, statsAfter.DataCenters[0].Sidecar
	c.gets, c.hits = c.gets+e.Gets-s.Gets, c.hits+e.CacheHits-s.CacheHits
	return nil
}

// planeCPU returns the CPU time of the data plane and of the storage below it.
func (r *overheadRun) planeCPU() (plane, storage time.Duration, err error) {
	plane, err = cpuTime(r.plane.pid())
	for _, pid := range r.storage {
		cpu, e := cpuTime(pid)
		storage, err = storage+cpu, errors.Join(err, e)
	}
	return plane, storage, err
}

// profile takes a CPU profile of the data plane under the load of a case. Nothing is measured meanwhile.
func (r *overheadRun) profile(ctx context.Context, c *Case) error {
	if err := r.warmUp(ctx, through, c); err != nil {
		return err
	}
	b := c.load
	b.duration = r.o.Profile + 100*time.Millisecond
	failed := make(chan error, 1)
	go func() {
		_, err := r.burst(ctx, through, b)
		failed <- err
	}()
	raw, err := r.plane.profile(ctx, r.o.Profile)
	if err = errors.Join(err, <-failed); err != nil {
		return err
	}
	stacks, err := keepProfile(raw, r.o.Profiles, fmt.Sprintf("%s-%d", c.Command, c.Pipeline))
	if err != nil {
		return err
	}
	c.Layers, c.Leaves, _ = shares(stacks, 12)
	_, _, err = r.plane.drain(ctx)
	return err
}

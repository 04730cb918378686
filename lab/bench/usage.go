package bench

import (
	"context"
	"errors"
	"slices"
	"time"
)

// usage is what a system has used during some stretches of load. What writes cost after their acknowledgement counts
// too.
type usage struct {
	cpu              map[string]time.Duration // by kind of process
	allocated        map[string]allocations
	readFrom         map[string]float64 // keys, by source
	generator        time.Duration
	backlogs, drains []float64
}

func newUsage() usage {
	return usage{cpu: map[string]time.Duration{}, allocated: map[string]allocations{}, readFrom: map[string]float64{}}
}

// reading is what a system has used since its start.
type reading struct {
	cpu       map[string]time.Duration
	allocated map[string]allocations
	readFrom  map[string]float64
}

// measure adds what a load takes until its writes are complete.
func (u *usage) measure(ctx context.Context, p *processes, load func() error) error {
	var before, after reading
	var err1, err2, err3 error
	before.readFrom, err1 = p.readFrom(ctx)
	before.allocated, err2 = p.allocations(ctx)
	before.cpu, err3 = p.cpu()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	own := ownCPU()
	if err := load(); err != nil {
		return err
	}
	u.generator += ownCPU() - own
	drained, err := p.drain(ctx)
	if err != nil {
		return err
	}
	u.backlogs = append(u.backlogs, drained.backlog)
	u.drains = append(u.drains, float64(drained.took.Microseconds())/1e3)
	after.cpu, err1 = p.cpu()
	after.allocated, err2 = p.allocations(ctx)
	after.readFrom, err3 = p.readFrom(ctx)
	u.add(before, after)
	return errors.Join(err1, err2, err3)
}

func (u *usage) add(before, after reading) {
	for kind, cpu := range after.cpu {
		u.cpu[kind] += cpu - before.cpu[kind]
	}
	for kind, a := range after.allocated {
		u.allocated[kind] = u.allocated[kind].plus(a.since(before.allocated[kind]))
	}
	for source, n := range after.readFrom {
		u.readFrom[source] += n - before.readFrom[source]
	}
}

// kinds are the kinds of processes, in the order of tables.
var kinds = slices.Concat([]string{kindStorage, kindLocal, kindEdge}, partNames)

// costs returns the costs per operation of each kind of process.
func (u *usage) costs(ops int64) (costs []ProcessCost) {
	for _, kind := range kinds {
		if cpu, ran := u.cpu[kind]; ran {
			a := u.allocated[kind]
			costs = append(costs, ProcessCost{Process: kind, CPUUs: perOp(float64(cpu.Microseconds()), ops),
				Allocations: perOp(float64(a.Objects), ops), AllocatedBytes: perOp(float64(a.Bytes), ops),
				Collections: a.Collections})
		}
	}
	return costs
}

// machineLoad is the CPU time used so far by the whole machine, and by what is measured with the load generator.
type machineLoad struct {
	at         time.Time
	busy, mine time.Duration
}

// loadOf returns the load of the machine, with the processes of the measurement.
func loadOf(pids []int) (machineLoad, error) {
	m := machineLoad{at: time.Now(), mine: ownCPU()}
	var err error
	if m.busy, err = busyTime(); err != nil {
		return m, err
	}
	for _, pid := range pids {
		used, err := cpuTime(pid)
		if err != nil {
			return m, err
		}
		m.mine += used
	}
	return m, nil
}

// bystanders is what unrelated processes have used of the machine during some stretches.
type bystanders struct{ used, watched time.Duration }

// add adds the stretch between two loads.
func (b *bystanders) add(before, after machineLoad) {
	b.used += after.busy - before.busy - (after.mine - before.mine)
	b.watched += after.at.Sub(before.at)
}

// processors is how many processors they used.
func (b *bystanders) processors() float64 {
	return max(0, b.used.Seconds()) / max(b.watched.Seconds(), 1e-9)
}

// sharesOf divides counts by their sum; nil if that is 0.
func sharesOf(counts map[string]float64) map[string]float64 {
	sum := 0.0
	for _, n := range counts {
		sum += n
	}
	if sum == 0 {
		return nil
	}
	shares := map[string]float64{}
	for name, n := range counts {
		shares[name] = n / sum
	}
	return shares
}

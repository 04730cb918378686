// Package groups simulates a replicated group (PROTOCOL GRP) in virtual time, with faults, and checks what its
// users saw.
//
// A world holds hosts with volumes, a network, a register, and users who append records with unique contents and
// collect the oldest. All randomness comes from one seed and everything runs in one goroutine, so a seed determines the
// schedule.
//
// What is checked: a record that was committed once is at its position in the log of every primary that serves later,
// and never another one; a primary that holds a lease is the only one that serves; a hand-over leaves nothing
// undecided; after the faults the group is whole and serves, or says why it does not. If all volumes of the
// configuration are lost, nobody serves.
package groups

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// Outcome is the result of one seed.
type Outcome struct {
	// Appends counts the records that were appended, Commits those that were committed.
	Appends, Commits int
	Steps            int
	Messages         uint64
	Faults           [NumFaults]int
	Losses           int // groups that have lost all volumes, and say so
	Violations       []string
}

// world is one deployment of one group.
type world struct {
	plan
	now      int64
	events   queue
	seq      uint64
	rng      *rand.Rand
	hosts    []*host
	register registry
	links    map[pair]*link
	volumes  uint64 // the last id that was given
	records  int
	faulty   bool // faults are injected
	checkers
	Outcome
	broken causal.Mutations
}

// Run runs a seed.
func Run(seed uint64, broken causal.Mutations) Outcome {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), broken: broken, links: map[pair]*link{}, faulty: true}
	w.plan.draw(w.rng)
	w.checkers.init()
	w.register.init(w)
	for i := range w.plan.hosts {
		h := &host{w: w, name: string(rune('a' + i)), drift: (w.rng.Float64() - 0.5) * 0.018}
		h.disk = w.newDisk()
		w.hosts = append(w.hosts, h)
	}
	for _, h := range w.hosts {
		h.start()
	}
	w.after(w.thinkTime, w.act)
	w.after(w.faultEvery, w.injectFault)
	w.run(w.plan.length)
	w.settle()
	return w.Outcome
}

// event is a step at a virtual time. Events at one time run in the order in which they were scheduled.
type event struct {
	at  int64
	seq uint64
	do  func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// after schedules a step.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + int64(d), w.seq, do})
}

// run advances the world by d.
func (w *world) run(d time.Duration) {
	end := w.now + int64(d)
	for len(w.events) > 0 && w.events[0].at <= end && len(w.Violations) == 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		w.Steps++
		e.do()
	}
	w.now = end
}

// upTo draws a duration below d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d) + 1)) }

func (w *world) violate(format string, args ...any) {
	w.Violations = append(w.Violations, fmt.Sprintf("at %.3f s: ", float64(w.now)/1e9)+fmt.Sprintf(format, args...))
}

// desiredNames are those of the hosts that should be members, the preferred primary first.
func (w *world) desiredNames() group.Desired {
	var d group.Desired
	for i := range w.members {
		d.Names = append(d.Names, w.hosts[(w.preferred+i)%len(w.hosts)].name)
	}
	return d
}

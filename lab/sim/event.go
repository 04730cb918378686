package sim

import "github.com/causalstore/causalstore/sidecar/causal"

// event is a step of the world at a virtual time. Events at the same time run in the order in which they were
// scheduled, so that a seed determines the schedule.
type event struct {
	at  int64
	seq uint64
	do  func()    // the step, or
	msg *delivery // the arrival of a message
}

// delivery is a message in flight.
type delivery struct {
	msg  causal.Message
	to   *node  // nil: whoever serves the node that it is for, when it arrives
	life uint64 // of the receiver when the message was sent: its connections end with it
}

// queue is a binary heap of events.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.less(i, parent) {
			break
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *queue) pop() event {
	top := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap[last] = event{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && q.less(child+1, child) {
			child++
		}
		if !q.less(child, i) {
			break
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
	return top
}

func (q *queue) less(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

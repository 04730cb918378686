package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A session sends a put again when its coordinator was away before it answered, or does not answer. So the coordinator
// knows, across restarts, which puts it has accepted whose answer may not have arrived (PROTOCOL PUT-11).
// While the log holds a write, it says so; later the checkpoints do, for a while. What they leave out is below
// Forgotten.

const (
	// answerKept is how long after a put its answer can be asked for once the put is complete: twice as long as a put
	// may take by default.
	answerKept = 10 * time.Second
	// maxAnswers bounds the answers in a checkpoint, to about 200 KiB, and 700 KiB more if all are of operations.
	maxAnswers = 8192
)

// Answer is what a session is told that sends a put again: the put was accepted, with a timestamp.
type Answer struct {
	Sidecar      topology.Node
	Session, Seq uint64
	HLC          causal.HLC
	// Outcome is what an operation has written; nil: it is not kept here, or the put was no operation.
	Outcome *Outcome
}

// sessionTail is the puts of a session that may be sent again, and the newest one: the session's next put is ordered
// after it.
//
// Invariant: accepted is in ascending order, of the numbers and of the timestamps, since no put is accepted after a
// later one.
type sessionTail struct {
	seq        uint64 // the greatest that was seen
	unanswered uint64 // the session has the answers of all below
	refused    uint64 // the newest that was refused, since another coordinator may take it; 0: none
	accepted   []acceptedPut
	last       causal.Version
	slot       topology.Slot
	// executed is the number of the last operation that was executed. One that follows another is executed only then.
	executed uint64
	// foreign is the greatest HLC of a write of another origin in the past of last.
	foreign causal.HLC
	usedAt  int64
	holder  causal.Holder
}

type acceptedPut struct {
	seq uint64
	hlc causal.HLC
	// outcome is what an operation has written, or may be if the log has restored the put; nil: it is not kept here.
	outcome *Outcome
}

// maxKeptOutcome bounds the values that are kept as the outcomes of operations, in bytes. Greater ones are found as
// long as they are incomplete, or the newest of their key.
const maxKeptOutcome = 128

// Outcome is what an operation has written, for a copy of it that is sent again when the write is complete.
type Outcome struct {
	Value causal.Value
	Past  causal.HLC // the greatest HLC of a write of another origin in the past of the write
}

// outcomeOf returns the outcome of an operation that has written w; nil if it is too great to be kept.
func outcomeOf(w *write) *Outcome {
	if len(w.rec.Value.Data) > maxKeptOutcome {
		return nil
	}
	return &Outcome{w.rec.Value, w.foreignPast}
}

// at returns the index of a put in accepted; -1: it is not there.
func (t *sessionTail) at(seq uint64) int {
	for i := len(t.accepted) - 1; i >= 0; i-- {
		if t.accepted[i].seq == seq {
			return i
		}
	}
	return -1
}

// find returns what is known of a put that was accepted.
func (t *sessionTail) find(seq uint64) (a acceptedPut, found bool) {
	if i := t.at(seq); i >= 0 {
		return t.accepted[i], true
	}
	return a, false
}

// confirm drops the puts below a number: the session has their answers.
func (t *sessionTail) confirm(unanswered uint64) {
	t.unanswered = max(t.unanswered, unanswered)
	n := 0
	for n < len(t.accepted) && t.accepted[n].seq < t.unanswered {
		n++
	}
	t.drop(n)
}

// forget drops the puts up to a timestamp.
func (t *sessionTail) forget(upTo causal.HLC) {
	n := 0
	for n < len(t.accepted) && t.accepted[n].hlc <= upTo {
		n++
	}
	t.drop(n)
}

func (t *sessionTail) drop(n int) {
	if n > 0 {
		t.accepted = slices.Delete(t.accepted, 0, n)
	}
}

// noteAccepted notes a put that was accepted.
func (t *sessionTail) noteAccepted(seq uint64, hlc causal.HLC, o *Outcome) {
	t.seq = max(t.seq, seq)
	t.accepted = append(t.accepted, acceptedPut{seq, hlc, o})
}

// restoreAnswer notes a put of which the log or a checkpoint says that it was accepted, if the session may ask for it.
// Puts are restored in the order of their timestamps, but those of the checkpoint may be in the log as well.
func (b *buffer) restoreAnswer(now causal.Now, a Answer, unanswered uint64) {
	t := b.restoredSession(now, sessionKey{a.Sidecar, a.Session})
	t.confirm(unanswered)
	if a.Seq >= t.unanswered && a.Seq > t.seq {
		t.noteAccepted(a.Seq, a.HLC, a.Outcome)
	} else if i := t.at(a.Seq); i >= 0 && t.accepted[i].outcome == nil {
		t.accepted[i].outcome = a.Outcome // the checkpoint is of an earlier version, which has none
	}
}

// answerAgain answers a put that was accepted before: at once, or when it is durable.
func (c *Coordinator) answerAgain(now causal.Now, from topology.Node, p *causal.Put, a acceptedPut) {
	w := c.incomplete[a.hlc]
	if w != nil && !w.durable {
		w.putID = p.ID
		return
	}
	reply := causal.PutReply{ID: p.ID, Session: p.Session, Version: causal.Version{HLC: a.hlc, Origin: c.origin},
		Repeated: true}
	if p.Value.Type == causal.Operation {
		c.answerOutcome(&reply, p.Key, w, a.outcome)
	}
	if m := reply.Message(c.cfg.Self, from); !c.home.leases.owe(now, m) {
		c.Send(m)
	}
}

// isDecidable reports whether a put was certainly not accepted if it is not among the accepted ones: everything that
// was forgotten is older. A put that was sent to this leadership only was not accepted by an earlier one.
func (c *Coordinator) isDecidable(p *causal.Put) bool {
	forgotten := c.forgotten
	if p.Resent {
		forgotten = c.log.pending.Forgotten
	}
	return c.log.isEstablished() && forgotten <= p.Since
}

// collectAnswers returns what a checkpoint says of the puts before it: the log may drop their writes once they are
// complete. It leaves out the oldest, if they are too many, or too old and complete.
func (c *Coordinator) collectAnswers(now causal.Now) []Answer {
	incompleteFrom := causal.NoLimit
	if len(c.writes) > 0 {
		incompleteFrom = c.writes[0].rec.Version.HLC
	}
	if c.cfg.Broken.Has(causal.DedupeTruncated) {
		c.forgetAnswers(incompleteFrom - 1)
		return nil
	}
	var answers []Answer
	for key, t := range c.sessions {
		for _, a := range t.accepted {
			answers = append(answers, Answer{Sidecar: key.sidecar, Session: key.session, Seq: a.seq, HLC: a.hlc,
				Outcome: a.outcome})
		}
	}
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.HLC, b.HLC) })
	n, expired := max(len(answers)-maxAnswers, 0),
		min(causal.HLCAt(now.WallMs-answerKept.Milliseconds()), incompleteFrom)
	for n < len(answers) && answers[n].HLC < expired {
		n++
	}
	if n > 0 {
		last := answers[n-1].HLC
		c.log.pending.Forgotten, c.forgotten = max(c.log.pending.Forgotten, last), max(c.forgotten, last)
		c.forgetAnswers(min(last, incompleteFrom-1)) // the log holds the others: they are still found
	}
	return answers[n:]
}

// forgetAnswers forgets puts, which are complete.
func (c *Coordinator) forgetAnswers(upTo causal.HLC) {
	for _, t := range c.sessions {
		t.forget(upTo)
	}
}

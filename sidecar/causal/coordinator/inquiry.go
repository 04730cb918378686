package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// pastInquiry is what a coordinator with an empty log does before it takes its origin into use (PROTOCOL DISK):
// it asks the middlemen, and the leader of its data center, whether there was a log before. It does nothing else
// meanwhile.
type pastInquiry struct {
	*shared
	active   bool
	askAt    int64
	answered map[topology.Node]bool // middlemen
	above    causal.HLC
	// leaderTerm is the answer of the leader, of another coordinator's inquiry.
	leaderTerm     MembershipTerm
	leaderAnswered bool
	// knownTo are the middlemen that know of writes of this origin. That is no loss if the leader knows that an earlier
	// log has left: what it held is complete.
	knownTo []topology.Node
	// lostTo are the parts that know of a past that the log does not hold. Once there is one, the coordinator never
	// starts.
	lostTo []topology.Node
}

// newLog is what a log begins with of which nothing was found.
type newLog struct {
	// above is the timestamp above which the first write is to be.
	above      causal.HLC
	term       MembershipTerm
	generation uint64
}

const pastQueryInterval = 100 * time.Millisecond

// begin begins to ask.
func (q *pastInquiry) begin() { q.active, q.answered = true, map[topology.Node]bool{} }

// unanswered returns the parts that have not answered yet.
func (q *pastInquiry) unanswered() (nodes []topology.Node) {
	if !q.active {
		return nil
	}
	if !q.isLeader() && !q.leaderAnswered {
		nodes = append(nodes, q.cfg.Topology.Leader(q.cfg.Self.DC))
	}
	for n := range q.middlemen() {
		if !q.answered[n] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// tick repeats the questions that are not answered. Like every step, it returns the log to begin with once it is sure
// that there was none before.
func (q *pastInquiry) tick(now causal.Now) (log newLog, done bool) {
	if !q.active || len(q.lostTo) > 0 || now.Mono < q.askAt {
		return log, false
	}
	q.askAt = now.Mono + int64(pastQueryInterval)
	for _, n := range q.unanswered() {
		if n.Part == topology.Coordinator {
			q.Send(causal.Term{ID: q.cfg.Incarnation, New: true}.Message(q.cfg.Self, n))
		} else {
			q.Send(causal.PastQuery{ID: q.cfg.Incarnation}.Message(q.cfg.Self, n))
		}
	}
	return q.finish(now)
}

// takeReply takes what a middleman knows of this origin.
func (q *pastInquiry) takeReply(now causal.Now, from topology.Node, r causal.PastReply) (log newLog, done bool) {
	if !q.active || r.ID != q.cfg.Incarnation || from.Part != topology.Middleman {
		return log, false
	}
	q.answered[from] = true
	q.above = max(q.above, r.Above)
	if r.HadData && !slices.Contains(q.knownTo, from) {
		q.knownTo = append(q.knownTo, from)
	}
	return q.finish(now)
}

// takeTerm takes which term the leader knows. An odd one is in use: the log that had it is lost. A late answer may have
// the term of the request to join that followed, but not where to start.
func (q *pastInquiry) takeTerm(now causal.Now, from topology.Node, r causal.TermReply) (log newLog, done bool) {
	term := MembershipTerm(r.Term)
	if !q.active || q.isLeader() || r.ID != q.cfg.Incarnation || !term.isReachableFrom(0) {
		return log, false
	}
	q.leaderAnswered, q.leaderTerm = true, term
	if term.IsInUse() {
		q.lostTo = []topology.Node{from}
	}
	return q.finish(now)
}

// finish decides. If the leader knows that an earlier log has left, its writes are complete, so the middlemen need not
// be asked, and what they know is no loss. Hence their word counts only once the leader has spoken.
func (q *pastInquiry) finish(now causal.Now) (log newLog, done bool) {
	hasLeft := q.leaderAnswered && q.leaderTerm > 0 && !q.leaderTerm.IsInUse()
	if !hasLeft && (q.isLeader() || q.leaderAnswered) {
		for _, n := range q.knownTo {
			if !slices.Contains(q.lostTo, n) {
				q.lostTo = append(q.lostTo, n)
			}
		}
	}
	switch {
	case len(q.lostTo) > 0, len(q.unanswered()) > 0 && !hasLeft:
		return log, false
	case q.above.WallMs() > now.WallMs+q.cfg.ClockBoundMs:
		return log, false // nothing could be written above it yet
	}
	q.active = false
	log = newLog{above: q.above, term: q.leaderTerm}
	if hasLeft { // an earlier log was perhaps given up before it left: shards refuse puts of lower generations
		log.generation = uint64(now.WallMs)
	}
	if q.isLeader() {
		log.term = 1 // a leader is always in use
	}
	return log, true
}

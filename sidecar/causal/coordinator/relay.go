package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A leader is believed directly about the origins of its own data center only. What one data center cannot hear
// directly reaches it through another one as signed vectors: a leader signs those of its data center, and the others
// keep the newest of each data center and pass them on as they are (PROTOCOL COO-15).

// Signer signs for the leader of one data center, and verifies what the leaders of others have signed.
type Signer interface {
	// Sign returns the seal of a statement.
	Sign(statement []byte) (seal []byte, err error)
	// Verify returns why it is not certain that the leader of a data center has made a statement, which another leader
	// has sent.
	Verify(of topology.DC, statement, seal []byte, sender topology.Node) error
}

const (
	// missingAfter is how long a leader waits for vectors of another one until it asks the others for them. Leaders
	// send vectors every 500 ms or more often.
	missingAfter = 1500 * time.Millisecond
	// signInterval is the period at which a leader signs its vectors while somebody asks for them; otherwise it is
	// keepInterval, so that every leader has some to pass on when the first one is gone. What may have been lost is
	// sent again after keepInterval.
	signInterval = 500 * time.Millisecond
	keepInterval = 5 * time.Second
	// askOwnFor is how long after its start a leader asks for what it has signed before: others send that every
	// keepInterval.
	askOwnFor = 2 * int64(keepInterval)
	// verifyInterval is the least time between two verifications of what one leader sends about one data center: who
	// sends what is not signed as it should be costs little.
	verifyInterval = 200 * time.Millisecond
)

// relay is what a leader knows of the signed vectors of all data centers. All lists are by data center.
type relay struct {
	topo      *topology.Topology
	self      topology.Node
	signer    Signer // nil: there are no identities, and everything is believed
	broken    causal.Mutations
	startedAt int64
	signedAt  int64    // when vectors of this data center were last signed
	heardAt   []int64  // when its leader has last sent vectors
	asks      []uint64 // what its leader asks for, as in causal.Vectors
	newest    []signedVectors
	verified  *causal.Stability // all that was verified
	tried     [][]int64         // by sender and data center: when something was last verified
	sent      [][]sentVectors   // by receiver and data center
	taken     []uint64          // how often vectors of it were taken from another leader than its own
}

// signedVectors are the newest ones of a data center. The number counts them; 0: there are none.
type signedVectors struct {
	causal.SignedVectors
	number uint64
}

type sentVectors struct {
	number uint64
	at     int64
}

func newRelay(cfg Config, now causal.Now) *relay {
	n := len(cfg.Topology.DCs)
	r := &relay{
		topo: cfg.Topology, self: cfg.Self, signer: cfg.Signer, broken: cfg.Broken, startedAt: now.Mono,
		signedAt: now.Mono - int64(signInterval), heardAt: make([]int64, n), asks: make([]uint64, n),
		newest: make([]signedVectors, n), verified: causal.NewStability(cfg.Topology), tried: make([][]int64, n),
		sent: make([][]sentVectors, n), taken: make([]uint64, n),
	}
	for dc := range n {
		r.heardAt[dc] = now.Mono
		r.tried[dc], r.sent[dc] = make([]int64, n), make([]sentVectors, n)
		for of := range n {
			r.tried[dc][of], r.sent[dc][of].at = now.Mono-int64(verifyInterval), now.Mono-int64(keepInterval)
		}
	}
	return r
}

// noteVectors records that another leader was heard.
func (r *relay) noteVectors(now causal.Now, from topology.DC, v causal.Vectors) {
	r.heardAt[from], r.asks[from] = now.Mono, v.Asks
}

func (r *relay) hears(now causal.Now, dc topology.DC) bool {
	return now.Mono-r.heardAt[dc] < int64(missingAfter)
}

// asksOf returns what to ask a leader for: the vectors of those that are not heard here, and its own if somebody else
// does not hear it. After a start, also those of this data center: an earlier life of this leader has signed what it
// knew of coordinators that are gone now.
func (r *relay) asksOf(now causal.Now, to topology.DC) (asks uint64) {
	for i := range r.topo.DCs {
		switch dc := topology.DC(i); {
		case dc == r.self.DC && now.Mono-r.startedAt < askOwnFor, dc != r.self.DC && !r.hears(now, dc):
			asks |= 1 << dc
		case dc != r.self.DC && dc != to && r.isAskedFor(now, dc, to):
			asks |= 1 << to
		}
	}
	return asks
}

// isAskedFor reports whether a leader asks for the vectors of a data center.
func (r *relay) isAskedFor(now causal.Now, by, of topology.DC) bool {
	return r.hears(now, by) && r.asks[by]&(1<<of) != 0
}

// messages returns the signed vectors that are due to be sent to a leader. Entries are what is known of this data
// center.
func (r *relay) messages(now causal.Now, to topology.DC, entries []causal.VectorEntry) (due []causal.Message) {
	for of := range r.topo.DCs {
		of := topology.DC(of)
		if !r.isDue(now, to, of) || of == r.self.DC && !r.sign(now, entries) {
			continue
		}
		r.sent[to][of] = sentVectors{r.newest[of].number, now.Mono}
		due = append(due, r.newest[of].Message(r.self, r.topo.Leader(to)))
	}
	return due
}

func (r *relay) isDue(now causal.Now, to, of topology.DC) bool {
	s, asked := r.sent[to][of], r.isAskedFor(now, to, of)
	switch {
	case of == r.self.DC && asked:
		return now.Mono-s.at >= int64(signInterval)
	case of == r.self.DC:
		return now.Mono-s.at >= int64(keepInterval)
	case !asked || r.newest[of].number == 0:
		return false
	}
	return s.number != r.newest[of].number || now.Mono-s.at >= int64(keepInterval)
}

// sign makes sure that the newest vectors of this data center are not old, and reports whether there are any.
func (r *relay) sign(now causal.Now, entries []causal.VectorEntry) bool {
	own := &r.newest[r.self.DC]
	if now.Mono-r.signedAt < int64(signInterval) || len(entries) == 0 {
		return own.number > 0
	}
	r.signedAt = now.Mono
	next := causal.SignedVectors{DC: r.self.DC, Entries: entries}
	if r.signer != nil {
		var err error
		if next.Seal, err = r.signer.Sign(next.Statement()); err != nil {
			return false // the signer reports it
		}
	}
	*own = signedVectors{next, own.number + 1}
	return true
}

// take verifies signed vectors, keeps them, and reports whether they may be believed. What costs little comes first:
// what is not news is not verified. Who sends them again, late or in another order, changes nothing, because what is
// true of an origin once is true for ever.
func (r *relay) take(now causal.Now, from topology.Node, v causal.SignedVectors, limit causal.HLC) bool {
	if from != r.topo.Leader(from.DC) || from.DC == r.self.DC || !v.IsBounded(r.topo) ||
		!r.verified.IsNews(v.Entries, limit) {
		return false
	}
	if r.signer != nil && !r.broken.Has(causal.UnverifiedVectors) {
		tried := &r.tried[from.DC][v.DC]
		if now.Mono-*tried < int64(verifyInterval) {
			return false
		}
		*tried = now.Mono
		if r.signer.Verify(v.DC, v.Statement(), v.Seal, from) != nil {
			return false // the signer reports it
		}
	}
	r.verified.Merge(v.Entries, limit)
	if v.DC != r.self.DC { // of this one, what is signed next is newer
		r.newest[v.DC] = signedVectors{v, r.newest[v.DC].number + 1}
	}
	if v.DC != from.DC {
		r.taken[v.DC]++
	}
	return true
}

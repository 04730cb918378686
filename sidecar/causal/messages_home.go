package causal

import "github.com/causalstore/causalstore/topology"

// MaxHomeKeys bounds the keys of a HomeRead.
const MaxHomeKeys = 4096

// HomeRead asks the home of a key, a coordinator of the data center, what it has accepted of the key (PROTOCOL HOM).
type HomeRead struct {
	ID  uint64
	Key string
	// More are further keys. Each is answered by a HomeReply with the next higher ID. What all of them say was so at
	// one time. A record has the version, without the value, that the session is about to be shown, as Shown says it of
	// Key; or none. A home of before reads no versions here: then From of its reply is below it.
	More []Moved
	// Seen is the greatest HLC of a write of this home that the session has seen.
	Seen HLC
	// Shown, if it is written, is a complete write of Key that the session is about to be shown, from elsewhere. Its
	// origin is 0 if the session's sidecar does not say it, which is of a version before.
	Shown Version
	// ForUpdate asks to wait until no write of Key, or of any in More, is under way.
	ForUpdate bool
	// Lease asks for leases on the keys (PROTOCOL HON).
	Lease bool
	// Withdrawn, if it is not 0, is the withdrawn lease on Key that the sidecar uses no more. The message asks nothing
	// then.
	Withdrawn uint64
}

// Message returns r as a message.
func (r HomeRead) Message(from, to topology.Node) Message {
	return bodyMessage(KindHomeRead, from, to, &r)
}

// HomeRead returns the content of a message of KindHomeRead.
func (m *Message) HomeRead() HomeRead { return bodyOf[HomeRead](m) }

// GreatestShown returns the greatest HLC that is about to be shown, of any key.
func (r *HomeRead) GreatestShown() HLC {
	greatest := r.Shown.HLC
	for i := range r.More {
		greatest = max(greatest, r.More[i].Record.Version.HLC)
	}
	return greatest
}

func (r *HomeRead) key() string { return r.Key }

// Visit implements Body.
func (r *HomeRead) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything}, &r.ID)
	v.Text(BodyField{Number: 2, Name: "key", rule: anything}, &r.Key)
	v.Records(BodyField{Number: 3, Name: "more", rule: records}, &r.More)
	v.Time(BodyField{Number: 4, Name: "seen", rule: anything}, &r.Seen)
	v.Time(BodyField{Number: 5, Name: "shown", rule: anything}, &r.Shown.HLC)
	v.Flag(BodyField{Number: 6, Name: "for_update", rule: anything}, &r.ForUpdate)
	visitNumber(v, BodyField{Number: 7, Name: "shown_origin", rule: anything}, &r.Shown.Origin)
	v.Flag(BodyField{Number: 40, Name: "lease", rule: anything}, &r.Lease)
	visitNumber(v, BodyField{Number: 41, Name: "withdrawn", rule: anything}, &r.Withdrawn)
}

// HomeReply answers a HomeRead for one key.
type HomeReply struct {
	ID  uint64
	Key string
	// Record is the newest published write of the key; its version is zero if the home has none: then the key is to be
	// read elsewhere.
	Record Record
	// Complete says that all rings have Record. If not, Incomplete is the HLC of the newest write of the home in it; 0:
	// it is that of Record, as of a register always.
	Complete   bool
	Incomplete HLC
	// Deps are the writes of other origins in the past of Record that are not complete. Past is the greatest HLC of a
	// write of another origin in its past.
	Deps []Dep
	Past HLC
	// From: what is read elsewhere must include everything at or below it.
	From HLC
	// Shown is the newest write of another origin that a client was shown, as long as the home knows it.
	Shown Version
	// Settled: everything at or below it is complete, and no write of the key goes by less. It is 0 from a home of
	// before.
	Settled HLC
	Err     ErrCode
	// Commits says that the home knows HomeCommit.
	Commits bool
	// LeaseMs, if it is not 0, is how long a lease on the key lasts, in ms, and Grant is its id (PROTOCOL HON).
	LeaseMs, Grant uint64
	// Withdrawn, if it is not 0, is the lease on Key that the sidecar is to use no more, as all with lower ids. The
	// message answers nothing then.
	Withdrawn uint64
	// Executes says that the home knows operations, and Locks that it takes part in commits of several homes.
	Executes, Locks bool
	// Merges says that the home accepts values that merge, or will in a moment.
	Merges bool
}

// Message returns r as a message.
func (r HomeReply) Message(from, to topology.Node) Message {
	return bodyMessage(KindHomeReply, from, to, &r)
}

// HomeReply returns the content of a message of KindHomeReply.
func (m *Message) HomeReply() HomeReply { return bodyOf[HomeReply](m) }

// Knows reports whether the home need not be told of a write of another origin that was found elsewhere: it knows it,
// or a newer one; or all that writes of the key go by includes it.
func (r *HomeReply) Knows(v Version) bool {
	if r.Settled == 0 {
		return v.HLC <= r.From
	}
	return v.HLC <= r.Settled || !r.Shown.Less(v)
}

// Includes reports whether a write of the home may be one that it has forgotten.
func (r *HomeReply) Includes(v Version) bool {
	if v.HLC == r.From && r.Shown.HLC == r.From {
		return !r.Shown.Less(v)
	}
	return v.HLC <= r.From
}

func (r *HomeReply) key() string { return r.Key }

func (r *HomeReply) requestID() uint64 { return r.ID }

// Visit implements Body.
func (r *HomeReply) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything}, &r.ID)
	v.Text(BodyField{Number: 2, Name: "key", rule: anything}, &r.Key)
	v.Record(BodyField{Number: 3, Name: "record", rule: readable}, &r.Record)
	v.Flag(BodyField{Number: 4, Name: "complete", rule: anything}, &r.Complete)
	v.Deps(BodyField{Number: 5, Name: "deps", rule: dependencies}, &r.Deps)
	v.Time(BodyField{Number: 6, Name: "past", rule: anything}, &r.Past)
	v.Time(BodyField{Number: 7, Name: "from", rule: anything}, &r.From)
	visitNumber(v, BodyField{Number: 8, Name: "err", rule: knownErr}, &r.Err)
	v.Version(BodyField{Number: 9, Name: "shown", rule: anything}, &r.Shown)
	v.Time(BodyField{Number: 10, Name: "settled", rule: anything}, &r.Settled)
	v.Time(BodyField{Number: 11, Name: "incomplete", rule: anything}, &r.Incomplete)
	visitNumber(v, BodyField{Number: 40, Name: "lease_ms", rule: anything}, &r.LeaseMs)
	visitNumber(v, BodyField{Number: 41, Name: "grant", rule: anything}, &r.Grant)
	visitNumber(v, BodyField{Number: 42, Name: "withdrawn", rule: anything}, &r.Withdrawn)
	v.Flag(BodyField{Number: 60, Name: "commits", rule: anything}, &r.Commits)
	v.Flag(BodyField{Number: 61, Name: "executes", rule: anything}, &r.Executes)
	v.Flag(BodyField{Number: 62, Name: "locks", rule: anything}, &r.Locks)
	v.Flag(BodyField{Number: 63, Name: "merges", rule: anything}, &r.Merges)
}

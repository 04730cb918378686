package causal

import (
	"slices"

	"github.com/causalstore/causalstore/topology"
)

const (
	// MaxCommitKeys bounds the keys of a HomeCommit.
	MaxCommitKeys = MaxHomeKeys
	// MaxCommitBytes bounds what the keys of a HomeCommit count for together, in bytes: the largest value with another
	// key always fits, and the record in the log of the home is no larger than one message.
	MaxCommitBytes = MaxValueBytes + 1<<20
	// commitKeyBytes is what a key of a HomeCommit counts for beside its name and value, in bytes: about what it takes
	// in the buffer of the home.
	commitKeyBytes = 512
)

// HomeCommit asks the home of several keys to accept puts of some of them, all or none, while nothing is newer than
// what was read of those that have a condition (PROTOCOL HOM). It is answered with one PutReply: with the version of
// the last put. Those before it have the HLCs just below, in their order.
type HomeCommit struct {
	// These are as in a Put. A commit has one place in the order of its session's puts.
	ID         uint64
	Session    uint64
	Leadership Leadership
	Seq        uint64
	Unanswered uint64
	Resent     bool
	Since      HLC
	Floor      HLC
	Deps       []Dep
	Local      HLC
	Foreign    HLC
	// Keys are the keys, each once. One at least is put, but by a home that only locks them.
	Keys []CommitKey
	// Lock, if its Number is not 0, says that this is the part of one home in a commit of several, and Step what the
	// home is to do about it (PROTOCOL HOL). Others are the homes that lock keys which they put, but for the decider,
	// in the order in which they do; only the part of the decider names them.
	Lock   LockToken
	Step   CommitStep
	Others []CommitHome
}

// CommitHome is the index of a home that takes part in a commit.
type CommitHome struct{ Index uint64 }

// Visit implements Body.
func (h *CommitHome) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "index", rule: anything}, &h.Index)
}

// CommitStep is what a home is asked to do about its part in a commit.
type CommitStep uint64

// The steps of a commit.
const (
	StepPut    CommitStep = iota // put what is to be put
	StepLock                     // keep the keys from others
	StepUnlock                   // and no more, having put nothing
)

// LockToken names a commit of several homes among those of its session.
type LockToken struct {
	// Number counts the tries of a session to commit at several homes.
	Number uint64
	// Decider is the index of the home that decides, and Leadership what that serves under. It decides under no other.
	Decider    uint64
	Leadership Leadership
}

// CommitKey is a key of a HomeCommit.
type CommitKey struct {
	Key string
	// Record has the value that is put, and the version on condition of which that is done, as Put.If.
	Record Record
	// From is that of the condition, as Put.From.
	From HLC
	// Conditional says that there is a condition.
	Conditional bool
	// ReadOnly says that the key has a condition only.
	ReadOnly bool
}

// Puts returns what c asks to put, and its conditions, as puts.
func (c *HomeCommit) Puts() (puts, conditions []Put) {
	for i := range c.Keys {
		k := &c.Keys[i]
		p := Put{ID: c.ID, Session: c.Session, Leadership: c.Leadership, Seq: c.Seq, Unanswered: c.Unanswered,
			Resent: c.Resent, Since: c.Since, Key: k.Key, Value: k.Record.Value, Floor: c.Floor, Deps: c.Deps,
			Local: c.Local, Foreign: c.Foreign, Conditional: k.Conditional, If: k.Record.Version, From: k.From}
		if k.Conditional {
			conditions = append(conditions, p)
		}
		if !k.ReadOnly {
			puts = append(puts, p)
		}
	}
	return puts, conditions
}

// Writes reports whether c puts any key.
func (c *HomeCommit) Writes() bool {
	return slices.ContainsFunc(c.Keys, func(k CommitKey) bool { return !k.ReadOnly })
}

// CheckCommit returns ErrTooLarge if keys are too many, or too large, for one HomeCommit.
func CheckCommit(keys []CommitKey) ErrCode {
	bytes := 0
	for i := range keys {
		k := &keys[i]
		if CheckPut(k.Key, k.Record.Value, 0) != nil {
			return ErrTooLarge
		}
		bytes += commitKeyBytes + len(k.Key) + k.Record.Value.Size()
	}
	if len(keys) == 0 || len(keys) > MaxCommitKeys || bytes > MaxCommitBytes {
		return ErrTooLarge
	}
	return OK
}

// Message returns c as a message.
func (c HomeCommit) Message(from, to topology.Node) Message {
	return bodyMessage(KindHomeCommit, from, to, &c)
}

// HomeCommit returns the content of a message of KindHomeCommit.
func (m *Message) HomeCommit() HomeCommit { return bodyOf[HomeCommit](m) }

func (c *HomeCommit) key() string {
	if len(c.Keys) == 0 {
		return ""
	}
	return c.Keys[0].Key
}

// Visit implements Body.
func (c *HomeCommit) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything}, &c.ID)
	visitNumber(v, BodyField{Number: 2, Name: "session", rule: anything}, &c.Session)
	visitNumber(v, BodyField{Number: 3, Name: "leadership_epoch", rule: anything}, &c.Leadership.Epoch)
	visitNumber(v, BodyField{Number: 4, Name: "leadership_life", rule: anything}, &c.Leadership.Life)
	visitNumber(v, BodyField{Number: 5, Name: "seq", rule: counter}, &c.Seq)
	visitNumber(v, BodyField{Number: 6, Name: "unanswered", rule: anything}, &c.Unanswered)
	v.Flag(BodyField{Number: 7, Name: "resent", rule: anything}, &c.Resent)
	v.Time(BodyField{Number: 8, Name: "since", rule: anything}, &c.Since)
	v.Time(BodyField{Number: 9, Name: "floor", rule: anything}, &c.Floor)
	v.Deps(BodyField{Number: 10, Name: "deps", rule: dependencies}, &c.Deps)
	v.Time(BodyField{Number: 11, Name: "local", rule: anything}, &c.Local)
	v.Time(BodyField{Number: 12, Name: "foreign", rule: anything}, &c.Foreign)
	visitParts(v, BodyField{Number: 13, Name: "keys", rule: anything}, &c.Keys)
	c.Lock.visit(v, 14)
	visitNumber(v, BodyField{Number: 18, Name: "step", rule: anything}, &c.Step)
	visitParts(v, BodyField{Number: 19, Name: "others", rule: anything}, &c.Others)
}

// visit visits the fields of a token, which are numbered from first on.
func (t *LockToken) visit(v BodyVisitor, first int32) {
	visitNumber(v, BodyField{Number: first, Name: "lock_number", rule: anything}, &t.Number)
	visitNumber(v, BodyField{Number: first + 1, Name: "lock_decider", rule: anything}, &t.Decider)
	visitNumber(v, BodyField{Number: first + 2, Name: "lock_epoch", rule: anything}, &t.Leadership.Epoch)
	visitNumber(v, BodyField{Number: first + 3, Name: "lock_life", rule: anything}, &t.Leadership.Life)
}

// Visit implements Body.
func (k *CommitKey) Visit(v BodyVisitor) {
	v.Text(BodyField{Number: 1, Name: "key", rule: anything}, &k.Key)
	v.Record(BodyField{Number: 2, Name: "record", rule: readable}, &k.Record)
	v.Time(BodyField{Number: 3, Name: "from", rule: anything}, &k.From)
	v.Flag(BodyField{Number: 4, Name: "conditional", rule: anything}, &k.Conditional)
	v.Flag(BodyField{Number: 5, Name: "read_only", rule: anything}, &k.ReadOnly)
}

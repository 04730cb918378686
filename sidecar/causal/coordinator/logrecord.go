package coordinator

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// LogRecord is one record of a coordinator's log: a checkpoint if Checkpoint is set, the writes of a commit if Commit
// is not empty, otherwise a write.
type LogRecord struct {
	Write      LoggedWrite
	Commit     []LoggedWrite
	Checkpoint *Checkpoint
	// Lock says that the writes are a part of a commit of several homes. If it has a Part, there are none yet.
	Lock *LoggedLock
}

// Writes returns the writes of a record that is no checkpoint.
func (r *LogRecord) Writes() []LoggedWrite {
	if len(r.Commit) > 0 {
		return r.Commit
	}
	if r.Lock != nil {
		return nil
	}
	return []LoggedWrite{r.Write}
}

// Logged is a record that the log holds. Indices ascend, with gaps where the log holds something of its own.
type Logged struct {
	Index uint64
	LogRecord
}

// LoggedWrite is an accepted put.
type LoggedWrite struct {
	Key    string
	Record causal.Record
	// Sidecar, Session and Seq name the put. It is answered with this write if it is sent again, also after a restart.
	// Those below Unanswered are not.
	Sidecar    topology.Node
	Session    uint64
	Seq        uint64
	Unanswered uint64
	// Deps are the incomplete writes in its past that are asked for by id.
	Deps []causal.Dep
	// OwnDeps are the writes of this origin that it directly follows; a restart flattens them again.
	OwnDeps []causal.Dep
	// FollowsAll says that all writes before it in the log are in its past.
	FollowsAll bool
	// Salvaged, if it is not 0, is the generation of the log that has salvaged it from shards. No put is answered with
	// it, and it counts only if the next checkpoint is of that generation: otherwise the beginning of that log was
	// interrupted.
	Salvaged uint64
}

// Checkpoint is what a coordinator must not forget.
type Checkpoint struct {
	// Complete: every write of this origin at or below it is complete.
	Complete causal.HLC
	// Answers are those of puts before it that may be sent again, in the order of their timestamps. The log may drop
	// their writes.
	Answers []Answer
	State
}

// State is the part of a checkpoint that only this coordinator decides.
type State struct {
	// Ceiling: nothing above it was published as SV.
	Ceiling causal.HLC
	// Generation counts the logs of this origin that were given up.
	Generation uint64
	// Forgotten: of puts up to here it is not known any more which were accepted.
	Forgotten causal.HLC
	// LostUpTo, if it is not 0: writes at or below it may have been lost with a log that was given up, and SV has not
	// passed all of them.
	LostUpTo causal.HLC
	// Term is the coordinator's own.
	Term MembershipTerm
	// Terms are those of the other coordinators of the data center, as the leader knows them.
	Terms Terms
	// Shards are the marks of all shards that were heard of, by data center and index. The list is never changed in
	// place.
	Shards []causal.ShardMark
	// Reaches are how far the storages of shards had come, by data center and index. The list is never changed in
	// place.
	Reaches []ShardReach
	// Exclusions are those that this coordinator applies.
	Exclusions causal.Exclusions
	// ShardExclusions are the shards that writes are, or were, completed without. The list is never changed in place.
	ShardExclusions []ShardExclusion
	// Leases says that sidecars may have leases of this home (PROTOCOL HON).
	Leases bool
	// Homes says which coordinators of the data center are homes.
	Homes Homes
	// Decisions are those on commits of several homes that not all of these have confirmed. The list is never changed
	// in place.
	Decisions []LoggedDecision
	// Format is up to which format all parts of the deployment are known to read values (PROTOCOL FMT).
	Format causal.Format
}

// Homes says which coordinators of a data center are homes: the first Count (PROTOCOL HOC).
type Homes struct {
	Number uint64 // of the change that made it so
	Count  uint64 // 0: none of them, or it is not known
	// Next is the number of homes after a change that was not decided yet; 0: there is none. The slots that this
	// coordinator would lose then are given up already.
	Next uint64
	// UpTo is above everything that homes had accepted, or had heard that clients were shown, before the change.
	UpTo causal.HLC
}

// logFormat is the version of the encoding of a LogRecord. A reader refuses every other one.
const logFormat = 6

const (
	recordWrite byte = iota + 1
	recordCheckpoint
	recordCheckpointOfLoss  // with LostUpTo
	recordCheckpointOfReach // with LostUpTo, and how far the storages of shards had come
	recordTypedWrite        // of a value that is no register: the type follows
	recordFollowingWrite    // with FollowsAll; the type follows
	recordCommit            // of several writes, each with FollowsAll and the type before it
	// recordCheckpointOfOutcomes is recordCheckpointOfReach, with the outcomes of answers.
	recordCheckpointOfOutcomes
	recordLock       // of the part of a commit of several homes, of which nothing is put yet
	recordLockedPart // recordCommit, after the commit of which it is a part
)

// Added to the kind of a checkpoint: recordOfFormat if it has a Format, recordOfLeases if it has Leases, recordOfHomes
// if it has Homes, and recordOfDecisions if it has Decisions.
const (
	recordOfFormat    byte = 1 << 7
	recordOfLeases    byte = 1 << 6
	recordOfHomes     byte = 1 << 5
	recordOfDecisions byte = 1 << 4
)

// AppendTo appends the encoding of r to dst: a byte for the format, a byte for the kind, then the fields in the order
// of their declaration. LostUpTo, Reaches, the outcomes of answers and Homes are last, and there are kinds of
// checkpoints with and without them. There is also a kind for writes of values that are no registers, which begins with
// the type. HLCs take eight bytes, big-endian; other numbers are varints; strings and lists start with their length.
func (r *LogRecord) AppendTo(dst []byte) []byte {
	if c := r.Checkpoint; c != nil {
		kind := recordCheckpoint
		if slices.ContainsFunc(c.Answers, func(a Answer) bool { return a.Outcome != nil }) {
			kind = recordCheckpointOfOutcomes
		} else if len(c.Reaches) > 0 {
			kind = recordCheckpointOfReach
		} else if c.LostUpTo != 0 {
			kind = recordCheckpointOfLoss
		}
		hasHomes := c.Homes != (Homes{})
		dst = append(dst, logFormat,
			kind|byte(boolBit(c.Leases))*recordOfLeases|byte(boolBit(hasHomes))*recordOfHomes|
				byte(boolBit(len(c.Decisions) > 0))*recordOfDecisions|
				byte(boolBit(c.Format != 0))*recordOfFormat)
		dst = binary.AppendUvarint(appendHLC(dst, c.Complete), uint64(len(c.Answers)))
		for _, a := range c.Answers {
			dst = appendHLC(appendPutName(dst, a.Sidecar, a.Session, a.Seq), a.HLC)
		}
		dst = appendHLC(binary.AppendUvarint(appendHLC(dst, c.Ceiling), c.Generation), c.Forgotten)
		dst = binary.AppendUvarint(dst, uint64(c.Term))
		dst = binary.AppendUvarint(dst, uint64(len(c.Terms)))
		for _, t := range c.Terms {
			dst = binary.AppendUvarint(dst, uint64(t))
		}
		dst = binary.AppendUvarint(dst, uint64(len(c.Shards)))
		for _, m := range c.Shards {
			for _, n := range [...]uint64{uint64(m.DC), m.Index, m.Incarnation, boolBit(m.HasData), m.Lost} {
				dst = binary.AppendUvarint(dst, n)
			}
		}
		exclusions := c.Exclusions.Encode()
		dst = append(binary.AppendUvarint(dst, uint64(len(exclusions))), exclusions...)
		dst = binary.AppendUvarint(dst, uint64(len(c.ShardExclusions)))
		for _, x := range c.ShardExclusions {
			for _, n := range [...]uint64{uint64(x.Shard.DC), x.Shard.Index, uint64(x.Excluded), uint64(x.Rejoined)} {
				dst = binary.AppendUvarint(dst, n)
			}
		}
		if kind != recordCheckpoint {
			dst = appendHLC(dst, c.LostUpTo)
		}
		if kind == recordCheckpointOfReach || kind == recordCheckpointOfOutcomes {
			dst = appendReaches(dst, c.Reaches)
		}
		if kind == recordCheckpointOfOutcomes {
			dst = appendOutcomes(dst, c.Answers)
		}
		if hasHomes {
			for _, n := range [...]uint64{c.Homes.Number, c.Homes.Count, c.Homes.Next, uint64(c.Homes.UpTo)} {
				dst = binary.AppendUvarint(dst, n)
			}
		}
		if c.Format != 0 {
			dst = binary.AppendUvarint(dst, uint64(c.Format))
		}
		return appendDecisions(dst, c.Decisions)
	}
	if r.Lock != nil && r.Lock.Part != nil {
		return appendLock(append(dst, logFormat, recordLock), r.Lock)
	}
	if len(r.Commit) > 0 {
		if r.Lock == nil {
			dst = append(dst, logFormat, recordCommit)
		} else {
			dst = append(dst, logFormat, recordLockedPart)
			dst = appendHomes(appendLockName(dst, &r.Lock.Name), r.Lock.Others)
		}
		dst = binary.AppendUvarint(dst, uint64(len(r.Commit)))
		for i := range r.Commit {
			w := &r.Commit[i]
			dst = append(dst, byte(boolBit(w.FollowsAll)), byte(w.Record.Value.Type))
			dst = appendWrite(dst, w)
		}
		return dst
	}
	w := &r.Write
	if w.FollowsAll {
		dst = append(dst, logFormat, recordFollowingWrite, byte(w.Record.Value.Type))
	} else if w.Record.Value.Merges() {
		dst = append(dst, logFormat, recordTypedWrite, byte(w.Record.Value.Type))
	} else {
		dst = append(dst, logFormat, recordWrite)
	}
	return appendWrite(dst, w)
}

// What appendOutcomes says of an answer.
const (
	noOutcome byte = iota
	registerOutcome
	typedOutcome // of a value that is no register: the type follows
)

// appendOutcomes appends the outcomes that answers have: of each answer whether it has one, and then that.
func appendOutcomes(dst []byte, answers []Answer) []byte {
	for i := range answers {
		o := answers[i].Outcome
		switch {
		case o == nil:
			dst = append(dst, noOutcome)
			continue
		case o.Value.Merges():
			dst = append(dst, typedOutcome, byte(o.Value.Type))
		default:
			dst = append(dst, registerOutcome)
		}
		dst = appendHLC(appendValue(dst, &o.Value), o.Past)
	}
	return dst
}

// appendValue appends a value, but for its type.
func appendValue(dst []byte, v *causal.Value) []byte {
	dst = binary.AppendVarint(append(dst, byte(boolBit(v.Tombstone))), v.ExpireAtMs)
	return append(binary.AppendUvarint(dst, uint64(len(v.Data))), v.Data...)
}

// appendWrite appends the fields of a write, but for what the kind of the record says.
func appendWrite(dst []byte, w *LoggedWrite) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(w.Key))), w.Key...)
	dst = appendVersion(dst, w.Record.Version)
	dst = appendValue(dst, &w.Record.Value)
	dst = binary.AppendUvarint(appendPutName(dst, w.Sidecar, w.Session, w.Seq), w.Seq-w.Unanswered)
	return binary.AppendUvarint(appendDeps(appendDeps(dst, w.Deps), w.OwnDeps), w.Salvaged)
}

func appendPutName(dst []byte, sidecar topology.Node, session, seq uint64) []byte {
	dst = append(dst, byte(sidecar.Part))
	for _, n := range [...]uint64{uint64(sidecar.DC), sidecar.Index, session, seq} {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// SizeHint returns a size that the encoding mostly does not exceed, in bytes.
func (r *LogRecord) SizeHint() int {
	const fixed, perShard = 96, 32
	n := fixed
	if r.Checkpoint != nil {
		return n + perShard*(len(r.Checkpoint.Shards)+len(r.Checkpoint.Reaches))
	}
	if r.Lock != nil && r.Lock.Part != nil {
		n += fixed + sizeOfPart(r.Lock.Part)
	}
	for i := range r.Commit {
		n += fixed + r.Commit[i].size()
	}
	return n + r.Write.size()
}

// size is about what the key, the value and the dependencies take, in bytes.
func (w *LoggedWrite) size() int {
	const perDep = 16
	return len(w.Key) + len(w.Record.Value.Data) + perDep*(len(w.Deps)+len(w.OwnDeps))
}

func boolBit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func appendHLC(dst []byte, h causal.HLC) []byte { return binary.BigEndian.AppendUint64(dst, uint64(h)) }

func appendVersion(dst []byte, v causal.Version) []byte {
	return binary.AppendUvarint(appendHLC(dst, v.HLC), uint64(v.Origin))
}

func appendReaches(dst []byte, reaches []ShardReach) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(reaches)))
	for _, r := range reaches {
		for _, n := range [...]uint64{uint64(r.DC), r.Index, r.Reach.Incarnation, r.Reach.Changes} {
			dst = binary.AppendUvarint(dst, n)
		}
	}
	return dst
}

func appendDeps(dst []byte, deps []causal.Dep) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(deps)))
	for _, d := range deps {
		dst = binary.AppendUvarint(appendVersion(dst, d.Version), uint64(d.Slot))
	}
	return dst
}

var errLogRecord = errors.New("damaged log record")

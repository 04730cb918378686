package coordinator

import (
	"encoding/binary"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// ParseLogRecord decodes one record. The result does not refer to b.
func ParseLogRecord(b []byte) (LogRecord, error) {
	if len(b) < 2 {
		return LogRecord{}, errLogRecord
	}
	if b[0] != logFormat {
		return LogRecord{},
			fmt.Errorf(
				"log record of format %d; this version reads format %d only: start the version that wrote the log, "+
					"and take the coordinator out of its data center with it, which drains the log "+
					"(docs/operations.md, Changing coordinators); then start this version with an empty dataDir",
				b[0], logFormat)
	}
	d := recordReader{causal.NewFieldReader(b[2:])}
	var r LogRecord
	kind := b[1] &^ (recordOfLeases | recordOfHomes | recordOfDecisions | recordOfFormat)
	switch kind {
	case recordWrite:
		r.Write = d.write()
	case recordFollowingWrite:
		valueType := causal.TypeID(d.byte())
		r.Write = d.write()
		r.Write.Record.Value.Type, r.Write.FollowsAll = valueType, true
	case recordTypedWrite:
		valueType := causal.TypeID(d.byte())
		r.Write = d.write()
		if r.Write.Record.Value.Type = valueType; valueType == causal.Register {
			return LogRecord{}, errLogRecord
		}
	case recordCommit:
		if r.Commit = d.commit(); len(r.Commit) == 0 {
			return LogRecord{}, errLogRecord
		}
	case recordCheckpoint, recordCheckpointOfLoss, recordCheckpointOfReach, recordCheckpointOfOutcomes:
		r.Checkpoint = d.checkpoint()
		r.Checkpoint.Leases = b[1]&recordOfLeases != 0
		if kind != recordCheckpoint {
			r.Checkpoint.LostUpTo = d.hlc()
		}
		if kind == recordCheckpointOfReach || kind == recordCheckpointOfOutcomes {
			r.Checkpoint.Reaches = d.reaches()
		}
		if kind == recordCheckpointOfOutcomes {
			d.outcomes(r.Checkpoint.Answers)
		}
		if b[1]&recordOfHomes != 0 {
			r.Checkpoint.Homes = Homes{Number: d.Uvarint(), Count: d.Uvarint(), Next: d.Uvarint(),
				UpTo: causal.HLC(d.Uvarint())}
		}
		if b[1]&recordOfFormat != 0 {
			if r.Checkpoint.Format = causal.Format(d.Uvarint()); r.Checkpoint.Format > value.NewestFormat {
				return LogRecord{}, errLaterFormat(r.Checkpoint.Format)
			}
		}
		if b[1]&recordOfDecisions != 0 {
			r.Checkpoint.Decisions = d.decisions()
		}
	case recordLock:
		r.Lock = d.lock()
	case recordLockedPart:
		r.Lock = &LoggedLock{Name: d.lockName(), Others: d.homes()}
		if r.Commit = d.commit(); len(r.Commit) == 0 {
			return LogRecord{}, errLogRecord
		}
	default:
		return LogRecord{}, fmt.Errorf("log record of the unknown kind %d: a later version has written it, and lost "+
			"nothing; start that version, or one after it, with this dataDir", b[1])
	}
	if d.Failed() || d.Left() != 0 || r.Checkpoint == nil && b[1] != kind {
		return LogRecord{}, errLogRecord
	}
	return r, nil
}

func errLaterFormat(f causal.Format) error {
	return fmt.Errorf("the store may have values of format %d, and this version reads formats up to %d: start the "+
		"version that wrote this log, or one after it", f, value.NewestFormat)
}

// recordReader reads the fields of a record.
type recordReader struct{ causal.FieldReader }

func (d *recordReader) byte() byte {
	if b := d.Take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *recordReader) hlc() causal.HLC {
	if b := d.Take(8); b != nil {
		return causal.HLC(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *recordReader) version() causal.Version {
	return causal.Version{HLC: d.hlc(), Origin: topology.Origin(d.Uvarint())}
}

// depMinBytes is the size of the smallest dependency: it bounds how long a list can be.
const depMinBytes = 10

func (d *recordReader) deps() (deps []causal.Dep) {
	for range d.Count(depMinBytes) {
		deps = append(deps, causal.Dep{Version: d.version(), Slot: topology.Slot(d.Uvarint())})
	}
	return deps
}

// reachMinBytes is the size of the smallest ShardReach: it bounds how long a list can be.
const reachMinBytes = 4

func (d *recordReader) reaches() (rs []ShardReach) {
	for range d.Count(reachMinBytes) {
		rs = append(rs, ShardReach{DC: topology.DC(d.Uvarint()), Index: d.Uvarint(),
			Reach: causal.Reach{Incarnation: d.Uvarint(), Changes: d.Uvarint()}})
	}
	return rs
}

// writeMinBytes is the size of the smallest write of a commit: it bounds how long a list can be.
const writeMinBytes = 24

func (d *recordReader) commit() (ws []LoggedWrite) {
	for range d.Count(writeMinBytes) {
		followsAll, valueType := d.byte() != 0, causal.TypeID(d.byte())
		w := d.write()
		w.FollowsAll, w.Record.Value.Type = followsAll, valueType
		ws = append(ws, w)
	}
	return ws
}

func (d *recordReader) write() (w LoggedWrite) {
	w.Key = string(d.Take(d.Uvarint()))
	w.Record.Version = d.version()
	w.Record.Value = d.value()
	w.Sidecar, w.Session, w.Seq = d.putName()
	w.Unanswered = w.Seq - min(d.Uvarint(), w.Seq)
	w.Deps, w.OwnDeps = d.deps(), d.deps()
	w.Salvaged = d.Uvarint()
	return w
}

func (d *recordReader) value() (v causal.Value) {
	v.Tombstone = d.byte() != 0
	v.ExpireAtMs = d.Varint()
	if data := d.Take(d.Uvarint()); len(data) > 0 {
		v.Data = append([]byte(nil), data...)
	}
	return v
}

func (d *recordReader) outcomes(answers []Answer) {
	for i := range answers {
		has, t := d.byte(), causal.Register
		switch has {
		case noOutcome:
			continue
		case registerOutcome:
		case typedOutcome:
			t = causal.TypeID(d.byte())
		default:
			d.Fail()
		}
		o := &Outcome{Value: d.value(), Past: d.hlc()}
		o.Value.Type, answers[i].Outcome = t, o
	}
}

func (d *recordReader) putName() (sidecar topology.Node, session, seq uint64) {
	sidecar.Part = topology.Part(d.byte())
	sidecar.DC = topology.DC(d.Uvarint())
	sidecar.Index = d.Uvarint()
	return sidecar, d.Uvarint(), d.Uvarint()
}

// answerMinBytes is the size of the smallest Answer: it bounds how long a list can be.
const answerMinBytes = 13

func (d *recordReader) checkpoint() *Checkpoint {
	c := &Checkpoint{Complete: d.hlc()}
	for range d.Count(answerMinBytes) {
		var a Answer
		a.Sidecar, a.Session, a.Seq = d.putName()
		a.HLC = d.hlc()
		c.Answers = append(c.Answers, a)
	}
	c.Ceiling, c.Generation, c.Forgotten = d.hlc(), d.Uvarint(), d.hlc()
	c.Term = MembershipTerm(d.Uvarint())
	n := d.Uvarint()
	for i := uint64(0); i < n && !d.Failed(); i++ {
		t := MembershipTerm(d.Uvarint())
		if i < uint64(len(c.Terms)) {
			c.Terms[i] = t
		}
	}
	for n = d.Uvarint(); n > 0 && !d.Failed(); n-- {
		c.Shards = append(c.Shards, causal.ShardMark{DC: topology.DC(d.Uvarint()), Index: d.Uvarint(),
			Incarnation: d.Uvarint(), HasData: d.Uvarint() != 0,
			Lost: d.Uvarint()})
	}
	exclusions, err := causal.ParseExclusions(d.Take(d.Uvarint()))
	if err != nil {
		d.Fail()
	}
	c.Exclusions = exclusions
	for n = d.Uvarint(); n > 0 && !d.Failed(); n-- {
		shard := topology.Node{DC: topology.DC(d.Uvarint()), Part: topology.Middleman, Index: d.Uvarint()}
		c.ShardExclusions = append(c.ShardExclusions,
			ShardExclusion{Shard: shard, Excluded: uint32(d.Uvarint()), Rejoined: uint32(d.Uvarint())})
	}
	return c
}

package coordinator

import (
	"encoding/binary"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// LoggedLock is what a record says of a commit of several homes (PROTOCOL HOL).
type LoggedLock struct {
	Name causal.LockName
	// Part is what this home is to put once that is decided, and keeps the keys of until then. A record that has the
	// writes has no Part. Of Part, the log has what a put needs.
	Part *causal.HomeCommit
	// Others are the homes that put their parts after this one has decided.
	Others []causal.CommitHome
}

func appendLockName(dst []byte, n *causal.LockName) []byte {
	dst = appendPutName(dst, n.Sidecar, n.Session, n.Number)
	for _, x := range [...]uint64{n.Decider, n.Leadership.Epoch, n.Leadership.Life} {
		dst = binary.AppendUvarint(dst, x)
	}
	return dst
}

func (d *recordReader) lockName() (n causal.LockName) {
	n.Sidecar, n.Session, n.Number = d.putName()
	n.Decider = d.Uvarint()
	n.Leadership = causal.Leadership{Epoch: d.Uvarint(), Life: d.Uvarint()}
	return n
}

func appendHomes(dst []byte, homes []causal.CommitHome) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(homes)))
	for _, h := range homes {
		dst = binary.AppendUvarint(dst, h.Index)
	}
	return dst
}

func (d *recordReader) homes() (homes []causal.CommitHome) {
	for range d.Count(1) {
		homes = append(homes, causal.CommitHome{Index: d.Uvarint()})
	}
	return homes
}

func appendLock(dst []byte, l *LoggedLock) []byte {
	p := l.Part
	dst = appendLockName(dst, &l.Name)
	dst = appendDeps(appendHLC(appendHLC(appendHLC(dst, p.Floor), p.Local), p.Foreign), p.Deps)
	dst = binary.AppendUvarint(dst, uint64(len(p.Keys)))
	for i := range p.Keys {
		k := &p.Keys[i]
		dst = append(dst, byte(boolBit(k.Conditional)), byte(boolBit(k.ReadOnly)), byte(k.Record.Value.Type))
		dst = append(binary.AppendUvarint(dst, uint64(len(k.Key))), k.Key...)
		dst = appendValue(appendHLC(appendVersion(dst, k.Record.Version), k.From), &k.Record.Value)
	}
	return dst
}

// lockedKeyMinBytes is the size of the smallest key of a lock: it bounds how long a list can be.
const lockedKeyMinBytes = 24

func (d *recordReader) lock() *LoggedLock {
	l := &LoggedLock{Name: d.lockName(), Part: &causal.HomeCommit{}}
	p := l.Part
	p.Session, p.Lock = l.Name.Session, l.Name.LockToken
	p.Floor, p.Local, p.Foreign, p.Deps = d.hlc(), d.hlc(), d.hlc(), d.deps()
	for range d.Count(lockedKeyMinBytes) {
		k := causal.CommitKey{Conditional: d.byte() != 0, ReadOnly: d.byte() != 0}
		valueType := causal.TypeID(d.byte())
		k.Key = string(d.Take(d.Uvarint()))
		k.Record.Version, k.From = d.version(), d.hlc()
		k.Record.Value = d.value()
		k.Record.Value.Type = valueType
		p.Keys = append(p.Keys, k)
	}
	return l
}

func appendDecisions(dst []byte, ds []LoggedDecision) []byte {
	if len(ds) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(ds)))
	for i := range ds {
		d := &ds[i]
		dst = appendDeps(appendLockName(dst, &d.Name), []causal.Dep{d.Last})
		dst = appendHomes(dst, d.Others)
	}
	return dst
}

// decisionMinBytes is the size of the smallest decision: it bounds how long a list can be.
const decisionMinBytes = 20

func (d *recordReader) decisions() (ds []LoggedDecision) {
	for range d.Count(decisionMinBytes) {
		l := LoggedDecision{Name: d.lockName()}
		for _, last := range d.deps() {
			l.Last = last
		}
		l.Others = d.homes()
		ds = append(ds, l)
	}
	return ds
}

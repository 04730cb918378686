package history

import (
	"fmt"
	"math"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Values that merge, in a data center: its clients find one place there. A read includes what was acknowledged, or
// shown to another client, before it started. An add that was accepted on what was read of the key (Op.Reads) stands
// right behind that: nothing of the data center comes in between, and nothing that others have been shown before it.

// mergingRead is what an operation has read of a key, as the writes that are in it.
type mergingRead struct {
	*access
	end     int64
	parts   map[causal.Version]bool
	certain bool           // all that it has found of other data centers was complete
	add     causal.Version // the add that goes by it; zero: it is only a read
}

// mergingKey is what a history has of a key, as a data center sees it.
type mergingKey struct {
	name       string
	adds       []*access // of the data center, acknowledged, with a version
	replacing  []causal.Version
	isReplaced bool // some write without a version may have replaced anything
	own        map[causal.Version]bool
	reads      []mergingRead
}

// checkMerging judges a key of which the values merge in a data center.
func (r *DataCenterReport) checkMerging(h History, k *keyAccesses, dc string, o DataCenterOptions) {
	m := newMergingKey(h, k, dc)
	r.Visibility.Judged += len(m.reads)
	report := func(text string, ops ...int) {
		r.Exact.add(NotOneRedis, o, shown(k.name)+" in "+dc+": "+text, ops...)
	}
	for i := range m.reads {
		read := &m.reads[i]
		for _, a := range m.adds {
			if (a.end < read.start || !read.add.IsZero() && a.version.Less(read.add)) && m.lacks(read, a.version) {
				report(fmt.Sprintf("%s lacks %s, which comes before it", during(&h[read.op]), during(&h[a.op])),
					a.op, read.op)
				return
			}
		}
		for j := range m.reads {
			if text := m.contradicts(h, &m.reads[j], read); text != "" {
				report(text, m.reads[j].op, read.op)
				return
			}
		}
	}
}

// contradicts returns why a read cannot be, since an earlier one, or one that does not know its add, was.
func (m *mergingKey) contradicts(h History, other, read *mergingRead) string {
	if other == read || other.end >= read.start && (read.add.IsZero() || !m.lacks(other, read.add)) {
		return ""
	}
	for p := range other.parts {
		if (m.own[p] || other.certain) && p != other.add && p != read.add && m.lacks(read, p) {
			return fmt.Sprintf("%s lacks %s, which was shown by %s", during(&h[read.op]), FormatVersion(p),
				during(&h[other.op]))
		}
	}
	return ""
}

// lacks reports whether a read lacks a write, and no newer put or delete explains that.
func (m *mergingKey) lacks(read *mergingRead, v causal.Version) bool {
	if read.parts[v] || read.add == v || m.isReplaced {
		return false
	}
	for _, d := range m.replacing {
		if v.Less(d) && !read.hasBelow(d) || v == d && read.hasAbove(d) {
			return false // of a put, adds that come behind it are what is left
		}
	}
	return true
}

func (r *mergingRead) hasAbove(v causal.Version) bool {
	for p := range r.parts {
		if v.Less(p) {
			return true
		}
	}
	return false
}

func (r *mergingRead) hasBelow(v causal.Version) bool {
	for p := range r.parts {
		if p.Less(v) {
			return true
		}
	}
	return false
}

func newMergingKey(h History, k *keyAccesses, dc string) *mergingKey {
	m := &mergingKey{name: k.name, own: map[causal.Version]bool{}}
	for i := range k.accesses {
		a := &k.accesses[i]
		op := &h[a.op]
		_, writes := a.wrote()
		switch {
		case op.adds(a):
			if a.dc == dc && !a.version.IsZero() {
				m.adds = append(m.adds, a)
				m.own[a.version] = true
			}
			if r := op.readOf(k.name); a.dc == dc && op.OK && r != nil {
				m.addRead(a, *r, true, a.version)
			}
		case writes && a.version.IsZero():
			m.isReplaced = true
		case writes:
			m.replacing = append(m.replacing, a.version)
			m.own[a.version] = m.own[a.version] || a.dc == dc
		case a.dc == dc && op.Kind == Get && op.OK:
			m.addRead(a, Read{Value: op.Value, Version: op.Version, Missing: op.Missing, Parts: op.Parts}, !op.InFlight,
				causal.Version{})
		case a.dc == dc && (op.Kind == MGet || op.Kind == Commit) && op.OK:
			if r := op.readOf(k.name); r != nil {
				m.addRead(a, *r, !op.InFlight, causal.Version{})
			}
		}
	}
	return m
}

// adds reports whether an access of an operation is an add.
func (o *Op) adds(a *access) bool {
	return o.Kind == Add || o.Kind == Commit && a.write >= 0 && o.Writes[a.write].isAdd()
}

// readOf returns what an operation has read of a key beside others, or nil.
func (o *Op) readOf(key string) *Read {
	if i := slices.IndexFunc(o.Reads, func(r Read) bool { return r.Key == key }); i >= 0 {
		return &o.Reads[i]
	}
	return nil
}

func (m *mergingKey) addRead(a *access, r Read, certain bool, add causal.Version) {
	read := mergingRead{access: a, end: a.end, certain: certain, add: add, parts: map[causal.Version]bool{}}
	if !add.IsZero() {
		read.end = math.MaxInt64 // what comes behind it is judged by its version
		read.parts[add] = true
	}
	for _, p := range r.Parts {
		read.parts[p.Version] = true
	}
	if len(r.Parts) == 0 && !r.Missing && !r.Version.IsZero() {
		read.parts[r.Version] = true
	}
	m.reads = append(m.reads, read)
}

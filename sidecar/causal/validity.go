package causal

import (
	"math"
	"reflect"

	"github.com/causalstore/causalstore/topology"
)

// Validity says whether a part can handle a message.
type Validity uint8

// The results of Validate.
const (
	// Valid: every field has a value that its kind may have.
	Valid Validity = iota
	// Later: a field has a value that this version does not know. A later version may send it, so the message is
	// ignored, and that is no offense.
	Later
	// Invalid: no version sends this.
	Invalid
)

// Validate says whether every field of a message has a value that its kind may have in a topology, and names the first
// one that has not. Every received message passes here before a machine does: machines index by slots, origins, data
// centers and rings, and go on from counters, without looking again.
//
// It judges a message by itself. Who may send it is for package authorize. Whether a timestamp or a generation is
// plausible now is for the machine, which has a clock: a clock that is wrong is no offense.
func Validate(m *Message, t *topology.Topology) (v Validity, field string) {
	if m.Kind >= NumKinds {
		return Later, "Kind"
	}
	f := &m.fields
	if len(f.Exclusions) > len(t.DCs) {
		return Invalid, "Exclusions"
	}
	if hasBody(m.Kind) {
		return validateBody(m.body, t)
	}
	checks := checksOf[m.Kind]
	for i := range checks {
		c := &checks[i]
		if v := c.judge(f, t); v != Valid {
			return v, c.field
		}
	}
	return Valid, ""
}

// check is a rule for one field. What the rules for numbers judge, number returns.
type check struct {
	field  string
	rule   rule
	number func(*Fields) uint64
}

// checksOf holds by kind what there is to check.
var checksOf = compileRules()

func compileRules() (all [NumKinds][]check) {
	for kind := range all {
		of := reflect.ValueOf(rules[kind])
		for i := range of.NumField() {
			if r := of.Field(i).Interface().(rule); r > anything {
				name := of.Type().Field(i).Name
				all[kind] = append(all[kind], check{field: name, rule: r, number: numbers[name]})
			}
		}
	}
	return all
}

// numbers returns the fields that hold a number.
var numbers = map[string]func(*Fields) uint64{
	"Status":   func(f *Fields) uint64 { return uint64(f.Status) },
	"Err":      func(f *Fields) uint64 { return uint64(f.Err) },
	"Ring":     func(f *Fields) uint64 { return uint64(f.Ring) },
	"ID":       func(f *Fields) uint64 { return f.ID },
	"Session":  func(f *Fields) uint64 { return f.Session },
	"Seq":      func(f *Fields) uint64 { return f.Seq },
	"Epoch":    func(f *Fields) uint64 { return f.Epoch },
	"Hash":     func(f *Fields) uint64 { return f.Hash },
	"Cut":      func(f *Fields) uint64 { return uint64(f.Cut) },
	"Duration": func(f *Fields) uint64 { return uint64(f.Duration) },
}

func (c *check) judge(f *Fields, t *topology.Topology) Validity {
	if c.number != nil {
		return c.rule.judgeNumber(c.number(f), f, t)
	}
	if c.rule.holds(f, t) {
		return Valid
	}
	return Invalid
}

// judgeNumber judges a field that holds a number.
func (r rule) judgeNumber(n uint64, f *Fields, t *topology.Topology) Validity {
	last := uint64(0)
	switch r {
	case counter:
		last = MaxCounter
	case aSlot:
		last = topology.Slots - 1
	case anOrigin:
		if n == 0 {
			return Invalid
		}
		last = uint64(t.Origins())
	case aDC:
		last = uint64(len(t.DCs)) - 1
	case aRing:
		last = uint64(len(t.Rings)) - 1
	case aRingOrNone:
		if n == uint64(topology.NoRing) {
			return Valid
		}
		last = uint64(len(t.Rings)) - 1
	case shardIndex:
		last = math.MaxUint16
	case coordinatorSet:
		last = 1<<topology.MaxCoordinators - 1
	case dcSet:
		last = ^uint64(0) >> (64 - len(t.DCs))
	case awayTerm:
		if n%2 != 0 {
			return Invalid // it is sent by a coordinator that is away
		}
		last = MaxCounter
	case leaseLength:
		last = uint64(MaxLease)
	case depCount:
		last = uint64(len(f.Deps))
	case laneCount:
		last = uint64(len(f.Deps)) - min(f.Hash, uint64(len(f.Deps)))
	case metLaneCount:
		last = f.Hash
	case knownStatus:
		return knownUpTo(n, uint64(Stable))
	case knownErr:
		return knownUpTo(n, uint64(len(errNames))-1)
	case knownAdoption:
		return knownUpTo(n, uint64(AdoptionComplete))
	}
	if n > last {
		return Invalid
	}
	return Valid
}

// knownUpTo judges a value of an enumeration, to which a later version may add.
func knownUpTo(n, last uint64) Validity {
	if n > last {
		return Later
	}
	return Valid
}

// holds judges a field that holds something else.
func (r rule) holds(f *Fields, t *topology.Topology) bool {
	last := topology.Origin(t.Origins())
	switch r {
	case written, writtenOrNone, readable:
		return r.holdsOf(f.Record.Version, last)
	case dependencies:
		return areWrites(f.Deps, last)
	case oneVersion:
		return len(f.Versions) == 1 && isWrite(f.Versions[0], last)
	case versions:
		return areVersions(f.Versions, last)
	case vectors:
		return areVectors(f.Vectors, t)
	case lanes:
		return areLanes(f.Vectors, last)
	}
	return false
}

// holdsOf judges a version.
func (r rule) holdsOf(v Version, last topology.Origin) bool {
	switch r {
	case written:
		return isWrite(v, last)
	case writtenOrNone:
		return v.IsZero() || isWrite(v, last)
	case readable:
		return isReadable(v, last)
	}
	return false
}

// holdsOfParts judges a list as a whole. Each part is judged by its own fields besides.
func (r rule) holdsOfParts(l BodyParts, t *topology.Topology) bool {
	switch list := l.List().(type) {
	case *[]RoundTrip:
		return r == roundTrips && len(*list) <= len(t.DCs)
	case *[]KeyRange:
		return r == keyRanges && len(*list) <= MaxKeyRanges && KeyRanges(*list).areSorted()
	}
	return false
}

// isWrite reports whether a version names a write that a coordinator can have accepted.
func isWrite(v Version, last topology.Origin) bool {
	return v.HLC != 0 && v.Origin != 0 && v.Origin <= last
}

// isReadable reports whether a version is one that a read may return: a write, or of a key that does not exist.
func isReadable(v Version, last topology.Origin) bool {
	return v.IsZero() || v.Origin == droppedOrigin && v.HLC != 0 || isWrite(v, last)
}

func areVersions(vs []Version, last topology.Origin) bool {
	for i := range vs {
		if !isWrite(vs[i], last) {
			return false
		}
	}
	return true
}

func areReadable(records []Moved, last topology.Origin) bool {
	for i := range records {
		if !isReadable(records[i].Record.Version, last) {
			return false
		}
	}
	return true
}

func areWrites(deps []Dep, last topology.Origin) bool {
	for i := range deps {
		if !isDep(&deps[i], last) {
			return false
		}
	}
	return true
}

func isDep(d *Dep, last topology.Origin) bool {
	return isWrite(d.Version, last) && d.Slot < topology.Slots
}

// areVectors reports whether entries are of origins that there are, each once and in ascending order.
func areVectors(entries []VectorEntry, t *topology.Topology) bool {
	next, last := topology.Origin(1), topology.Origin(t.Origins())
	for i := range entries {
		e := &entries[i]
		end := max(e.Origin, e.Last)
		if e.Origin < next || end > last || e.Last != 0 && e.Last < e.Origin ||
			len(e.RV) != 0 && len(e.RV) != len(t.Rings) {
			return false
		}
		next = end + 1
	}
	return true
}

// areLanes reports whether entries are how far lanes have come, each lane once and in ascending order.
func areLanes(entries []VectorEntry, last topology.Origin) bool {
	next := topology.Origin(1)
	for i := range entries {
		e := &entries[i]
		if e.Origin < next || e.Origin > last || e.Last != 0 || len(e.RV) != 1 {
			return false
		}
		next = e.Origin + 1
	}
	return true
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

package history

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Of a key that has updates, causal+ can be checked if all that was read and written of it has versions: its values are
// not unique, but its versions are. An update that has written is a put of its version, and a get of the one that it
// has found, if its reply tells which one that was.

// updatedKey is a key that has updates.
type updatedKey struct {
	unversioned bool // something that was read or written has no version
	unknown     bool // a write of unknown outcome may have been read
	rewritten   bool // several versions may have the value that one write has left
	// addsUp: what several data centers have added is added up, so a reply does not tell which write was found. addedBy
	// is the first of them.
	addsUp  bool
	addedBy string
	// written are the versions of writes. byText has the one that has left a value, if only one has.
	written map[causal.Version]bool
	byText  map[string]causal.Version
}

// withoutUpdates returns a history in which the updates are gets and puts, with the places of its operations in h. What
// concerns keys of which causal+ cannot be checked is left out: as operations that failed, they keep their places in
// their processes. It also returns how many operations that is.
func withoutUpdates(h History, addsUp bool) (plain History, places []int, left int) {
	keys := updatedKeys(h, addsUp)
	if len(keys) == 0 {
		return h, nil, 0
	}
	plain = make(History, 0, len(h)+len(h)/4)
	for i := range h {
		op := h[i]
		k := keys[op.Key]
		switch {
		case op.Kind == MGet:
			plain = append(plain, op)
			plain[len(plain)-1].Reads = plainReads(op.Reads, keys)
		case k == nil || op.Kind == Token || op.Kind == Resume:
			plain = append(plain, op)
		case k.unversioned:
			left++
			plain = append(plain, leftOut(op))
		case op.Kind == Get:
			r, ok := k.plain(Read{Key: op.Key, Value: op.Value, Version: op.Version, Missing: op.Missing})
			if op.Value = r.Value; op.OK && !ok {
				left++
				op = leftOut(op)
			}
			plain = append(plain, op)
		default:
			writes := k.plainWrite(op)
			if writes == nil {
				writes = []Op{leftOut(op)}
				if op.OK || op.Unknown {
					left++
				}
			}
			plain = append(plain, writes...)
		}
		for len(places) < len(plain) {
			places = append(places, i)
		}
	}
	return plain, places, left
}

// inPlaces returns the places of operations of which inner are the places in another history, and outer the places of
// those. nil says that they are the same.
func inPlaces(inner, outer []int) []int {
	if inner == nil || outer == nil {
		return slices.Concat(inner, outer)
	}
	for i, at := range inner {
		inner[i] = outer[at]
	}
	return inner
}

// leftOut returns an operation that failed, in place of another one.
func leftOut(op Op) Op {
	return Op{Session: op.Session, Process: op.Process, Kind: Get, Key: op.Key, Start: op.Start, End: op.End,
		Final: op.Final}
}

// updatedKeys returns the keys that have updates, with what is known of them.
func updatedKeys(h History, addsUp bool) map[string]*updatedKey {
	var keys map[string]*updatedKey
	for i := range h {
		if h[i].Kind == Update && keys[h[i].Key] == nil {
			if keys == nil {
				keys = map[string]*updatedKey{}
			}
			keys[h[i].Key] = &updatedKey{written: map[causal.Version]bool{}, byText: map[string]causal.Version{}}
		}
	}
	if keys == nil {
		return nil
	}
	for i := range h {
		for _, r := range h[i].Reads {
			if k := keys[r.Key]; k != nil {
				k.unversioned = k.unversioned || !r.Missing && r.Version.IsZero()
			}
		}
		if k := keys[h[i].Key]; k != nil {
			k.note(&h[i])
			k.addsUp = k.addsUp || addsUp && k.isAddedByOthers(&h[i])
		}
	}
	return keys
}

// isAddedByOthers notes an operation that adds, and reports whether another data center has.
func (k *updatedKey) isAddedByOthers(op *Op) bool {
	if c, err := commandOf(op); op.Kind != Update || err != nil || c.does != add {
		return false
	}
	by := cmp.Or(op.DC, op.Session)
	k.addedBy = cmp.Or(k.addedBy, by)
	return k.addedBy != by
}

// note notes an operation.
func (k *updatedKey) note(op *Op) {
	if op.Kind == Add {
		k.unversioned = true
		return
	}
	if op.Kind == Get && op.OK {
		k.unversioned = k.unversioned || !op.Missing && op.Version.IsZero()
	}
	if op.Kind == Get || op.Kind == Token || op.Kind == Resume || !op.OK {
		k.unknown = k.unknown || op.Unknown
		return
	}
	c, err := commandOf(op)
	left, writes := c.writes()
	k.rewritten = k.rewritten || c.rewrites
	if err != nil || writes && op.Version.IsZero() {
		k.unversioned = true
	}
	if !writes {
		return
	}
	k.written[op.Version] = true
	if !left.present || left.any {
		return
	}
	if _, again := k.byText[left.text]; again {
		k.byText[left.text] = causal.Version{}
		return
	}
	k.byText[left.text] = op.Version
}

// plain returns a read with a value that is unique. It returns false if it cannot be judged.
func (k *updatedKey) plain(r Read) (Read, bool) {
	if k.unknown && !k.written[r.Version] {
		return r, false
	}
	if !r.Missing {
		r.Value = r.Version.String()
	}
	return r, true
}

// plainReads returns the reads of an MGet of which causal+ can be checked.
func plainReads(reads []Read, keys map[string]*updatedKey) (plain []Read) {
	for _, r := range reads {
		if k := keys[r.Key]; k != nil {
			if k.unversioned {
				continue
			}
			var ok bool
			if r, ok = k.plain(r); !ok {
				continue
			}
		}
		plain = append(plain, r)
	}
	return plain
}

// writes is wrote for a command whose outcome is known, and says so of one too that writes again what it has found.
func (c *command) writes() (left content, writes bool) {
	if c.rewrites {
		return content{present: true, any: true}, c.present(c)
	}
	return c.wrote()
}

// plainWrite returns what a put, delete or update is: a put or delete, after a get if it is known what it has found;
// nil if it has written nothing, or may have.
func (k *updatedKey) plainWrite(op Op) (plain []Op) {
	c, _ := commandOf(&op)
	left, writes := c.writes()
	if !op.OK || !writes {
		return nil
	}
	if found, ok := k.found(&op, &c); ok {
		plain = append(plain, Op{Session: op.Session, Process: op.Process, DC: op.DC, Kind: Get, Level: op.Level,
			Key: op.Key, Value: found.String(), Version: found, Start: op.Start, End: op.End, OK: true})
	}
	op.Kind, op.Command, op.Value, op.Missing, op.Level = Put, nil, op.Version.String(), false, causal.DefaultLevel
	if !left.present {
		op.Kind, op.Value = Delete, ""
	}
	return append(plain, op)
}

// found returns the version that an update has found. Its reply tells that of a command that adds to a number, if only
// one write has left what was there, and no write of unknown outcome may have.
func (k *updatedKey) found(op *Op, c *command) (v causal.Version, ok bool) {
	sum, err := strconv.ParseInt(op.Value, 10, 64)
	if op.Kind != Update || c.does != add || k.unknown || k.rewritten || k.addsUp || err != nil {
		return v, false
	}
	v = k.byText[strconv.FormatInt(sum-c.delta, 10)]
	return v, !v.IsZero()
}

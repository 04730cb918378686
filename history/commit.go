package history

import (
	"slices"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// WriteVersion returns the version of a write of a commit. If they are not apart they are consecutive, and that of the
// operation is the last one's. It is zero if that is not known.
func (o *Op) WriteVersion(i int) causal.Version {
	if o.Apart || o.Version.IsZero() {
		return o.Writes[i].Version
	}
	return causal.Version{HLC: o.Version.HLC - causal.HLC(len(o.Writes)-1-i), Origin: o.Version.Origin}
}

// isAdd reports whether a write of a commit leaves the other writes of its key in place.
func (r *Read) isAdd() bool { return len(r.Parts) > 0 }

// found returns what a commit has read of a key before it wrote it, or nil.
func (o *Op) found(key string) *Read {
	if !o.OK {
		return nil
	}
	return o.readOf(key)
}

// writes reports whether a commit writes a key.
func (o *Op) writes(key string) bool {
	return slices.ContainsFunc(o.Writes, func(w Read) bool { return w.Key == key })
}

// withoutCommits returns a history with an mget and single writes in place of each commit: between data centers, where
// causal+ is what counts, its writes travel one by one. With each operation comes its place in h; nil: they are the
// same.
func withoutCommits(h History) (plain History, places []int) {
	if !slices.ContainsFunc(h, func(op Op) bool { return op.Kind == Commit }) {
		return h, nil
	}
	for i := range h {
		op := &h[i]
		n := len(plain)
		if op.Kind != Commit {
			plain = append(plain, *op)
		} else {
			plain = op.appendParts(plain)
		}
		for range plain[n:] {
			places = append(places, i)
		}
	}
	return plain, places
}

// appendParts appends what a commit does, in order.
func (o *Op) appendParts(h History) History {
	part := Op{Session: o.Session, Process: o.Process, DC: o.DC, Level: o.Level, Start: o.Start, End: o.End, OK: o.OK,
		Unknown: o.Unknown}
	if o.OK && len(o.Reads) > 0 {
		read := part
		read.Kind, read.Reads, read.InFlight = MGet, o.Reads, o.InFlight
		h = append(h, read)
	}
	for i, w := range o.Writes {
		write := part
		write.Kind, write.Key, write.Value, write.Version = Put, w.Key, w.Value, o.WriteVersion(i)
		switch {
		case w.Missing:
			write.Kind, write.Value = Delete, ""
		case w.isAdd():
			write.Kind, write.Value = Add, w.Parts[0].Value
		}
		h = append(h, write)
	}
	return h
}

// showCommit writes what a commit has read and written: "a<1 a=2 b=3".
func (o *Op) showCommit(b *strings.Builder) {
	for _, r := range o.Reads {
		if o.OK {
			showRead(b, Read{Key: r.Key + "<", Value: r.Value, Missing: r.Missing, Version: r.Version})
		}
	}
	for _, w := range o.Writes {
		showRead(b, w)
	}
	showVersion(b, o.Version)
}

// keyAccess is an access with its key.
type keyAccess struct {
	key string
	access
	merges bool
}

// accesses returns what a commit does to each of its keys. The argument has what all have.
func (o *Op) accesses(of access) (all []keyAccess) {
	for i, w := range o.Writes {
		a := of
		a.command, a.version, a.write = command{does: set, text: w.Value, answered: o.OK}, o.WriteVersion(i), i
		if w.Missing {
			a.command = command{does: remove, alwaysWrites: true, answered: o.OK}
		}
		if w.isAdd() {
			a.command = command{answered: o.OK}
		}
		if r := o.found(w.Key); r != nil {
			a.asks, a.reply, a.isNil, a.found = whole, r.Value, r.Missing, r.Version
		}
		all = append(all, keyAccess{w.Key, a, w.isAdd()})
	}
	for _, r := range o.Reads {
		if !o.OK || o.writes(r.Key) {
			continue
		}
		a := of
		a.command, a.version = command{asks: whole, answered: true, reply: r.Value, isNil: r.Missing}, r.Version
		a.found = r.Version
		all = append(all, keyAccess{r.Key, a, len(r.Parts) > 0})
	}
	return all
}

// nameUnknownCommits gives commits of unknown outcome their versions, if a read tells that of one of their writes.
func nameUnknownCommits(h History, keys map[string]*keyAccesses) {
	for i := range h {
		op := &h[i]
		if op.Kind != Commit || !op.Version.IsZero() || !op.OK && !op.Unknown {
			continue
		}
		for n, w := range op.Writes {
			v := keys[w.Key].foundOf(w.Value)
			if w.Missing || w.isAdd() || v.IsZero() {
				continue
			}
			if op.Apart {
				keys[w.Key].setVersion(i, v)
				continue
			}
			known := *op
			known.Version = causal.Version{HLC: v.HLC + causal.HLC(len(op.Writes)-1-n), Origin: v.Origin}
			for m, w := range op.Writes {
				keys[w.Key].setVersion(i, known.WriteVersion(m))
			}
			break
		}
	}
}

// foundOf returns the version with which a value was read; zero: nobody says.
func (k *keyAccesses) foundOf(value string) causal.Version {
	for i := range k.accesses {
		if a := &k.accesses[i]; a.answered && a.asks == whole && !a.isNil && a.reply == value && !a.found.IsZero() {
			return a.found
		}
	}
	return causal.Version{}
}

// setVersion sets the version of what an operation has written.
func (k *keyAccesses) setVersion(op int, v causal.Version) {
	for i := range k.accesses {
		if a := &k.accesses[i]; a.op == op && a.write >= 0 {
			a.version = v
		}
	}
}

package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// commit is a commit in progress: a read for update of some keys, and then puts of several that are accepted only if
// none of them was written meanwhile. One that has read nothing has no condition.
type commit struct {
	reads   []string
	writes  []history.Read // Missing: a delete
	start   int64
	tries   int
	found   *session.Result // what was read, once it was
	writing bool
	isApart bool // the writes have several homes
}

// commitSome puts some keys in one step, mostly after it has read them and others.
func (p *client) commitSome() {
	rng, c := p.load.world.rng, &commit{}
	for i, key := range p.keysToCommit() {
		p.seq++
		w := history.Read{Key: key, Value: fmt.Sprintf("%s-%d", p.name, p.seq), Missing: rng.IntN(6) == 0}
		switch {
		case p.load.isTally(key) && (p.load.mix.del == 0 || rng.IntN(4) > 0):
			w = addOf(key, w.Value)
		case w.Missing:
			w.Value = ""
		}
		if isRead := rng.IntN(3) > 0; isRead {
			c.reads = append(c.reads, key)
			if i > 0 && rng.IntN(3) == 0 {
				continue // it is only read
			}
		}
		c.writes = append(c.writes, w)
	}
	p.startCommit(c)
}

// addOf returns an increment that a commit writes.
func addOf(key, name string) history.Read {
	return history.Read{Key: key, Parts: []history.Part{{Value: name}}}
}

// keysToCommit draws up to three keys, which mostly have several homes if there are several.
func (p *client) keysToCommit() (keys []string) {
	isOne := p.load.world.rng.IntN(3) == 0
	var home topology.Node
	for i, key := range p.someKeys(len(p.load.keys)) {
		h := p.homeOf(key)
		if i == 0 {
			home = h
		}
		if (h == home || !isOne) && len(keys) < 3 {
			keys = append(keys, key)
		}
	}
	return keys
}

func (p *client) homeOf(key string) (home topology.Node) {
	withMachine(p.load.world, p.sidecar, func(m *session.Sidecar, _ causal.Now) {
		home = m.HomeOf(topology.SlotOf(key))
	})
	return home
}

// sortByHomes orders the writes of a commit as they are put: those of a home together, in the order in which the homes
// are named.
func (c *commit) sortByHomes(p *client) {
	at := map[topology.Node]int{}
	for _, w := range c.writes {
		h := p.homeOf(w.Key)
		if _, named := at[h]; !named {
			at[h] = len(at)
		}
	}
	c.isApart = len(at) > 1
	slices.SortStableFunc(c.writes, func(a, b history.Read) int {
		return cmp.Compare(at[p.homeOf(a.Key)], at[p.homeOf(b.Key)])
	})
}

func (p *client) startCommit(c *commit) {
	c.start = p.load.world.now
	p.busy, p.commit = true, c
	p.tryCommit()
}

// tryCommit begins a commit, or begins it again after a conflict.
func (p *client) tryCommit() {
	c := p.commit
	c.tries++
	if c.writing = len(c.reads) == 0; !c.writing {
		p.issueStep(session.Op{Kind: session.OpMGet, Keys: c.reads, ForUpdate: true})
		return
	}
	p.write(c)
}

// write begins to write what a commit writes.
func (p *client) write(c *commit) {
	c.sortByHomes(p)
	p.issueStep(session.Op{Kind: session.OpPut, Commit: c.keys()})
}

// keys returns what the home is asked to write, and on what condition.
func (c *commit) keys() (keys []causal.CommitKey) {
	at := map[string]int{}
	for _, w := range c.writes {
		at[w.Key] = len(keys)
		v := causal.Value{Data: []byte(w.Value), Tombstone: w.Missing}
		if len(w.Parts) > 0 {
			v = increment(w.Parts[0].Value)
		}
		keys = append(keys, causal.CommitKey{Key: w.Key, Record: causal.Record{Value: v}})
	}
	for i, key := range c.reads {
		if _, isWritten := at[key]; !isWritten {
			at[key] = len(keys)
			keys = append(keys, causal.CommitKey{Key: key, ReadOnly: true})
		}
		k := &keys[at[key]]
		k.Conditional, k.Record.Version, k.From = true, c.found.Records[i].Version, c.found.Froms[i]
	}
	return keys
}

// continueCommit takes the result of a step of a commit.
func (p *client) continueCommit(r *session.Result) {
	c := p.commit
	switch {
	case !c.writing && r.Err == causal.OK:
		found := *r
		c.found, c.writing = &found, true
		p.write(c)
		return
	case c.writing && r.Err == causal.ErrConflict && c.tries < maxUpdateTries && p.load.issuing:
		p.tryCommit()
		return
	}
	p.commit = nil
	op := p.operation(history.Commit, "", c.start)
	op.Writes, op.End, op.Apart = c.writes, p.load.world.now, c.isApart || len(r.Records) > 0
	op.OK, op.Unknown = c.writing && r.Err == causal.OK, c.writing && r.Err == causal.ErrUnknown
	for _, key := range c.reads {
		op.Reads = append(op.Reads, history.Read{Key: key})
	}
	if op.OK {
		op.Version = r.Record.Version
		c.noteVersions(&op, r)
		if c.found != nil {
			p.load.recordMissing(&op, c.found)
			op.InFlight = c.found.Outcome.Status == causal.InFlight
			for i := range op.Reads {
				op.Reads[i] = readOf(op.Reads[i].Key, c.found.Records[i])
			}
		}
	}
	p.load.history = append(p.load.history, op)
	p.conclude(r)
}

// noteVersions notes the versions of what a commit of several homes has written.
func (c *commit) noteVersions(op *history.Op, r *session.Result) {
	for i := range min(len(r.Records), len(op.Writes)) {
		op.Writes[i].Version = r.Records[i].Version // the keys that are written come first
	}
}

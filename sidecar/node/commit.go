package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/topology"
)

// Commit implements front.Session.
func (c *clientSession) Commit(ctx context.Context, puts []front.Write, read []string) error {
	if len(puts) == 1 && len(read) == 0 || len(puts) == 1 && len(read) == 1 && puts[0].Key == read[0] {
		if len(read) == 0 {
			delete(c.found, puts[0].Key)
		}
		return c.Put(ctx, puts[0].Key, puts[0].Value)
	}
	keys := c.commitKeys(puts, read)
	if len(keys) == 0 {
		return nil
	}
	written := 0
	for groups := c.byHome(keys); len(groups) > 0; {
		keys := groups[0]
		groups = groups[1:]
		moved, err := c.commitAtHome(keys)
		if moved { // the number of homes has changed, and nothing was written
			groups = append(c.byHome(keys), groups...)
			continue
		}
		if err != nil {
			if written > 0 {
				return front.Errorf(front.UnknownOutcome,
					"%d keys of the command were written, and then: %s; the data center has several coordinators, "+
						"and keys of different ones are not written in one step; read the keys again", written, err)
			}
			return err
		}
		written += len(keys)
	}
	return nil
}

// byHome returns the keys of a commit by their home, in the order in which the homes are first named. Homes of which
// keys are only read are left out if there are others.
func (c *clientSession) byHome(keys []causal.CommitKey) (groups [][]causal.CommitKey) {
	c.sidecar.mu.Lock()
	defer c.sidecar.mu.Unlock()
	var homes []topology.Node
	for _, k := range keys {
		home := c.sidecar.m.HomeOf(topology.SlotOf(k.Key))
		i := slices.Index(homes, home)
		if i < 0 {
			i = len(homes)
			homes, groups = append(homes, home), append(groups, nil)
		}
		groups[i] = append(groups[i], k)
	}
	return slices.DeleteFunc(groups, func(keys []causal.CommitKey) bool {
		return !slices.ContainsFunc(keys, func(k causal.CommitKey) bool { return !k.ReadOnly })
	})
}

// commitAtHome writes keys that have the same home in one step. moved says that they have not, any more.
func (c *clientSession) commitAtHome(keys []causal.CommitKey) (moved bool, err error) {
	op := session.Op{Kind: session.OpPut, Commit: keys}
	r := c.execute(op)
	if r.Err == causal.ErrNotFound { // it is not known yet whether the home takes commits: an answer of it tells
		first := c.execute(session.Op{Kind: session.OpGet, Key: keys[0].Key, Level: causal.DefaultLevel})
		if err := c.recordOutcome(first, "read"); err != nil {
			return false, err
		}
		r = c.execute(op)
	}
	if r.Err == causal.ErrMoved {
		return true, nil
	}
	return false, c.commitError(r, keys)
}

// commitKeys returns the keys of a commit, each once: the last put of a key counts. Those that were read are on
// condition that they are as they were read.
func (c *clientSession) commitKeys(puts []front.Write, read []string) (keys []causal.CommitKey) {
	at := make(map[string]int, len(puts)+len(read))
	for _, p := range puts {
		i, ok := at[p.Key]
		if !ok {
			i = len(keys)
			at[p.Key], keys = i, append(keys, causal.CommitKey{Key: p.Key})
		}
		keys[i].Record.Value = p.Value
	}
	if len(keys) == 0 {
		return nil
	}
	for _, key := range read {
		f, ok := c.found[key]
		if !ok {
			continue
		}
		i, ok := at[key]
		if !ok {
			i = len(keys)
			at[key], keys = i, append(keys, causal.CommitKey{Key: key, ReadOnly: true})
		}
		keys[i].Conditional, keys[i].Record.Version, keys[i].From = true, f.version, f.from
	}
	return keys
}

// commitError returns the error of a commit.
func (c *clientSession) commitError(r session.Result, keys []causal.CommitKey) error {
	err := c.recordOutcome(r, "write")
	switch r.Err {
	case causal.ErrTooLarge:
		return front.Errorf(front.TooLarge,
			"what is written in one step has at most %d keys, read ones included, with %d MiB of names and values, "+
				"and 512 bytes for each key; nothing was written, split it (docs/operations.md, Limits)",
			causal.MaxCommitKeys, causal.MaxCommitBytes>>20)
	case causal.ErrNotFound:
		return front.Errorf(front.Refused,
			"the coordinator of the data center is of a version that cannot write several keys in one step; nothing "+
				"was written; upgrade all parts (docs/upgrades.md)")
	case causal.ErrConflict:
		return front.Errorf(front.Conflict, "another client of the data center has written %s meanwhile; nothing was "+
			"written, try again", conditionNames(keys))
	}
	return err
}

// conditionNames names the keys that a commit depends on, for an error.
func conditionNames(keys []causal.CommitKey) string {
	first, n := "", 0
	for i := range keys {
		if !keys[i].Conditional {
			continue
		}
		if n++; n == 1 {
			first = keys[i].Key
		}
	}
	if n == 1 {
		return fmt.Sprintf("the key %.100q", first)
	}
	return fmt.Sprintf("one of %d keys, of which the first is %.100q,", n, first)
}

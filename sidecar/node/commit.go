package node

import (
	"context"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
)

// Commit implements front.Session.
func (c *clientSession) Commit(ctx context.Context, puts []front.Write, read []string) error {
	return c.commitPuts(ctx, puts, read, false)
}

// CommitInOrder implements front.Session.
func (c *clientSession) CommitInOrder(ctx context.Context, puts []front.Write, read []string) error {
	return c.commitPuts(ctx, puts, read, true)
}

// CommitsInOrder implements front.Session.
func (c *clientSession) CommitsInOrder(keys []string) (n int) {
	c.sidecar.step(func(_ causal.Now, m *session.Sidecar) { n = m.CommitsInOrder(keys) })
	return n
}

func (c *clientSession) commitPuts(ctx context.Context, puts []front.Write, read []string, inOrder bool) error {
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
	return c.commit(session.Op{Kind: session.OpPut, Commit: keys, InOrder: inOrder})
}

// commit writes keys in one step, whatever homes they have, or in order. It is tried again when the keys have got other
// homes, and when it is not known whether their homes take commits.
func (c *clientSession) commit(op session.Op) error {
	r := c.execute(op)
	for tries := 0; tries < maxCommitTries && (r.Err == causal.ErrMoved || r.Err == causal.ErrNotFound); tries++ {
		if r.Err == causal.ErrNotFound {
			time.Sleep(commitAgain)
			if err := c.askHomes(op.Commit); err != nil {
				return err
			}
		}
		r = c.execute(op)
	}
	return c.commitError(r, op.Commit)
}

// Near copies may answer what asks the homes for as long as their leases run, half a second, which tells nothing of the
// homes.
const (
	maxCommitTries = 40
	commitAgain    = 25 * time.Millisecond
)

// askHomes reads keys, so that their homes answer: they have just started, and an answer says whether they take
// commits.
func (c *clientSession) askHomes(keys []causal.CommitKey) error {
	op := session.Op{Kind: session.OpMGet, Level: causal.DefaultLevel}
	for i := range keys {
		op.Keys = append(op.Keys, keys[i].Key)
	}
	return c.recordOutcome(c.execute(op), "read")
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

package resp

import (
	"errors"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
)

// Commands that read a key and then write it, such as INCR, wait for an answer to each. Those that follow one another
// in a pipeline are executed together: their keys are locked and read at once, then the commands are executed one after
// the other on what was read, and what they write is put at once. Consecutive ones of the same key put their last value
// only. In an exact session the home of the key executes them, if it can (updateathome.go).

const (
	// maxPendingUpdates and maxUpdateRuns bound the updates that are executed together: their number, and that of runs
	// of the same key.
	maxPendingUpdates, maxUpdateRuns = 1024, 64
)

// update is a command that reads one key, and may write it.
type update struct {
	name      string // under which the key is stored
	operation operation.Operation
	edit      *edit // instead of the operation
	outcome   operation.Outcome
	reply     replier // called once what the command has written is durable
	err       error   // of the store
	write     int     // the last write of the key up to this command, in updateRound.writes; -1: none
}

// replier writes the reply of a command by the outcome of its operation, or returns why it has failed.
type replier func(*operation.Outcome) error

// finish writes the reply of a command that was executed, or returns why it has failed.
func (u *update) finish() error {
	if u.err != nil {
		return u.err
	}
	switch err := u.outcome.Err; {
	case errors.Is(err, operation.ErrNotInteger):
		return errNotInteger
	case errors.Is(err, operation.ErrOverflow):
		return errOverflow
	case errors.Is(err, operation.ErrNotFloat):
		return errNotFloat
	case errors.Is(err, operation.ErrNotFinite):
		return errNaNOrInfinity
	case errors.As(err, new(*Error)):
		return err
	}
	return u.reply(&u.outcome)
}

// pendingUpdates are the updates of a pipeline that are not executed yet. They are executed before any other command of
// the connection.
type pendingUpdates struct {
	all   []update
	runs  int
	bytes int
	// here is how many of those that are left are not sent to the homes of their keys: the first one was refused,
	// mostly because the home has forgotten the key, and those that follow it with it.
	here int
	// apart is how many of those that are left are executed one key after the other, since others write the keys.
	apart int
}

// update executes a command that reads one key and may write it: at once, or with those that follow if it is part of a
// pipeline. The operation and reply must not refer to the arguments.
func (c *connection) update(key []byte, argBytes int, o operation.Operation, reply replier) error {
	return c.updateBy(update{name: storageKey(c.database, string(key)), operation: o, reply: reply}, len(key)+argBytes)
}

// updateBy is update. bytes are about those that u holds.
func (c *connection) updateBy(u update, bytes int) error {
	c.awaitPuts()
	p := &c.updates
	if c.skipThisReply || len(p.all) == 0 && c.in.buffered() == 0 && !c.executing {
		one := [1]update{u}
		c.executeRound(one[:])
		return one[0].finish()
	}
	if len(p.all) == 0 || p.all[len(p.all)-1].name != u.name {
		p.runs++
	}
	p.all = append(p.all, u)
	p.bytes += bytes
	if bytes >= front.AccountStep {
		c.account()
	}
	if len(p.all) >= maxPendingUpdates || p.runs >= maxUpdateRuns ||
		p.bytes >= c.server.options.Limits.MaxPipelineBytes {
		c.awaitUpdates()
	}
	return nil
}

// awaitWrites executes or awaits all that the pipeline has written, and replies.
func (c *connection) awaitWrites() {
	c.awaitPuts()
	c.awaitUpdates()
}

// awaitUpdates executes the pending updates, and replies to them in order.
func (c *connection) awaitUpdates() {
	p := &c.updates
	for left := p.all; len(left) > 0; {
		done := left[:c.executeRound(left)]
		left, p.here, p.apart = left[len(done):], max(p.here-len(done), 0), max(p.apart-len(done), 0)
		for i := range done {
			// after the locks were released: a client that does not read its replies must not hold them
			u := &done[i]
			if c.out.mute {
				if u.err != nil || u.outcome.Err != nil {
					c.counters.failures++
				}
				continue
			}
			if err := u.finish(); err != nil {
				c.counters.failures++
				c.out.writeError(toError(err))
			}
		}
		clear(done)
	}
	p.all, p.runs, p.bytes, p.here, p.apart = p.all[:0], 0, 0, 0, 0
}

// updateRound executes updates of some keys together.
type updateRound struct {
	names  []string       // of the keys
	index  map[string]int // of names; nil if there is one
	keys   []keyInRound
	writes []writeInRound
	bytes  int // of the values written
	// once says that each key has one write.
	once bool
}

// keyInRound is a key with what the commands so far have made of it.
type keyInRound struct {
	draft *draft
	err   error // of the read
	write int   // the last one in updateRound.writes; -1: none
}

// writeInRound is a put of a key: of the value after consecutive commands.
type writeInRound struct {
	key   int
	value causal.Value
	err   error
}

// executeRound executes the first of some updates, one at least, and returns how many. Their errors are set, and no
// reply is written.
//
// In an exact session, operations are executed at the home of their key if it can. Otherwise they are executed here:
// those of several keys in one step (updatetogether.go), and if others write these meanwhile, those of the first key,
// again and again.
func (c *connection) executeRound(us []update) int {
	if !c.session.Session.IsExact() {
		return c.executeOnce(us)
	}
	n := 1
	for n < len(us) && us[n].name == us[0].name {
		n++
	}
	done, again := 0, false
	_ = c.retryConflicts(func() error {
		if us[0].edit == nil && (again || c.updates.here == 0) {
			for range 2 { // if the first one was refused, its key was not looked for: it was expected to be known there
				if done = c.executeAtHome(us); done > 0 {
					return nil
				}
			}
			c.updates.here = len(us)
		}
		if !again && n < len(us) && c.updates.apart == 0 {
			if done = c.executeTogether(us); done > 0 {
				return nil
			}
		}
		again = true
		done = c.executeOnce(us[:n])
		for i := range us[:done] {
			if isConflict(us[i].err) {
				return us[i].err
			}
		}
		return nil
	})
	return done
}

// maxConflictTime is for how long a command is tried again because others write its key.
const maxConflictTime = 5 * time.Second

// retryConflicts calls f until it returns something else than a conflict, or takes too long. f has written nothing when
// it returns one.
func (c *connection) retryConflicts(f func() error) error {
	for until := time.Now().Add(maxConflictTime); ; {
		err := f()
		if !isConflict(err) || time.Now().After(until) || c.server.context.Err() != nil {
			return err
		}
	}
}

func isConflict(err error) bool {
	var e *front.Error
	return errors.As(err, &e) && e.Code == front.Conflict
}

// executeOnce is executeRound without further tries.
func (c *connection) executeOnce(us []update) int {
	r := updateRound{}
	r.collect(us)
	if !c.executing {
		defer c.session.Session.Lock(r.names...)()
	}
	read := c.readRound(&r)
	n := 0
	for n < len(us) && c.decideInRound(&r, &us[n], read) {
		n++
	}
	c.putRound(&r)
	r.settle(us[:n])
	if last := &us[n-1]; last.write != len(r.writes)-1 || last.write < 0 && r.at(last.name) != read-1 {
		_, _ = c.session.Session.Get(c.server.context, last.name) // CAUSAL LAST is about the last reply
	}
	return n
}

// collect finds the different keys of updates.
func (r *updateRound) collect(us []update) {
	for i := range us {
		name := us[i].name
		if len(r.names) > 0 && r.at(name) >= 0 {
			continue
		}
		if len(r.names) == 1 { // mostly there is one
			r.index = map[string]int{r.names[0]: 0}
		}
		if r.index != nil {
			r.index[name] = len(r.names)
		}
		r.names = append(r.names, name)
	}
}

// at returns the index of a key, or -1.
func (r *updateRound) at(name string) int {
	if r.index == nil && r.names[0] == name {
		return 0
	}
	if i, ok := r.index[name]; ok {
		return i
	}
	return -1
}

// readRound reads the keys, or the first of them if their values take much memory, and returns how many.
func (c *connection) readRound(r *updateRound) int {
	r.keys = make([]keyInRound, len(r.names))
	for i := range r.keys {
		r.keys[i].write = -1
	}
	if len(r.names) == 1 {
		record, err := c.session.Session.GetRecord(c.server.context, r.names[0])
		r.keys[0].draft, r.keys[0].err = c.draftOf(r.names[0], record), err
		return 1
	}
	names, results := make([][]byte, len(r.names)), make([]front.GetResult, len(r.names))
	for i, name := range r.names {
		names[i] = []byte(name)
	}
	read := c.session.GetEach(c.server.context, names, results)
	for i := range results[:read] {
		record := causal.Record{Version: results[i].Version, Value: results[i].Value}
		r.keys[i].draft, r.keys[i].err = c.draftOf(r.names[i], record), results[i].Err
	}
	return read
}

// decideInRound executes a command on what the commands before it have made of its key. It returns false if that was
// not read, or the values written take too much memory: then the command is for another round.
func (c *connection) decideInRound(r *updateRound, u *update, read int) bool {
	at := r.at(u.name)
	if at >= read {
		return false
	}
	k := &r.keys[at]
	u.write = k.write
	if u.err = k.err; u.err != nil {
		return true
	}
	isOfCollection := u.edit != nil && u.edit.text == nil || k.draft.change != nil
	if k.write >= 0 && k.write != len(r.writes)-1 && isOfCollection {
		return false // what is put of a collection is put at once: it is relative to what was read
	}
	if u.edit != nil {
		u.outcome = k.draft.edit(u.edit, c.nowMs())
	} else {
		u.outcome = k.draft.apply(&u.operation, c.nowMs(), c.lineOf(&u.operation))
	}
	if !u.outcome.Writes {
		return true
	}
	isLast := k.write >= 0 && k.write == len(r.writes)-1
	if r.once && k.write >= 0 && !isLast {
		return false
	}
	next := k.draft.put()
	r.bytes += next.Size()
	if r.bytes > c.server.options.Limits.MaxPipelineBytes && len(r.writes) > 0 && !c.hasOverlay() {
		return false
	}
	// Only the last write can be replaced: a write that follows it in the order of the session depends on it.
	if !isLast {
		k.write = len(r.writes)
		r.writes = append(r.writes, writeInRound{key: at})
	}
	r.writes[k.write].value = next
	u.write = k.write
	return true
}

// lineOf returns whose increments those of an operation go on from; 0: nobody's.
func (c *connection) lineOf(o *operation.Operation) value.Line {
	if !o.Adds() {
		return 0
	}
	return c.line()
}

// hasOverlay reports whether what commands make of keys stays until the end of EXEC, which bounds it.
func (c *connection) hasOverlay() bool {
	_, is := c.session.Session.(*overlay)
	return is
}

// putRound puts what the commands have written, in order.
func (c *connection) putRound(r *updateRound) {
	if len(r.writes) == 1 {
		w := &r.writes[0]
		w.err = c.session.Session.Put(c.server.context, r.names[w.key], w.value)
		return
	}
	waits := make([]func() error, len(r.writes))
	for i := range r.writes {
		waits[i] = c.session.PutAsync(r.names[r.writes[i].key], r.writes[i].value)
	}
	for i, wait := range waits {
		r.writes[i].err = wait()
	}
}

// settle sets the errors of commands whose writes have failed, and of those that have replied on such a write.
func (r *updateRound) settle(us []update) {
	for i := range us {
		u := &us[i]
		if u.write < 0 || r.writes[u.write].err == nil {
			continue
		}
		u.err = r.writes[u.write].err
		key := r.writes[u.write].key
		if slices.ContainsFunc(r.writes[u.write+1:], func(w writeInRound) bool {
			return w.key == key && w.err == nil
		}) {
			u.err = Errorf("UNKNOWN",
				"the write failed (%s), but a later command of the pipeline has written the key with it",
				toError(u.err))
		}
	}
}

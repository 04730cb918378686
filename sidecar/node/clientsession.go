package node

import (
	"context"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/topology"
)

// clientSession is the session of one client connection. It implements front.Session.
type clientSession struct {
	sidecar     *Sidecar
	id          uint64
	op          *pendingOp // for operations that the connection waits for, one at a time
	lastOutcome session.Outcome
	locked      bool         // inside Lock or Isolate: its keys are held
	gets        []*pendingOp // of pipelined reads
	keys        []string     // of pipelined reads
	keyText     []byte       // scratch space
	puts        putBatch
	// found is what was read inside Lock or Isolate, with ScopeDataCenter: puts of these keys are conditional.
	found map[string]foundKey
	// foundElsewhere is what the next operations of keys go on from, unless their homes know better.
	foundElsewhere map[string]*operation.Found
	chosen         causal.Level // by SetLevel; causal.DefaultLevel: that of the sidecar
	// lastScan is where the last scan continues.
	lastScan scanPlace
}

// foundKey is what a conditional put of a key goes on from.
type foundKey struct {
	version causal.Version
	from    causal.HLC
}

// IsExact implements front.Session.
func (c *clientSession) IsExact() bool { return c.sidecar.scope == ScopeDataCenter }

// Line implements front.Session.
func (c *clientSession) Line() uint64 {
	s := c.sidecar
	if !c.IsExact() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.m.PutsMerge() {
		return 0
	}
	return uint64(s.dc) + 1
}

// level returns the level of a read: what follows from one inside Lock or Isolate is written.
func (c *clientSession) level() causal.Level {
	if c.locked && !c.IsExact() {
		return causal.Newest
	}
	return c.chosen
}

// putOp returns the operation that puts a value: a conditional one, if the key was read inside Lock or Isolate.
func (c *clientSession) putOp(key string, v causal.Value) session.Op {
	op := session.Op{Kind: session.OpPut, Session: c.id, Key: key, Value: v}
	if f, ok := c.found[key]; ok {
		op.Conditional, op.If, op.From = true, f.version, f.from
		delete(c.found, key) // a later put of the key follows this one
	}
	return op
}

// execute runs an operation and waits for its result.
func (c *clientSession) execute(op session.Op) session.Result {
	op.Session = c.id
	c.sidecar.startOp(c.op, op)
	return c.op.wait()
}

// recordOutcome keeps the outcome for CAUSAL LAST and returns the result's error.
func (c *clientSession) recordOutcome(r session.Result, what string) error {
	c.lastOutcome = r.Outcome
	if r.Err == causal.OK {
		return nil
	}
	if r.Err == causal.ErrLocked {
		return front.Errorf(front.Unavailable,
			"the key %.100q has been in use for too long by a command of several keys, whose coordinators do not all "+
				"answer, or by many of them; the %s was not done, try again", r.Locked, what)
	}
	if r.Err == causal.ErrFormat {
		return front.Errorf(front.Refused,
			"not all parts of the store know values of this type yet: %s has not said that it does; nothing was "+
				"written; finish the upgrade of all parts (docs/upgrades.md)", c.sidecar.partName(r.Lacking))
	}
	return c.sidecar.errorOf(&r, what)
}

// errorOf returns the error of an operation that has failed, with what it waited for if time has run out.
func (s *Sidecar) errorOf(r *session.Result, what string) error {
	if r.Err != causal.ErrUnavailable || r.Wait.Taken == 0 {
		return clientError(r.Err, what)
	}
	awaited := r.Wait.For.Describe()
	if r.Wait.On.Part != topology.PartNone {
		awaited += " (" + s.partName(r.Wait.On) + ")"
	}
	return front.Errorf(front.Unavailable, "the %s was not answered within %s; it waited for %s; try again", what,
		r.Wait.Taken.Round(time.Millisecond), awaited)
}

// partName names a part for people.
func (s *Sidecar) partName(n topology.Node) string {
	t := s.topo.Load()
	if n.Part == topology.PartNone || int(n.DC) >= len(t.DCs) {
		return "one of them"
	}
	name := fmt.Sprintf("%s %d of data center %s", n.Part, n.Index, t.DCs[n.DC].Name)
	if n.Member != 0 {
		name = fmt.Sprintf("member %d of %s", n.Member, name)
	}
	return name
}

// clientError returns the error of an operation that has failed.
func clientError(code causal.ErrCode, what string) error {
	switch code {
	case causal.ErrBusy:
		return front.Errorf(front.Busy,
			"write buffer full: too many writes have not reached every ring yet, or the disk of the log is full; "+
				"nothing was written, try again later")
	case causal.ErrClock:
		return front.Errorf(front.ClockAhead,
			"a timestamp is too far ahead of the clock; nothing was written; check that the clocks of the nodes are "+
				"synchronised (docs/disasters.md, Timestamps from the future)")
	case causal.ErrConflict:
		return front.Errorf(front.Conflict,
			"another client of the data center has written the key meanwhile; nothing was written, try again")
	case causal.ErrUnknown:
		return front.Errorf(front.UnknownOutcome,
			"the coordinator did not answer in time; the write may or may not have been accepted")
	case causal.ErrTooLarge:
		return front.Errorf(front.TooLarge,
			"the key or the value is too long: a key has at most %d bytes, and a value %d; nothing was written",
			contract.MaxKeyBytes, contract.MaxValueBytes)
	case causal.ErrType:
		return front.Errorf(front.Refused,
			"a part of the deployment does not know the type of the value; nothing was written; upgrade all parts "+
				"(docs/upgrades.md)")
	case causal.ErrStale:
		return front.Errorf(front.Unavailable,
			"the write was overtaken after a broken connection; nothing was written, try again")
	default:
		return front.Errorf(front.Unavailable,
			"no ring that this session may use answered the %s in time (%s); try again", what, code)
	}
}

// Get implements front.Session.
func (c *clientSession) Get(ctx context.Context, key string) (causal.Value, error) {
	r, err := c.GetRecord(ctx, key)
	return r.Value, err
}

// GetRecord implements front.Session.
func (c *clientSession) GetRecord(_ context.Context, key string) (causal.Record, error) {
	if !c.locked {
		c.sidecar.keyLocks.awaitTransaction(key)
	}
	if c.locked && c.IsExact() {
		r := c.getToWrite(key)
		return r.Record, c.recordOutcome(r, "read")
	}
	r := c.execute(session.Op{Kind: session.OpGet, Key: key, Level: c.level()})
	return r.Record, c.recordOutcome(r, "read")
}

// getToWrite reads a key for an update: the next put of it is conditional.
func (c *clientSession) getToWrite(key string) session.Result {
	r := c.execute(session.Op{Kind: session.OpGet, Key: key, Level: causal.DefaultLevel, ForUpdate: true})
	if r.Err == causal.OK {
		if c.found == nil {
			c.found = map[string]foundKey{}
		}
		c.found[key] = foundKey{r.Record.Version, r.From}
	}
	return r
}

// MGet implements front.Session.
func (c *clientSession) MGet(_ context.Context, keys []string) ([]causal.Value, error) {
	if len(keys) == 1 {
		v, err := c.Get(context.Background(), keys[0])
		return []causal.Value{v}, err
	}
	records, err := c.readMany(keys, c.level())
	values := make([]causal.Value, len(records))
	for i := range records {
		values[i] = records[i].Value
	}
	return values, err
}

// Newest implements front.Session.
func (c *clientSession) Newest(_ context.Context, keys []string) ([]causal.Record, error) {
	if !c.IsExact() {
		return c.readMany(keys, causal.Newest)
	}
	if c.locked {
		return c.newestToWrite(keys)
	}
	return c.readMany(keys, causal.DefaultLevel)
}

// newestToWrite reads keys inside Isolate: puts of them are conditional, so that no write of another client of the data
// center after WATCH is lost.
func (c *clientSession) newestToWrite(keys []string) ([]causal.Record, error) {
	if len(keys) == 1 {
		r := c.getToWrite(keys[0])
		return []causal.Record{r.Record}, c.recordOutcome(r, "read")
	}
	r := c.execute(session.Op{Kind: session.OpMGet, Keys: keys, Level: causal.DefaultLevel, ForUpdate: true})
	if err := c.multiReadError(r); err != nil {
		return nil, err
	}
	if c.found == nil {
		c.found = make(map[string]foundKey, len(keys))
	}
	for i, key := range keys {
		c.found[key] = foundKey{r.Records[i].Version, r.Froms[i]}
	}
	return r.Records, nil
}

// readMany reads several keys, before or after each transaction of this sidecar.
func (c *clientSession) readMany(keys []string, level causal.Level) ([]causal.Record, error) {
	if !c.locked {
		defer c.sidecar.keyLocks.read(keys)()
	}
	r := c.execute(session.Op{Kind: session.OpMGet, Keys: keys, Level: level})
	return r.Records, c.multiReadError(r)
}

// multiReadError returns the error of a read of several keys.
func (c *clientSession) multiReadError(r session.Result) error {
	err := c.recordOutcome(r, "multi-key read")
	switch r.Err {
	case causal.ErrTooLarge:
		err = front.Errorf(front.TooLarge,
			"a read of the newest values of the data center takes at most %d different keys, with %d MiB of names; "+
				"split it", causal.MaxHomeKeys, causal.MaxMessageBytes>>20)
	case causal.ErrBusy:
		err = front.Errorf(front.Busy,
			"the values that multi-key reads of this sidecar hold would exceed their limit; read fewer keys at a "+
				"time, or try again later")
	}
	return err
}

// Put implements front.Session.
func (c *clientSession) Put(_ context.Context, key string, v causal.Value) error {
	c.share(c.op, key)
	r := c.execute(c.putOp(key, v))
	return c.recordOutcome(r, "write")
}

// share makes w share the lock of a key with other plain writes until w is complete, unless the session holds the key.
// It may wait for a read-modify-write command or a transaction, also while earlier writes of the connection are in
// flight: these complete by themselves.
func (c *clientSession) share(w *pendingOp, key string) {
	if !c.locked {
		w.lock = c.sidecar.keyLocks.share(key)
	}
}

// Lock implements front.Session.
func (c *clientSession) Lock(keys ...string) func() { return c.lock(c.sidecar.keyLocks.update(keys)) }

// Isolate implements front.Session.
func (c *clientSession) Isolate(keys ...string) func() {
	return c.lock(c.sidecar.keyLocks.isolate(keys))
}

func (c *clientSession) lock(unlock func()) func() {
	c.locked = true
	return func() {
		c.locked = false
		clear(c.found)
		unlock()
	}
}

// CountNames implements front.Session.
func (c *clientSession) CountNames(context.Context) (int64, error) {
	r := c.execute(session.Op{Kind: session.OpCount})
	return r.Count, c.recordOutcome(r, "count")
}

// Close implements front.Session.
func (c *clientSession) Close() {
	c.startPuts() // a panic may have ended the connection
	c.sidecar.releaseOp(c.op)
	if c.id != podSession {
		c.sidecar.step(func(_ causal.Now, m *session.Sidecar) { m.Close(c.id) })
	}
}

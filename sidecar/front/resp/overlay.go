package resp

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
)

// overlay is the session of an EXEC in an exact session. All keys of the transaction are read at once. Its commands run
// on what was read, and on what they have written, which nobody else sees. At the end all is committed in one step, if
// what they have read still holds.
type overlay struct {
	front.Session // Isolate holds the keys
	records       map[string]causal.Record
	drafts        map[string]*draft // of keys that commands have read to write them
	isRead        map[string]bool
	read          []string // that commands have read, and watched keys
	at            map[string]int
	writes        []front.Write
	bytes         int // of the writes
	maxBytes      int
	refused       *Error // a write of a command: then nothing is written
}

// newOverlay reads the keys of a transaction.
func newOverlay(ctx context.Context, s front.Session, keys []string, maxBytes int) (*overlay, error) {
	o := &overlay{Session: s, isRead: map[string]bool{}, at: map[string]int{}, maxBytes: maxBytes,
		records: make(map[string]causal.Record, len(keys)), drafts: map[string]*draft{}}
	var names []string
	for _, key := range keys {
		if _, has := o.records[key]; !has {
			o.records[key] = causal.Record{}
			names = append(names, key)
		}
	}
	records, err := s.Newest(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range records {
		o.records[names[i]] = records[i]
	}
	return o, nil
}

// depend makes the commit fail if a key has been written since it was read.
func (o *overlay) depend(key string) {
	if !o.isRead[key] {
		o.isRead[key] = true
		o.read = append(o.read, key)
	}
}

// draftOf returns what the transaction has made of a key so far.
func (o *overlay) draftOf(key string, nowMs int64) *draft {
	d := o.drafts[key]
	if d == nil {
		d = newDraft(o.records[key], nowMs)
		o.drafts[key] = d
		if i, has := o.at[key]; has {
			d.set(o.writes[i].Value)
		}
	}
	return d
}

// Get implements front.Session.
func (o *overlay) Get(ctx context.Context, key string) (causal.Value, error) {
	r, err := o.GetRecord(ctx, key)
	return r.Value, err
}

// GetRecord implements front.Session. The version is that of what was read before the transaction.
func (o *overlay) GetRecord(ctx context.Context, key string) (causal.Record, error) {
	r, isRead := o.records[key]
	switch _, isWritten := o.at[key]; {
	case o.drafts[key] != nil:
		r.Value = o.drafts[key].current()
	case isWritten:
		r.Value = o.writes[o.at[key]].Value
	case !isRead: // a command that does not name its keys
		return o.Session.GetRecord(ctx, key)
	}
	if _, isWritten := o.at[key]; !isWritten {
		o.depend(key)
	}
	return r, nil
}

// MGet implements front.Session.
func (o *overlay) MGet(ctx context.Context, keys []string) ([]causal.Value, error) {
	if err := o.fetch(ctx, keys); err != nil {
		return nil, err
	}
	values := make([]causal.Value, len(keys))
	for i, key := range keys {
		var err error
		if values[i], err = o.Get(ctx, key); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// fetch reads keys that the commands do not name, such as those of patterns.
func (o *overlay) fetch(ctx context.Context, keys []string) error {
	var names []string
	for _, key := range keys {
		if _, isRead := o.records[key]; !isRead {
			names = append(names, key)
		}
	}
	if len(names) == 0 {
		return nil
	}
	records, err := o.Session.Newest(ctx, names)
	if err != nil {
		return err
	}
	for i := range records {
		o.records[names[i]] = records[i]
	}
	return nil
}

// GetEach implements front.Session.
func (o *overlay) GetEach(ctx context.Context, keys [][]byte, results []front.GetResult) int {
	for i, key := range keys {
		r, err := o.GetRecord(ctx, string(key))
		results[i] = front.GetResult{Value: r.Value, Version: r.Version, Err: err}
	}
	return len(keys)
}

// Newest implements front.Session.
func (o *overlay) Newest(ctx context.Context, keys []string) ([]causal.Record, error) {
	values, err := o.MGet(ctx, keys)
	records := make([]causal.Record, len(values))
	for i, v := range values {
		records[i] = causal.Record{Version: o.records[keys[i]].Version, Value: v}
	}
	return records, err
}

// Put implements front.Session.
func (o *overlay) Put(_ context.Context, key string, v causal.Value) error {
	if d := o.drafts[key]; d != nil && !v.Merges() {
		d.set(v)
		v = d.put()
	}
	i, has := o.at[key]
	size := len(key) + v.Size()
	if has {
		size = v.Size() - o.writes[i].Value.Size()
	}
	if o.bytes+size > o.maxBytes {
		o.refused = Errorf("ERR", "the transaction writes more than %d bytes; split it", o.maxBytes)
		return o.refused
	}
	o.bytes += size
	if !has {
		o.at[key] = len(o.writes)
		o.writes = append(o.writes, front.Write{Key: key, Value: v})
		return nil
	}
	o.writes[i].Value = v
	return nil
}

// PutAsync implements front.Session.
func (o *overlay) PutAsync(key string, v causal.Value) (wait func() error) {
	err := o.Put(context.Background(), key, v)
	return func() error { return err }
}

// Commit implements front.Session.
func (o *overlay) Commit(ctx context.Context, puts []front.Write, _ []string) error {
	for _, p := range puts {
		if err := o.Put(ctx, p.Key, p.Value); err != nil {
			return err
		}
	}
	return nil
}

// finish commits what the commands have written.
func (o *overlay) finish(ctx context.Context) error {
	if o.refused != nil {
		return Errorf("EXECABORT", "Transaction discarded because of: %s", o.refused.Message)
	}
	if len(o.writes) == 0 {
		return nil // what was read was so at one time
	}
	return o.Session.Commit(ctx, o.writes, o.read)
}

// executeExactly executes a transaction as one step among all clients of the data center, again while others write its
// keys meanwhile. Then nothing of what was executed before is written, nor answered.
func (c *connection) executeExactly(t *transaction, keys []string) error {
	reply, database := len(c.out.buf), c.database
	err := c.retryConflicts(func() error {
		c.out.buf, c.database = c.out.buf[:reply], database
		return c.executeOnOverlay(t, keys)
	})
	if err != nil {
		c.out.buf, c.database = c.out.buf[:reply], database
	}
	return err
}

func (c *connection) executeOnOverlay(t *transaction, keys []string) error {
	release := c.session.Isolate(keys...)
	inner := c.session.Session
	c.executing, c.out.held = true, true
	defer func() {
		c.executing, c.out.held, c.session.Session = false, false, inner
		release()
	}()
	o, err := newOverlay(c.server.context, inner, keys, causal.MaxCommitBytes)
	if err != nil {
		return err
	}
	for _, w := range t.watched {
		if w.hasChanged(c.watchedAs(w.stored, o.records[w.stored])) {
			c.out.writeNullArray()
			return nil
		}
		o.depend(w.stored)
	}
	c.session.Session = o
	if why := c.executeQueue(t.queue); why != nil {
		return c.abortExec(why) // all or nothing
	}
	return o.finish(c.server.context)
}

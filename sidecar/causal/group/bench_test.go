package group

import (
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// member is a Group with its disk, driven by hand.
type member struct {
	t       *testing.T
	g       *Group
	id      ID
	entries []Entry // on the disk; those up to durable are durable
	durable uint64
	ops     []RegisterOp
	events  []Event
	sent    []Message // not delivered yet
}

// bench drives members, without any randomness.
type bench struct {
	t       *testing.T
	now     causal.Now
	members map[string]*member
	order   []string
}

func newBench(t *testing.T, names ...string) *bench {
	b := &bench{t: t, now: causal.Now{Mono: int64(time.Hour)}, members: map[string]*member{}, order: names}
	for i, name := range names {
		b.members[name] = &member{t: t, id: ID{name, uint64(i + 1)}}
		b.restart(name, Options{})
	}
	return b
}

// restart starts a member from what is durable on its disk.
func (b *bench) restart(name string, o Options) *member {
	b.t.Helper()
	m := b.members[name]
	m.entries = slices.DeleteFunc(m.entries, func(e Entry) bool { return e.Index > m.durable })
	var image Image
	for i := range m.entries {
		if err := image.Apply(&m.entries[i]); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := image.Check(); err != nil {
		b.t.Fatal(err)
	}
	opts := DefaultOptions(m.id)
	opts.Damaged = o.Damaged
	m.g, m.ops, m.events, m.sent = New(opts, &image, b.now), nil, nil, nil
	b.sync(name)
	return m
}

// collect takes what a member asks for.
func (m *member) collect(now causal.Now) {
	m.sent = m.g.Take(now, m.sent)
	m.entries = m.g.Writes(m.entries)
	m.ops = m.g.RegisterOps(m.ops)
	m.events = m.g.Events(m.events)
}

// sync makes everything durable that a member has written.
func (b *bench) sync(name string) {
	m := b.members[name]
	for m.collect(b.now); len(m.entries) > 0 && m.entries[len(m.entries)-1].Index > m.durable; m.collect(b.now) {
		m.durable = m.entries[len(m.entries)-1].Index
		m.g.Appended(b.now, m.durable)
	}
}

// deliver delivers all messages between the named members, and syncs, until there are none. Others are lost.
func (b *bench) deliver(names ...string) {
	for range 50 {
		for _, from := range names {
			m := b.members[from]
			b.sync(from)
			sent := m.sent
			m.sent = nil
			for i := range sent {
				if to := sent[i].To.Name; slices.Contains(names, to) {
					b.members[to].g.Step(b.now, &sent[i])
					b.sync(to)
				}
			}
		}
	}
}

// pass lets time pass for the named members, who reach each other.
func (b *bench) pass(d time.Duration, names ...string) {
	for end := b.now.Mono + int64(d); b.now.Mono < end; b.now.Mono += int64(50 * time.Millisecond) {
		for _, name := range names {
			b.members[name].g.Tick(b.now)
		}
		b.deliver(names...)
	}
}

// answer answers the last request of a member to the register.
func (b *bench) answer(name string, res RegisterResult) {
	m := b.members[name]
	if len(m.ops) == 0 {
		b.t.Fatalf("%s has sent nothing to the register", name)
	}
	op := m.ops[len(m.ops)-1]
	m.ops, res.ID = nil, op.ID
	m.g.RegisterDone(b.now, res)
	b.sync(name)
}

// teach gives members a settled configuration.
func (b *bench) teach(c Config, names ...string) {
	for _, name := range names {
		b.members[name].g.learn(b.now, "cluster", &c)
		b.sync(name)
	}
}

func (b *bench) append(name, data string) uint64 {
	b.t.Helper()
	pos, err := b.members[name].g.Append(b.now, []byte(data))
	if err != nil {
		b.t.Fatalf("%s appends: %v", name, err)
	}
	b.sync(name)
	return pos
}

func (b *bench) role(name string) Role { return b.members[name].g.Status().Role }

// led returns the records that the last Lead of a member gave its user.
func (m *member) led() (records []string, ok bool) {
	for _, e := range m.events {
		if e.Kind == Lead {
			records, ok = nil, true
			for _, r := range e.Records {
				records = append(records, string(r.Data))
			}
		}
	}
	return records, ok
}

// pq returns members P and Q, of which P serves.
func pq(t *testing.T) *bench {
	b := newBench(t, "p", "q")
	b.teach(Config{Epoch: 1, Members: []ID{b.members["p"].id, b.members["q"].id}, Primary: b.members["p"].id,
		Nonce: Nonce{1, 1, 1}}, "p", "q")
	b.pass(2*time.Second, "p", "q")
	if b.role("p") != Serving {
		t.Fatalf("P is %s", b.role("p"))
	}
	return b
}

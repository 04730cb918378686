package member

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

var (
	self  = topology.Node{Part: topology.Coordinator}
	app   = topology.Node{Part: topology.Sidecar, Index: 7}
	shard = topology.Node{Part: topology.Middleman}
)

// process is a member with its disk.
type process struct {
	number uint8
	volume uint64
	c      *Coordinator // nil while it is down
	modelDisk
	cut    bool // from the other members
	paused bool
}

// rig runs the members of one coordinator in virtual time. All disks are instantaneous.
type rig struct {
	t       *testing.T
	now     causal.Now
	topo    *topology.Topology
	members []*process
	modelRegister
	sent   []causal.Message
	acks   bool // the shard acknowledges what it gets
	maxLog int
}

func newRig(t *testing.T, members int) *rig {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, CoordinatorMembers: members,
		Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, topo: topo, now: causal.Now{Mono: int64(time.Hour), WallMs: 1_700_000_000_000}}
	for i := range members {
		p := &process{number: uint8(i + 1), volume: uint64(i + 100), modelDisk: modelDisk{first: 1}}
		r.members = append(r.members, p)
	}
	for _, p := range r.members {
		r.start(p)
	}
	r.await("a member to serve", func() bool {
		p := r.primary()
		return p != nil && p.c.Serving().Membership() == coordinator.Serving &&
			len(p.c.Status().Config.Members) == members
	})
	return r
}

// start starts a member from its disk.
func (r *rig) start(p *process) {
	r.t.Helper()
	image := p.image(r.t)
	cfg := Config{Coordinator: coordinator.DefaultConfig(r.topo, self), Member: p.number, Volume: p.volume,
		Register: len(r.members) > 1, MaxLogBytes: r.maxLog}
	p.c = New(cfg, image, r.now)
	if !cfg.Register {
		if err := p.c.StartAlone(r.now, func(entries []group.Entry) error {
			p.write(entries)
			return nil
		}); err != nil {
			r.t.Fatal(err)
		}
	}
	r.flush()
}

// primary returns the member that serves; nil: none does.
func (r *rig) primary() *process {
	for _, p := range r.members {
		if p.c != nil && !p.c.Leadership().IsZero() {
			return p
		}
	}
	return nil
}

// flush carries out what the members ask for until they ask for nothing.
func (r *rig) flush() {
	r.t.Helper()
	for busy := true; busy; {
		busy = false
		for _, p := range r.members {
			if p.c != nil && !p.paused {
				busy = r.flushOne(p) || busy
			}
		}
		r.checkOneServes()
	}
}

func (r *rig) flushOne(p *process) (busy bool) {
	messages := p.c.Take(nil)
	if entries := p.c.Writes(nil); len(entries) > 0 {
		busy = true
		p.write(entries)
		p.c.Appended(r.now, entries[len(entries)-1].Index)
	}
	p.truncate(p.c.TruncateBefore())
	for _, op := range p.c.RegisterOps(nil) {
		busy = true
		p.c.RegisterDone(r.now, r.request(op))
	}
	for i := range messages {
		busy = true
		r.deliver(p, &messages[i])
	}
	return busy
}

// deliver takes a message where it is to go: to another member, or to the only shard, which the rig plays.
func (r *rig) deliver(from *process, m *causal.Message) {
	switch m.Kind {
	case causal.KindGroup, causal.KindFormatQuery, causal.KindFormatReply:
		to := r.members[m.To.Member-1]
		if to.c != nil && !to.paused && !to.cut && !from.cut {
			to.c.Step(r.now, m)
		}
		return
	case causal.KindPastQuery:
		reply := causal.PastReply{ID: m.PastQuery().ID}.Message(shard, self)
		from.c.Step(r.now, &reply)
	case causal.KindPutAfter:
		if r.acks {
			reply := causal.PutAck{Incarnation: 1,
				Versions: []causal.Version{m.PutAfter().Record.Version}}.Message(shard, self)
			from.c.Step(r.now, &reply)
		}
	}
	r.sent = append(r.sent, *m)
}

// checkOneServes checks that at most one member acts for the coordinator.
func (r *rig) checkOneServes() {
	r.t.Helper()
	serving := 0
	for _, p := range r.members {
		if p.c != nil && p.c.serves(r.now) {
			serving++
		}
	}
	if serving > 1 {
		r.t.Fatal("two members serve")
	}
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	const step = 25 * time.Millisecond
	for end := r.now.Mono + int64(d); r.now.Mono < end; {
		r.now.Mono += int64(step)
		r.now.WallMs += step.Milliseconds()
		for _, p := range r.members {
			if p.c != nil && !p.paused {
				p.c.Tick(r.now)
			}
		}
		r.flush()
	}
}

// await lets time pass until something is so, and returns how long that took.
func (r *rig) await(what string, is func() bool) time.Duration {
	r.t.Helper()
	began := r.now.Mono
	for !is() {
		if r.pass(25 * time.Millisecond); r.now.Mono-began > int64(time.Minute) {
			text := ""
			for _, p := range r.members {
				if p.c != nil {
					text += fmt.Sprintf("; %d: %+v", p.number, p.c.Status())
				}
			}
			r.t.Fatalf("waiting for %s took a minute%s", what, text)
		}
	}
	return time.Duration(r.now.Mono - began)
}

// put sends a put to a member.
func (r *rig) put(p *process, seq uint64, key string, value []byte) {
	r.t.Helper()
	m := causal.Put{ID: seq, Session: 1, Seq: seq, Leadership: p.c.Leadership(), Key: key,
		Value: causal.Value{Data: value}}.Message(app, self)
	p.c.Step(r.now, &m)
	r.flush()
}

// reply returns the answer to a put, if there is one.
func (r *rig) reply(id uint64) (causal.PutReply, bool) {
	for i := range r.sent {
		if m := &r.sent[i]; m.Kind == causal.KindPutReply && m.PutReply().ID == id {
			return m.PutReply(), true
		}
	}
	return causal.PutReply{}, false
}

// propagated returns the keys of the puts that were sent to the shard, in order, each once.
func (r *rig) propagated() (keys []string) {
	for i := range r.sent {
		if m := &r.sent[i]; m.Kind == causal.KindPutAfter && !slices.Contains(keys, m.PutAfter().Key) {
			keys = append(keys, m.PutAfter().Key)
		}
	}
	return keys
}

// crash stops a member.
func (p *process) crash() { p.c = nil }

package sim

import (
	"fmt"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// periodic are the messages that are sent whether or not a client does anything.
var periodic = map[causal.Kind]bool{
	causal.KindVectors: true, causal.KindSubscribe: true, causal.KindLatencies: true, causal.KindPing: true,
	causal.KindPong:     true,
	causal.KindFrontier: true, causal.KindLease: true, causal.KindLeaseGrant: true, causal.KindStreamOpen: true,
	causal.KindCut: true,
}

// trace shows what is delivered in a world, in terms of keys and values. A write is shown as KEY=VALUE; an HLC as the
// newest write at or below it.
type trace struct {
	world   *World
	print   func(line string)
	shown   func(*causal.Message) bool // nil: none is shown
	puts    map[putID]string           // writes by the request of the client, until the coordinator has named a version
	names   map[causal.Version]string  // writes by version
	keyHash map[uint64]string          // keys by hash
	// keyName and sidecarName replace names; a sidecar's "" stands for the usual one.
	keyName     func(key string) string
	sidecarName func(topology.Node) string
	unnamed     func(causal.Version) string // names a version that no message has named
}

type putID struct {
	sidecar topology.Node
	id      uint64
}

func newTrace(print func(line string)) *trace {
	return &trace{print: print, puts: map[putID]string{}, names: map[causal.Version]string{},
		keyHash: map[uint64]string{},
		keyName: func(key string) string { return key }, sidecarName: func(topology.Node) string { return "" },
		unnamed: func(causal.Version) string { return "an unknown write" }}
}

// follow makes the trace see what is delivered in a world.
func (t *trace) follow(w *World) {
	t.world = w
	w.delivered = t.delivered
}

// delivered learns what versions stand for, and shows m if it is to be shown.
func (t *trace) delivered(m *causal.Message) {
	t.learn(m)
	if t.shown != nil && t.shown(m) {
		t.print(t.line(m))
	}
}

func (t *trace) learn(m *causal.Message) {
	switch m.Kind {
	case causal.KindPut:
		p := m.Put()
		t.keyHash[topology.Hash(p.Key)] = t.key(p.Key)
		t.puts[putID{m.From, p.ID}] = t.write(p.Key, p.Value)
	case causal.KindPutReply:
		p := m.PutReply()
		if name, ok := t.puts[putID{m.To, p.ID}]; ok && p.Err == causal.OK {
			t.names[p.Version] = name
		}
	case causal.KindPutAfter:
		if p := m.PutAfter(); !p.Complete {
			t.names[p.Record.Version] = t.write(p.Key, p.Record.Value)
		}
	}
}

// line shows a message as `KIND FROM -> TO: FIELDS`.
func (t *trace) line(m *causal.Message) string {
	line := fmt.Sprintf("  %s %s -> %s", m.Kind, t.node(m.From), t.node(m.To))
	if fields := t.fields(m); fields != "" {
		line += ": " + fields
	}
	return line
}

// node names a node as the commands of scripts do.
func (t *trace) node(n topology.Node) string {
	if name := t.sidecarName(n); name != "" {
		return name
	}
	dc := t.world.topo.DCs[n.DC]
	name := fmt.Sprintf("%s.%s", dc.Name, n.Part)
	if n.Index > 0 || map[topology.Part]int{topology.Coordinator: dc.Coordinators, topology.Middleman: dc.Shards,
		topology.Cache: dc.Caches}[n.Part] > 1 {
		name += fmt.Sprintf("/%d", n.Index)
	}
	return name
}

func (t *trace) key(key string) string { return t.keyName(key) }

func (t *trace) write(key string, v causal.Value) string {
	value := string(v.Data)
	if v.Tombstone {
		value = "missing"
	}
	return t.key(key) + "=" + value
}

// versions names writes.
func (t *trace) versions(vs ...causal.Version) string {
	var all []string
	for _, v := range vs {
		name, known := t.names[v]
		if !known {
			name = t.unnamed(v)
		}
		all = append(all, name)
	}
	return orNothing(strings.Join(all, " "))
}

// newest names the newest write of an origin at or below an HLC; origin 0: of any.
func (t *trace) newest(h causal.HLC, origin topology.Origin) string {
	var found causal.Version
	for v := range t.names {
		if v.HLC <= h && (origin == 0 || v.Origin == origin) && found.Less(v) {
			found = v
		}
	}
	return orNothing(t.names[found])
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

// fieldList collects the fields of a message that differ from what is usual.
type fieldList []string

func (l *fieldList) add(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }

func (l *fieldList) addIf(condition bool, format string, args ...any) {
	if condition {
		l.add(format, args...)
	}
}

// fields shows the content of a message.
func (t *trace) fields(m *causal.Message) string {
	var l fieldList
	for _, add := range []func(*trace, *fieldList, *causal.Message){(*trace).readFields, (*trace).writeFields,
		(*trace).ringFields, (*trace).streamFields} {
		add(t, &l, m)
	}
	return strings.Join(l, ", ")
}

func (t *trace) readFields(l *fieldList, m *causal.Message) {
	switch m.Kind {
	case causal.KindGet:
		g := m.Get()
		l.add("%s", t.key(g.Key))
		l.addIf(g.Snapshot, "at the cut %s", t.newest(g.Cut, 0))
		l.addIf(g.Seen > 0, "seen %s", t.newest(g.Seen, 0))
		l.addIf(g.VersionOnly, "known %s", t.versions(g.Known))
	case causal.KindGetReply:
		r := m.GetReply()
		t.addRead(l, r.Key, r.Record, r.Status, r.Err)
		l.addIf(r.Hit, "hit")
	case causal.KindFill:
		f := m.Fill()
		l.add("%s", t.key(f.Key))
		l.addIf(f.Snapshot, "at the cut %s", t.newest(f.Cut, 0))
	case causal.KindFillReply:
		r := m.FillReply()
		l.add("#%d", m.StreamPosition().Seq)
		t.addRead(l, r.Key, r.Record, r.Status, r.Err)
		l.addIf(r.Next > 0, "until %s", t.newest(r.Next, 0))
	case causal.KindCut:
		l.add("up to %s", t.newest(m.CutNotice().Cut, 0))
	case causal.KindScanReply:
		r := m.ScanReply()
		l.addIf(r.Err != causal.OK, "%s", r.Err)
		for _, key := range r.Keys {
			l.add("%s", t.key(key))
		}
	case causal.KindCountReply:
		l.add("%d keys", m.CountReply().Keys)
	}
}

func (t *trace) addRead(l *fieldList, key string, r causal.Record, status causal.Status, err causal.ErrCode) {
	if err != causal.OK {
		l.add("%s", err)
		return
	}
	value := t.write(key, r.Value)
	l.add("%s", strings.TrimPrefix(value, "=")) // replies to a sidecar name the request, not the key
	l.add("%s", status)
}

func (t *trace) writeFields(l *fieldList, m *causal.Message) {
	switch m.Kind {
	case causal.KindPut:
		p := m.Put()
		l.add("%s", t.write(p.Key, p.Value))
		t.addDeps(l, p.Deps, nil)
	case causal.KindPutReply:
		if r := m.PutReply(); r.Err != causal.OK {
			l.add("%s", r.Err)
		} else {
			l.add("%s", t.versions(r.Version))
		}
	case causal.KindPutAfter:
		p := m.PutAfter()
		l.add("%s", t.versions(p.Record.Version))
		t.addDeps(l, p.Deps.Writes(), p.Deps.Lanes())
		l.addIf(p.Complete, "already complete")
	case causal.KindComplete:
		l.add("%s", t.versions(m.Complete().Versions...))
	case causal.KindPutAck:
		ack := m.PutAck()
		l.addIf(len(ack.Versions) > 0, "%s", t.versions(ack.Versions...))
		l.addIf(len(ack.Versions) == 0, "how far the storage has come")
	case causal.KindStable:
		marks := m.StableMarks()
		l.add("up to %s", t.newest(marks.SV, t.world.topo.OriginOf(m.From)))
		l.addIf(len(marks.Versions) > 0, "and %s", t.versions(marks.Versions...))
	case causal.KindLaneHello:
		l.addIf(m.LaneHello().AwayOnly, "who is away")
	case causal.KindLaneSync:
		sync, origin := m.LaneSync(), t.world.topo.OriginOf(m.From)
		l.add("sent up to %s", t.newest(sync.Newest, origin))
		l.add("acknowledged up to %s", t.newest(sync.AckedUpTo, origin))
	case causal.KindLogGet:
		l.add("%s", t.versions(m.LogGet().Version))
	case causal.KindLogReply:
		if r := m.LogReply(); r.Err != causal.OK {
			l.add("%s", r.Err)
		} else {
			l.add("%s", t.versions(r.Record.Version))
		}
	}
}

// addDeps shows what a write waits for: single writes, and the lanes of coordinators to other shards.
func (t *trace) addDeps(l *fieldList, writes, lanes []causal.Dep) {
	for _, d := range writes {
		l.add("after %s", t.versions(d.Version))
	}
	for _, d := range lanes {
		l.add("after the lane of %s up to %s", t.node(t.world.topo.CoordinatorOf(d.Version.Origin)),
			t.newest(d.Version.HLC, d.Version.Origin))
	}
}

// addDep shows a dependency of a staged put.
func (t *trace) addDep(l *fieldList, d causal.Dep, lane bool) {
	if lane {
		t.addDeps(l, nil, []causal.Dep{d})
	} else {
		t.addDeps(l, []causal.Dep{d}, nil)
	}
}

func (t *trace) ringFields(l *fieldList, m *causal.Message) {
	switch m.Kind {
	case causal.KindDepCheck:
		l.add("%s", t.versions(m.DepCheck().Version))
	case causal.KindDepStatus:
		d := m.DepStatus()
		l.add("%s is %s in %s", t.versions(d.Version), map[bool]string{false: "processed", true: "clean"}[d.Clean],
			t.world.topo.Rings[d.Ring].Name)
	case causal.KindDepProbe:
		p := m.DepProbe()
		t.addDep(l, p.Dep, p.Lane)
	case causal.KindDepMissing:
		d := m.DepMissing()
		t.addDep(l, d.Dep, d.Lane)
	case causal.KindFrontier:
		f := m.Frontier()
		for lane := range f.Lanes() {
			l.add("%s received up to %s and clean up to %s", t.node(t.world.topo.CoordinatorOf(lane.Origin)),
				t.newest(lane.Received, lane.Origin), t.newest(lane.Clean, lane.Origin))
		}
	case causal.KindVectors:
		for _, e := range m.Vectors().Entries {
			l.add("%s stable up to %s", t.node(t.world.topo.CoordinatorOf(e.Origin)), t.newest(e.SV, e.Origin))
		}
	case causal.KindSignedVectors:
		l.add("of %s", t.world.topo.DCs[m.SignedVectors().DC].Name)
	case causal.KindTerm:
		term := m.Term()
		l.add("term %d", term.Term)
		l.add("%s", map[bool]string{false: "left", true: "join"}[term.Join])
	case causal.KindTermReply:
		l.add("term %d", m.TermReply().Term)
	case causal.KindPull:
		l.add("list %d from %d", m.Pull().List, m.Pull().First)
		l.addIf(m.Pull().Copied, "all copied")
	case causal.KindPulled:
		p := m.Pulled()
		l.add("list %d from %d", p.List, p.First)
		for _, moved := range p.Moved {
			l.add("%s", t.write(moved.Key, moved.Record.Value))
		}
		l.addIf(p.ListEnd, "end of the list")
		l.addIf(p.LastList, "the last one")
	}
}

func (t *trace) streamFields(l *fieldList, m *causal.Message) {
	switch m.Kind {
	case causal.KindStreamOpen:
		l.add("epoch %d", m.StreamOpen().Epoch)
	case causal.KindStreamReset:
		l.add("above epoch %d", m.StreamReset().MaxEpoch)
	case causal.KindLease:
		l.add("received up to #%d", m.LeaseRenewal().AckedSeq)
	case causal.KindLeaseGrant:
		l.add("#%d", m.StreamPosition().Seq)
		l.add("for %s", m.LeaseGrant().Duration)
	case causal.KindInvalidate:
		i := m.Invalidate()
		l.add("#%d", m.StreamPosition().Seq)
		l.add("%s", t.keyHash[i.KeyHash])
		l.addIf(i.Next > 0, "copies are old from %s on", t.newest(i.Next, 0))
	case causal.KindInvalidateAck:
		l.add("received up to #%d", m.InvalidateAck().AckedSeq)
	}
}

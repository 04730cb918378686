package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Values of a format are accepted once all parts of the deployment that store or forward values are known to read it
// (PROTOCOL FMT). The leader asks the parts of its data center, and the leaders of the others about theirs. The other
// coordinators ask their leader. What is usable is so for good: the log remembers it, and a coordinator tells it to
// whoever asks.

// formats is what a coordinator knows of the formats that other parts read.
type formats struct {
	*shared
	host  formatsHost
	log   *logState
	lanes *laneTable

	said  map[topology.Node]saidFormat
	askAt int64
	since int64 // when this start began to ask; 0: it has not
	// least is what the part reads that reads least, as of the last tick or answer. Puts are refused by it.
	least  causal.FormatReply
	isLate bool // whoever has not answered by now is of an earlier version, or away
}

// saidFormat is what a part has said, and when (monotonic).
type saidFormat struct {
	causal.FormatReply
	at int64
}

// formatsHost is what formats asks of its coordinator.
type formatsHost interface{ writeCheckpoint(now causal.Now) }

const (
	// formatInterval is how often parts are asked until the formats of this version are usable.
	formatInterval = 250 * time.Millisecond
	// formatFreshFor is how long an answer counts: a part may be started again with an earlier version.
	formatFreshFor = 3 * time.Second
	// formatPatience is how long after a start a put of a format waits for answers, before it is refused for good.
	formatPatience = 2 * time.Second
)

// isAsking reports whether a later format may become usable.
func (f *formats) isAsking() bool {
	return f.log.isEstablished() && f.log.durable.Format < f.cfg.Types.Reads()
}

// tick asks those whose answer is missing, old, or not good enough.
func (f *formats) tick(now causal.Now) {
	if !f.isAsking() {
		return
	}
	if f.since == 0 {
		f.since = now.Mono
	}
	f.isLate = now.Mono-f.since >= int64(formatPatience)
	if now.Mono < f.askAt {
		return
	}
	f.askAt = now.Mono + int64(formatInterval)
	for _, n := range f.parts() {
		if s, ok := f.said[n]; !ok || s.Reads < f.cfg.Types.Reads() || now.Mono-s.at > int64(formatFreshFor/2) {
			f.Send(causal.FormatQuery{}.Message(f.cfg.Self, n))
		}
	}
	f.learn(now)
}

// nextTick returns when tick has something to do next.
func (f *formats) nextTick() int64 {
	if !f.isAsking() {
		return causal.Never
	}
	return f.askAt
}

// parts returns those that are asked. A data center that is excluded has nothing that counts.
func (f *formats) parts() (all []topology.Node) {
	if !f.isLeader() {
		return []topology.Node{f.cfg.Topology.Leader(f.cfg.Self.DC)}
	}
	f.cfg.Topology.Nodes(func(n topology.Node) {
		isMine := n.DC == f.cfg.Self.DC && n.Part != topology.Cache && n != f.cfg.Self
		isLeader := n.DC != f.cfg.Self.DC && n == f.cfg.Topology.Leader(n.DC)
		if (isMine || isLeader) && !f.isExcluded(n.DC) {
			all = append(all, n)
		}
	})
	return all
}

// isExcluded reports whether writes are completed without shards of a data center.
func (f *formats) isExcluded(dc topology.DC) bool {
	return slices.ContainsFunc(f.lanes.laneOrder, func(l *lane) bool { return l.excluded && l.mm.DC == dc })
}

// answer says what this coordinator reads. A leader tells other leaders of its data center, and the coordinators of
// that of all parts.
func (f *formats) answer(now causal.Now, to topology.Node) {
	r := f.own(now)
	if f.isLeader() && r.Reads > f.log.durable.Format {
		r = f.leastOf(now, to.DC == f.cfg.Self.DC)
	}
	r.Reads, r.Usable = max(r.Reads, f.log.durable.Format), f.log.durable.Format
	f.Send(r.Message(f.cfg.Self, to))
}

// own returns what the members of this coordinator's group read: each of them may take over.
func (f *formats) own(now causal.Now) causal.FormatReply {
	if f.cfg.MembersRead != nil {
		return f.cfg.MembersRead(now)
	}
	return causal.FormatReply{Reads: f.cfg.Types.Reads(), Lacking: f.cfg.Self, Heard: true}
}

// leastOf returns what the part reads that reads least: of the data center, or of everywhere.
func (f *formats) leastOf(now causal.Now, everywhere bool) causal.FormatReply {
	least := f.own(now)
	for _, n := range f.parts() {
		if n.DC != f.cfg.Self.DC && !everywhere {
			continue
		}
		if r := f.saidBy(now, n); r.Reads < least.Reads {
			least = r
		}
	}
	return least
}

// saidBy returns what a part has said, if that still counts.
func (f *formats) saidBy(now causal.Now, n topology.Node) causal.FormatReply {
	s, ok := f.said[n]
	if !ok || now.Mono-s.at > int64(formatFreshFor) && !f.cfg.Broken.Has(causal.FormatSaidOnce) {
		return causal.FormatReply{Lacking: n}
	}
	if s.Lacking == (topology.Node{}) {
		s.Lacking, s.Heard = n, true
	}
	return s.FormatReply
}

// take takes the answer of a part.
func (f *formats) take(now causal.Now, from topology.Node, r causal.FormatReply) {
	if !f.isAsking() {
		return
	}
	if slices.Contains(f.parts(), from) {
		f.said[from] = saidFormat{r, now.Mono}
		f.learn(now)
	}
}

// learn notes which formats are usable. They are once the log says so.
func (f *formats) learn(now causal.Now) {
	f.least = f.leastOf(now, true)
	usable := causal.Format(0)
	if f.isLeader() {
		usable = f.least.Reads
	}
	for _, s := range f.said {
		usable = max(usable, s.Usable)
	}
	usable = min(usable, f.cfg.Types.Reads())
	if usable > f.log.pending.Format {
		f.log.pending.Format = usable
		f.host.writeCheckpoint(now)
	}
}

// restore goes on from what the log says.
func (f *formats) restore() {
	if f.cfg.Broken.Has(causal.FormatForgotten) {
		f.log.durable.Format, f.log.pending.Format = 0, 0
	}
}

// refuses returns why a value cannot be accepted, if not all parts are known to read it.
func (f *formats) refuses(v *causal.Value) causal.ErrCode {
	return f.refusesFormat(f.cfg.Types.FormatOf(v))
}

func (f *formats) refusesFormat(need causal.Format) causal.ErrCode {
	switch {
	case need <= f.log.durable.Format, f.cfg.Broken.Has(causal.FormatUnasked):
		return causal.OK
	case f.least.Reads < need && (f.least.Heard || f.isLate):
		return causal.ErrFormat
	}
	return causal.ErrUnavailable
}

// lacking returns the part to name when a put is refused.
func (f *formats) lacking(err causal.ErrCode) topology.Node {
	if err != causal.ErrFormat {
		return topology.Node{}
	}
	return f.least.Lacking
}

// UsableFormat returns up to which format values are accepted.
func (c *Coordinator) UsableFormat() causal.Format { return c.log.durable.Format }

// FormatLacking returns a part that keeps the formats of this version from being usable; false: they are, or it is too
// early to tell.
func (c *Coordinator) FormatLacking() (part topology.Node, is bool) {
	f := &c.formats
	return f.least.Lacking, f.isAsking() && f.least.Reads < f.cfg.Types.Reads() && (f.least.Heard || f.isLate)
}

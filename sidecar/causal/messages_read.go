package causal

import "github.com/causalstore/causalstore/topology"

// Get asks for a key. A sidecar sends it to a middleman or to a cache.
type Get struct {
	// ID comes back in the reply; 0 asks a cache to fetch the key and drops the reply.
	ID  uint64
	Key string
	// Cut is an HLC at or below which everything is complete. Without Snapshot, the newest version at or below it is
	// wanted; 0 asks for the newest version of all.
	Cut HLC
	// Snapshot asks for the newest version at or below the greatest of Cut, At and Seen.
	Snapshot bool
	// Seen is the greatest HLC that the session has seen, if it is bound or reads at a cut; staged puts at or below it
	// are waited for.
	Seen HLC
	// At, with Snapshot, is the HLC up to which the session reads, if that is above Seen and not all writes are known
	// to be complete up to there: NoLimit, or of a session that is bound the cut that it reads at; else 0.
	At HLC
	// Base, with Snapshot: in-flight versions above it are passed over. The newest complete one below them is returned,
	// or the newest at or below Base whether or not that is complete. 0: none is passed over.
	Base HLC
	// VersionOnly asks for the version alone if it is still Known.
	VersionOnly bool
	Known       Version
	// NearMax asks a cache for a copy that the sidecar may keep, if key and value have at most so many bytes; 0: for
	// none.
	NearMax uint64
}

// Message returns g as a message.
func (g Get) Message(from, to topology.Node) Message {
	f := Fields{ID: g.ID, Key: g.Key, Cut: g.Cut, Older: g.Snapshot, HLC: g.Seen, VersionOnly: g.VersionOnly,
		Record: Record{Version: g.Known}, Session: g.NearMax, Seq: uint64(g.Base)}
	if g.At > g.Seen { // who does not know At takes it for Seen: it reads up to there, and waits for more than it must
		f.HLC, f.Hash = g.At, 1+uint64(g.Seen)
	}
	return Message{Kind: KindGet, From: from, To: to, fields: f}
}

// UpTo returns the HLC up to which a snapshot read is to see everything.
func (g *Get) UpTo() HLC { return max(g.Cut, g.At, g.Seen) }

// From returns the HLC that a version must be the newest at or below, or be newer, to answer a snapshot read.
func (g *Get) From() HLC {
	if g.Base == 0 {
		return g.UpTo()
	}
	return min(max(g.Cut, g.Seen, g.Base), g.UpTo())
}

// Get returns the content of a message of KindGet.
func (m *Message) Get() Get {
	g := Get{ID: m.fields.ID, Key: m.fields.Key, Cut: m.fields.Cut, Snapshot: m.fields.Older, Seen: m.fields.HLC,
		VersionOnly: m.fields.VersionOnly, Known: m.fields.Record.Version, NearMax: m.fields.Session,
		Base: HLC(m.fields.Seq)}
	if m.fields.Hash != 0 {
		g.At, g.Seen = g.Seen, HLC(m.fields.Hash-1)
	}
	return g
}

// GetReply answers a Get.
type GetReply struct {
	ID     uint64
	Key    string
	Record Record
	// VersionOnly says that the value is left out: the version is the one that was Known.
	VersionOnly bool
	Status      Status
	// Unstable are the in-flight writes of a merging value, of which Status is InFlight if there are any. Of a register
	// that is its version.
	Unstable []Version
	// Next is the HLC of the version after the one returned, if the middleman knows of one; 0 otherwise.
	Next HLC
	// Past is the greatest HLC in the past of the version; 0: unknown, so anything below its own.
	Past HLC
	// Ring is where it was read; topology.NoRing with Hit.
	Ring topology.RingID
	// Hit says that a cache answered from memory.
	Hit bool
	Err ErrCode
	// Map is the slot map in use at the sender, with ErrMoved.
	Map topology.MapID
	// Stream is the place of the reply on a near stream of the cache, which has registered the copy; the zero
	// StreamPosition: the sidecar must not keep it.
	Stream StreamPosition
}

// Message returns r as a message.
func (r GetReply) Message(from, to topology.Node) Message {
	return Message{Kind: KindGetReply, From: from, To: to,
		fields: Fields{ID: r.ID, Key: r.Key, Record: r.Record, VersionOnly: r.VersionOnly, Status: r.Status,
			Cut: r.Next, Ring: r.Ring, Hit: r.Hit, Err: r.Err, Map: r.Map,
			Epoch: r.Stream.Epoch, Seq: r.Stream.Seq, HLC: r.Past, Versions: r.Unstable}}
}

// GetReply returns the content of a message of KindGetReply.
func (m *Message) GetReply() GetReply {
	return GetReply{ID: m.fields.ID, Key: m.fields.Key, Record: m.fields.Record, VersionOnly: m.fields.VersionOnly,
		Status: m.fields.Status, Next: m.fields.Cut, Ring: m.fields.Ring, Hit: m.fields.Hit,
		Err: m.fields.Err, Map: m.fields.Map, Stream: m.StreamPosition(), Past: m.fields.HLC,
		Unstable: m.fields.Versions}
}

// Fill asks a middleman for a value that a cache may keep. Cut and Snapshot mean what they mean in Get.
type Fill struct {
	ID       uint64
	Key      string
	Cut      HLC
	Snapshot bool
	// Seen, with Snapshot, is the HLC up to which the newest version is wanted. Base is that of Get.
	Seen, Base HLC
	// Ahead asks for the newest version at or below Seen although that may be in-flight: the cache keeps it, and serves
	// it from memory when it is complete.
	Ahead bool
	// Epoch is that of the stream on which the reply is to come.
	Epoch uint64
}

// Message returns f as a message.
func (f Fill) Message(from, to topology.Node) Message {
	return Message{Kind: KindFill, From: from, To: to,
		fields: Fields{ID: f.ID, Key: f.Key, Cut: f.Cut, Older: f.Snapshot, HLC: f.Seen, Clean: f.Ahead, Epoch: f.Epoch,
			Seq: uint64(f.Base)}}
}

// Fill returns the content of a message of KindFill.
func (m *Message) Fill() Fill {
	return Fill{ID: m.fields.ID, Key: m.fields.Key, Cut: m.fields.Cut, Snapshot: m.fields.Older, Seen: m.fields.HLC,
		Ahead: m.fields.Clean, Epoch: m.fields.Epoch, Base: HLC(m.fields.Seq)}
}

// FillReply answers a Fill, on the stream.
type FillReply struct {
	ID     uint64
	Key    string
	Record Record
	// Status is Stable only if the cache may keep the value: the middleman has registered the copy.
	Status Status
	// Unstable is that of GetReply.
	Unstable []Version
	// Registered says the same of an in-flight version that was asked for ahead: the cache may keep it, and serves it
	// when it is complete.
	Registered bool
	// Next is the HLC of the version after the one returned; 0: there is none.
	Next HLC
	// Past is the greatest HLC in the past of the version; 0: unknown, so anything below its own.
	Past HLC
	Ring topology.RingID
	Err  ErrCode
	// Map is the slot map in use at the sender, with ErrMoved.
	Map topology.MapID
}

// Message returns r as a message; its place on the stream is given later.
func (r FillReply) Message(from, to topology.Node) Message {
	return Message{Kind: KindFillReply, From: from, To: to,
		fields: Fields{ID: r.ID, Key: r.Key, Record: r.Record, Status: r.Status, Clean: r.Registered, Cut: r.Next,
			Ring: r.Ring, Err: r.Err, Map: r.Map, HLC: r.Past,
			Versions: r.Unstable}}
}

// FillReply returns the content of a message of KindFillReply.
func (m *Message) FillReply() FillReply {
	return FillReply{ID: m.fields.ID, Key: m.fields.Key, Record: m.fields.Record, Status: m.fields.Status,
		Registered: m.fields.Clean, Next: m.fields.Cut, Ring: m.fields.Ring, Err: m.fields.Err, Map: m.fields.Map,
		Past:     m.fields.HLC,
		Unstable: m.fields.Versions}
}

// CutNotice tells a cache of a cut that sessions will soon read at, so that it can fetch what the cut outdates.
type CutNotice struct{ Cut HLC }

// Message returns c as a message.
func (c CutNotice) Message(from, to topology.Node) Message {
	return bodyMessage(KindCut, from, to, &c)
}

// CutNotice returns the content of a message of KindCut.
func (m *Message) CutNotice() CutNotice { return bodyOf[CutNotice](m) }

// Visit implements Body.
func (c *CutNotice) Visit(v BodyVisitor) {
	v.Time(BodyField{Number: 1, Name: "cut", rule: anything, before: sharedCut}, &c.Cut)
}

// Count asks a middleman how many keys it holds.
type Count struct{ ID uint64 }

// Message returns c as a message.
func (c Count) Message(from, to topology.Node) Message { return bodyMessage(KindCount, from, to, &c) }

// Count returns the content of a message of KindCount.
func (m *Message) Count() Count { return bodyOf[Count](m) }

// Visit implements Body.
func (c *Count) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &c.ID)
}

// CountReply answers a Count.
type CountReply struct {
	ID   uint64
	Keys uint64
	Err  ErrCode
}

// Message returns c as a message.
func (c CountReply) Message(from, to topology.Node) Message {
	return bodyMessage(KindCountReply, from, to, &c)
}

// CountReply returns the content of a message of KindCountReply.
func (m *Message) CountReply() CountReply { return bodyOf[CountReply](m) }

// Visit implements Body.
func (c *CountReply) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &c.ID)
	visitNumber(v, BodyField{Number: 2, Name: "keys", rule: anything, before: sharedSeq}, &c.Keys)
	visitNumber(v, BodyField{Number: 3, Name: "err", rule: knownErr, before: sharedErr}, &c.Err)
}

func (c *CountReply) requestID() uint64 { return c.ID }

// Scan asks a middleman for the names of some of the keys that it holds, or a home for those of its incomplete writes.
type Scan struct {
	ID uint64
	// After is Next of the reply before; empty for the first keys.
	After string
	// Place, if it is not 0, is Place of the reply before, and After is empty.
	Place uint64
	// Limit is about how many keys the reply may name.
	Limit uint64
	// Seen is the greatest HLC that the session has seen, if it is bound; the keys of puts at or below it that are here
	// and not processed yet are named too.
	Seen HLC
	// Map is the slot map that the scan uses.
	Map topology.MapID
	// Homes is how many homes the data center has, in a scan at a home, as the sender knows it; 0: it does not say.
	Homes uint64
	// Wanted, from a middleman that has lost these keys and no others, are those that it asks for. One that has lost
	// some of them refuses; one that has lost others names what it has, and refuses who does not say what is wanted.
	Wanted KeyRanges
}

// Message returns s as a message.
func (s Scan) Message(from, to topology.Node) Message { return bodyMessage(KindScan, from, to, &s) }

// Scan returns the content of a message of KindScan.
func (m *Message) Scan() Scan { return bodyOf[Scan](m) }

// Visit implements Body.
func (s *Scan) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &s.ID)
	v.Text(BodyField{Number: 2, Name: "after", rule: anything, before: sharedKey}, &s.After)
	visitNumber(v, BodyField{Number: 3, Name: "limit", rule: anything, before: sharedSeq}, &s.Limit)
	v.Time(BodyField{Number: 4, Name: "seen", rule: anything, before: sharedHLC}, &s.Seen)
	visitNumber(v, BodyField{Number: 5, Name: "map", rule: anything, before: sharedMap}, &s.Map)
	visitParts(v, BodyField{Number: 6, Name: "wanted", rule: keyRanges, before: sharedRanges}, (*[]KeyRange)(&s.Wanted))
	visitNumber(v, BodyField{Number: 70, Name: "place", rule: anything}, &s.Place)
	visitNumber(v, BodyField{Number: 80, Name: "homes", rule: anything}, &s.Homes)
}

func (s *Scan) slotMap() topology.MapID { return s.Map }

func (s *Scan) key() string { return s.After }

// ScanReply answers a Scan. It names every key that was in storage all the time since the Scan with an empty After,
// once Next is empty, and perhaps others: only a read tells whether a key exists.
type ScanReply struct {
	ID   uint64
	Keys []string
	// Next is where to continue; empty: these were the last keys. Place is a number under which the sender remembers it
	// for a while, for whoever asks.
	Next  string
	Place uint64
	Err   ErrCode
	// Map is the slot map in use at the sender.
	Map topology.MapID
	// Horizon is the tombstone horizon of the sender: keys that were deleted and are not named were deleted at or below
	// it. TellsHorizon is not set by versions that do not tell it.
	Horizon      HLC
	TellsHorizon bool
	// Lacks, with ErrDataLost, are the keys that the sender has lost, if it has all others.
	Lacks KeyRanges
}

// Message returns r as a message.
func (r ScanReply) Message(from, to topology.Node) Message {
	return bodyMessage(KindScanReply, from, to, &r)
}

// ScanReply returns the content of a message of KindScanReply.
func (m *Message) ScanReply() ScanReply { return bodyOf[ScanReply](m) }

// Visit implements Body.
func (r *ScanReply) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &r.ID)
	v.Texts(BodyField{Number: 2, Name: "keys", rule: anything, before: sharedNames}, &r.Keys)
	v.Text(BodyField{Number: 3, Name: "next", rule: anything, before: sharedKey}, &r.Next)
	visitNumber(v, BodyField{Number: 4, Name: "err", rule: knownErr, before: sharedErr}, &r.Err)
	visitNumber(v, BodyField{Number: 5, Name: "map", rule: anything, before: sharedMap}, &r.Map)
	v.Time(BodyField{Number: 6, Name: "horizon", rule: anything, before: sharedHLC}, &r.Horizon)
	v.Flag(BodyField{Number: 7, Name: "tells_horizon", rule: anything, before: sharedHit}, &r.TellsHorizon)
	visitParts(v, BodyField{Number: 8, Name: "lacks", rule: keyRanges, before: sharedRanges}, (*[]KeyRange)(&r.Lacks))
	visitNumber(v, BodyField{Number: 70, Name: "place", rule: anything}, &r.Place)
}

func (r *ScanReply) slotMap() topology.MapID { return r.Map }

func (r *ScanReply) key() string { return r.Next }

func (r *ScanReply) requestID() uint64 { return r.ID }

// RequestID returns the id of the request that a reply to a sidecar answers.
func (m *Message) RequestID() uint64 {
	if b, ok := m.body.(interface{ requestID() uint64 }); ok {
		return b.requestID()
	}
	return m.fields.ID
}

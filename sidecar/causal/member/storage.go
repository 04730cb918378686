package member

import (
	"errors"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

// StorageConfig configures a Storage.
type StorageConfig struct {
	Self     topology.Node // the member
	Topology *topology.Topology
	// Volume is the id of the volume of the log. Damaged says that it holds less than it had acknowledged.
	Volume  uint64
	Damaged bool
	// Found is what the storage says about itself; zero: nothing. Empty says that it holds no key and no metadata of a
	// middleman.
	Found Applied
	Empty bool
	// MaxLogBytes bounds the log; 0: MaxLogBytesInMemory. RetainBytes of applied changes are kept for members that were
	// away; 0: 32 MiB.
	MaxLogBytes, RetainBytes int
	// Reads is up to which format this member reads values.
	Reads  causal.Format
	Broken causal.Mutations
	// Tune changes the options of the group; nil: the defaults.
	Tune func(*group.Options)
}

// The bounds of a Storage.
const (
	defaultRetainBytes = 32 << 20
	// maxUnappliedBytes is how much may be committed and not applied: beyond, the storage counts as one that does not
	// respond. A primary takes no more changes from half of it on.
	maxUnappliedBytes = 64 << 20
	// maxWaitingBytes bounds the changes that the log does not take yet.
	maxWaitingBytes = 64 << 20
	// A task applies about maxApplyBytes, and maxApplyChanges at most; one larger change makes a task of its own.
	maxApplyBytes   = 1 << 20
	maxApplyChanges = 1024
	// stalledAfter is when a storage counts as one that does not respond.
	stalledAfter = int64(time.Second)
	// fullFor is how long a storage counts as full after it was.
	fullFor = int64(time.Second)
	// laggingAfter is when a storage that applies nothing is no longer one to serve from.
	laggingAfter = stalledAfter / 2
	// retryTaskAfter is the pause before a task that failed is repeated.
	retryTaskAfter = int64(100 * time.Millisecond)
)

// Storage is the state machine of one member of a shard's group (PROTOCOL SGR): a group.Group whose
// records are changes, and what applies them to the local storage when they are committed.
//
// Invariants: the storage has exactly the changes up to applied.Position, but while it is copied, and perhaps those of
// the task that is under way. What is committed is applied in order and once. The log is not collected beyond marker,
// which the storage holds. While the storage is copied, and until its marker says that it is complete, the group has no
// foundation, so it acknowledges nothing.
type Storage struct {
	groupMember
	cfg     StorageConfig
	failure error // the log cannot be read, or the storage belongs to somebody else

	// applied is what the storage has; marker is what it says that it has. They differ by records without changes.
	applied, marker Applied
	attempted       uint64 // changes up to here may be in the storage
	counted         uint64 // queued is the size of the committed records up to here that are not applied, in bytes
	queued          int

	responds   bool  // as the host says
	cannot     bool  // the host cannot serve with it
	fullUntil  int64 // it has no room, as far as is known
	progressAt int64 // when something was applied last, or nothing was to be
	tickedAt   int64

	task    *task // nil: none is under way
	tasks   uint64
	retryAt int64
	doubted bool // a task has failed: what it was to write may be there
	lastRan TaskKind

	giveUp    bool   // the volume is to be emptied
	leads     bool   // the group serves here
	leadsFrom uint64 // this was the end of its log then
	session   uint64
	sessions  uint64
	proposed  proposals
	sources   []*copySource
	copying   *copying // nil: the storage is not copied
	copies    uint64
	cleared   bool   // the storage was emptied since, as its group is given up
	emptied   uint64 // index of the entry with which the log was, too; 0: it was not since this start
	outbox    []causal.Message
	hasInput  bool // since the last Take
}

// NewStorage starts a member on a disk that holds image.
func NewStorage(cfg StorageConfig, image *group.Image, now causal.Now) *Storage {
	if cfg.MaxLogBytes == 0 {
		cfg.MaxLogBytes = MaxLogBytesInMemory
	}
	if cfg.RetainBytes == 0 {
		cfg.RetainBytes = defaultRetainBytes
	}
	cfg.RetainBytes = min(cfg.RetainBytes, cfg.MaxLogBytes/2)
	s := &Storage{cfg: cfg, marker: cfg.Found, responds: true, progressAt: now.Mono, tickedAt: now.Mono}
	s.groupMember = groupMember{self: cfg.Self, topo: cfg.Topology, now: now, settle: s.settleStorage}
	s.formats = newMemberFormats(cfg.Reads, cfg.Broken)
	o := group.DefaultOptions(group.ID{Name: nameOf(cfg.Self), Volume: cfg.Volume})
	o.Broken, o.External, o.MaxLogBytes = cfg.Broken, true, cfg.MaxLogBytes
	// The mark of this volume for a group that it was to create is no data: if the group was created, the log or the
	// register knows.
	o.Occupied = !cfg.Empty || cfg.Found != Applied{} && cfg.Found != Applied{Group: cfg.Volume, Volume: cfg.Volume}
	o.Blank = cfg.Empty && (cfg.Found == Applied{} || cfg.Found.Volume == cfg.Volume) || cfg.Found.Copying &&
		cfg.Found.Volume == cfg.Volume
	o.Damaged = cfg.Damaged || !continues(&cfg.Found, cfg.Volume, image)
	if !o.Damaged && cfg.Found.Volume == cfg.Volume && !cfg.Found.Copying {
		o.Foundation, o.Applied = cfg.Found.Group, cfg.Found.Position
		s.applied = cfg.Found
	}
	if cfg.Tune != nil {
		cfg.Tune(&o)
	}
	s.proposed.maxRecordBytes = o.MaxRecordBytes
	s.counted, s.attempted = s.applied.Position, s.applied.Position
	s.group = group.New(o, image, now)
	s.group.SetDesired(now, s.desired())
	s.group.SetReplaceable(s.hasOtherRings())
	s.settle(now)
	return s
}

// hasOtherRings reports whether what the shard holds is in other rings too, from which it would get it back.
func (s *Storage) hasOtherRings() bool { return len(s.topo.Rings) > 1 }

// SetWhole says whether what the members hold is all that the shard should have: it is not while the shard gets its
// data back from other rings.
func (s *Storage) SetWhole(whole bool) { s.group.SetWhole(whole) }

// AcceptLoss says that a person gives up what the members held, whose volumes are all lost, or absent: a group that has
// nothing begins at this member, and gets the data from other rings.
func (s *Storage) AcceptLoss(now causal.Now) error {
	s.now = now
	err := s.group.AcceptLoss(now)
	s.settle(now)
	return err
}

// continues reports whether a storage with a marker and a log can be those of one member. If not, one of them has lost
// something.
func continues(found *Applied, volume uint64, image *group.Image) bool {
	switch {
	case found.Volume != volume:
		return image.Last() == 0 // the log is new
	case found.Copying:
		return true // it was a member at no time since: group.New sees to it that it is none
	}
	stamp, known := image.StampAt(found.Position)
	return known && stamp == found.Stamp
}

// Step handles one message of another member. Those to the node are for the middleman's machine, while this member
// serves.
func (s *Storage) Step(now causal.Now, m *causal.Message) {
	s.now = now
	switch {
	case m.Kind == causal.KindGroup:
		s.stepGroup(now, m)
	case m.Kind == causal.KindCopy:
		s.stepCopy(now, m)
	case s.IsAboutFormats(m):
		s.stepFormats(now, m)
	}
	s.settle(now)
}

// Tick does what is due.
func (s *Storage) Tick(now causal.Now) {
	s.now = now
	if now.Mono-s.tickedAt > stalledAfter/2 {
		s.progressAt = now.Mono // this process had stopped, not the storage
	}
	s.tickedAt = now.Mono
	s.askFormats(now)
	s.group.Tick(now)
	s.settle(now)
}

// NextTick returns when Tick has something to do next, if no input comes before. A group with a register ticks often
// enough for everything else here than a copy.
func (s *Storage) NextTick(now causal.Now) int64 {
	next := s.group.NextTick(now)
	if s.copying != nil {
		next = min(next, s.copying.pages.NextAsk())
	}
	return next
}

// LinkUp says that another member of the group can be reached again: what was on its way there may be lost.
func (s *Storage) LinkUp(now causal.Now, n topology.Node) {
	s.now = now
	if n.Member != 0 && n.Group() == s.self.Group() {
		s.group.LinkUp(now, nameOf(n))
		s.copyLinkUp(n)
	}
	s.settle(now)
}

// MembersRead returns what the members of the group read, of which Lacking reads least.
func (s *Storage) MembersRead(now causal.Now) causal.FormatReply {
	s.hasInput = true
	return s.membersRead(now)
}

// NoteFullDisk says that the disk of the log has no room for the entries on their way, which are tried again.
func (s *Storage) NoteFullDisk() { s.group.NoteFullDisk() }

// SetDiskFull says whether the log on the disk has no room. Changes then wait, and nothing is refused: those who have
// sent them bound them.
func (s *Storage) SetDiskFull(bool) {}

// Appended says that the entries up to an index are durable on the disk.
func (s *Storage) Appended(now causal.Now, index uint64) {
	s.now = now
	s.group.Appended(now, index)
	s.settle(now)
}

// SetStorageResponds says whether the local storage responds, as the host knows besides from tasks.
func (s *Storage) SetStorageResponds(now causal.Now, ok bool) {
	s.now, s.responds = now, ok
	s.settle(now)
}

// SetCannotServe says whether the middleman does not start on this member, e.g. because its topology is older than the
// storage. Then another member is to serve.
func (s *Storage) SetCannotServe(now causal.Now, cannot bool) {
	s.now, s.cannot = now, cannot
	s.settle(now)
}

// NoteStorageFull says that the local storage has no room for changes. It responds: what is full here is as full on the
// other members, which have the same keys, or another one serves; and this member falls behind until too much is
// queued.
func (s *Storage) NoteStorageFull(now causal.Now) {
	s.now, s.progressAt, s.fullUntil = now, now.Mono, now.Mono+fullFor
	s.settle(now)
}

// Take appends the messages to be sent to other members to dst. It costs nothing without an input since the last one.
func (s *Storage) Take(dst []causal.Message) []causal.Message {
	if !s.hasInput {
		return dst
	}
	s.hasInput = false
	dst = append(s.takeGroup(dst), s.outbox...)
	s.outbox = causal.Recycle(s.outbox)
	return dst
}

// Leadership returns the leadership in which this member serves; none unless it serves and, at the last input, held the
// lease.
func (s *Storage) Leadership() causal.Leadership {
	if s.session == 0 {
		return causal.Leadership{}
	}
	return s.group.Leadership(s.now)
}

// Session returns the number of the session in which this member serves, counted from 1 since the start; 0: it does not
// serve. It serves when it is the primary and its storage has everything that was committed before.
func (s *Storage) Session() uint64 { return s.session }

// HoldsLease reports whether this member serves, and no other one can.
func (s *Storage) HoldsLease(now causal.Now) bool { return s.session != 0 && s.group.HoldsLease(now) }

// LogBytes returns the size of the log with what waits to be appended, in bytes.
func (s *Storage) LogBytes() int { return s.group.LogBytes() + s.proposed.waitingBytes }

// Applied returns what the storage says about itself.
func (s *Storage) Applied() Applied { return s.marker }

// Failure returns why this member cannot take part although the group could; nil: nothing keeps it.
func (s *Storage) Failure() error { return s.failure }

// settleStorage takes in what the group says, and does what can be done.
func (s *Storage) settleStorage(now causal.Now) {
	s.hasInput = true
	s.events = s.group.Events(s.events[:0])
	for i := range s.events {
		s.handle(now, &s.events[i])
	}
	s.countCommitted()
	s.serve()
	s.proposed.appendTo(now, s.group, s.queued)
	if s.cfg.Broken.Has(causal.ServeUnapplied) && s.session != 0 && s.applied.Position < s.leadsFrom {
		// else the first change that the middleman waits for makes it wait for all earlier ones
		s.proposed.report(s.group.Commit())
	}
	s.advanceCopy(now)
	s.advanceGivers(now)
	s.startTask(now)
	s.watchStorage(now)
	s.collect(now)
}

func (s *Storage) handle(now causal.Now, e *group.Event) {
	switch e.Kind {
	case group.Lead:
		s.leads, s.leadsFrom, s.cleared = true, e.Position, false
	case group.Stop:
		s.leads, s.session, s.sources = false, 0, nil
		s.proposed.reset()
	case group.Reset:
		s.giveUp = true
	case group.NeedsCopy:
		s.beginCopy(now, e.From)
	}
}

// serve begins a session when the storage has everything that was committed before the group served here.
func (s *Storage) serve() {
	if s.leads && s.session == 0 && (s.applied.Position >= s.leadsFrom || s.cfg.Broken.Has(causal.ServeUnapplied)) {
		s.sessions++
		s.session = s.sessions
		s.proposed.begin(s.group.Last())
	}
}

// countCommitted adds what was committed lately to what is queued for the storage.
func (s *Storage) countCommitted() {
	s.counted = max(s.counted, s.group.Base()-1)
	for commit := s.group.Commit(); s.counted < commit; s.counted++ {
		s.queued += len(s.group.At(s.counted + 1).Data)
	}
}

// watchStorage makes this member one that keeps silent while its storage does not respond, and one that others are
// preferred to while it is full or lags.
func (s *Storage) watchStorage(now causal.Now) {
	if s.copying != nil || !s.group.IsFounded() || s.applied.Position >= s.group.Commit() {
		s.progressAt = now.Mono
	}
	limit := maxUnappliedBytes
	if s.group.IsImpaired() {
		limit /= 2
	}
	s.group.SetUnfit(now, !s.responds || s.cannot || now.Mono < s.fullUntil || now.Mono-s.progressAt > laggingAfter)
	s.group.SetImpaired(now, !s.responds || now.Mono-s.progressAt > stalledAfter || s.queued > limit)
}

// collect collects the log as far as the storage has it, but for what members that were away may need, and those that
// copy the storage do.
func (s *Storage) collect(now causal.Now) {
	if s.leads {
		s.group.CollectBeyond(now, s.cfg.RetainBytes, min(s.marker.Position, s.heldByGivers())+1)
	}
}

// fail notes why this member cannot take part.
func (s *Storage) fail(format string, args ...any) { s.failure = fmt.Errorf(format, args...) }

// errNotServing is why Propose refuses.
var errNotServing = errors.New("this member of the shard's group does not serve; ask the others")

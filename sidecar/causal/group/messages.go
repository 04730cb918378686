package group

// Message is one message between members.
type Message struct {
	From, To ID
	Body     Body
}

// Body is the content of a Message: *Frame, *Ack, *Report, *Probe or *Answer. Contents are not changed after they were
// sent.
type Body interface{ isBody() }

// Frame takes records from a primary to a member or a joining member. Without records it is a heartbeat.
//
// Harmless if lost: it is sent again. If late or twice: a member that takes part in a higher session refuses it, and
// within one session the primary's log only grows, so it repeats what the member has.
type Frame struct {
	Session Stamp
	Config  Config // the highest that is settled
	Cluster string
	// The record at Position has Stamp, and Records come after it.
	Position uint64
	Stamp    Stamp
	Records  []Record
	Commit   uint64
	Base     uint64 // records before it are collected
	// Reset asks a joining member whose log does not reach Position to start it there.
	Reset bool
	// Number counts the frames of the session to this member, and Acked is what the member had acknowledged before.
	Number, Acked uint64
	// SentAt is the primary's clock, which the Ack returns. Released: it asks for no grant.
	SentAt   int64
	Released bool
}

// Ack says that a member's log is the primary's up to Match, durably.
//
// Harmless if late or twice: within a session of the primary that stays true for as long as the volume lives.
type Ack struct {
	Session Stamp
	Match   uint64
	// SentAt is that of the last frame; Granted: see Group.HoldsLease.
	SentAt  int64
	Granted bool
	// Resigning: the member is about to stop, and is not to be the primary.
	Resigning bool
	// Unfit: its user could not serve, or not well.
	Unfit bool
	// Impaired: its user's storage does not respond, and it keeps silent soon: the others are to go on without it.
	Impaired bool
}

// Report says that the log of a member does not have the record that a frame follows, and what it has. Harmless if
// late: the primary sends again from where the logs are known to be the same. Number and Acked are those of the frame:
// what was acknowledged before a frame was sent is there when it arrives, unless the disk has lost it.
type Report struct {
	Session            Stamp
	Number, Acked      uint64
	Base, Last, Commit uint64
	Runs               []Run
}

// Probe asks a member who it is and what it knows. Join: the sender is in no configuration and would like to be.
type Probe struct {
	Number uint64
	Group  uint64 // that of the sender; 0: it knows none
	Join   bool
}

// Answer answers a Probe, and a Frame of a session that is over or of another volume.
type Answer struct {
	Number  uint64 // of the probe, or 0
	Cluster string
	Config  Config
	Session Stamp
	// Fresh: the volume is new, and nothing was ever written to it. Damaged: it has lost records.
	Fresh, Damaged bool
	// Blank: the volume is new, as is that of the user's storage, and the member knows of a group from the others only.
	Blank bool
	// Serving: it is the primary and serves.
	Serving bool
	// Whole: it serves, its group has taken the place of another one, and its user's storage has all that it should.
	Whole bool
}

func (*Frame) isBody()  {}
func (*Ack) isBody()    {}
func (*Report) isBody() {}
func (*Probe) isBody()  {}
func (*Answer) isBody() {}

package contract

// AdminSocket is the name of the unix socket in the data folder of a coordinator, or of a middleman that may have
// several members. Who may open it may decide for the group: it is for the user that the part runs as.
const AdminSocket = "admin.sock"

// Paths at the AdminSocket.
const (
	// PathGroup answers with a Group.
	PathGroup = "/group"
	// PathAcceptRegister, with POST and the query parameter ParamEpoch, makes a frozen group believe its register
	// again.
	PathAcceptRegister = "/accept-register"
	// PathLoss answers with a Loss.
	PathLoss = "/loss"
	// PathAcceptLoss, with POST and the query parameter ParamEpoch, gives up a log that is lost.
	PathAcceptLoss = "/accept-loss"
	// ParamEpoch is the epoch that the person has seen who decides.
	ParamEpoch = "epoch"
)

// GroupRole is what a member of a group does (PROTOCOL GRP).
type GroupRole string

// The roles of a member.
const (
	// GroupStarting: its start is not durable yet.
	GroupStarting GroupRole = "starting"
	// GroupOutside: it is in no configuration, and asks to join.
	GroupOutside   GroupRole = "outside"
	GroupFollowing GroupRole = "following"
	// GroupElecting: it does not hear of its primary, and tries to take over.
	GroupElecting GroupRole = "electing"
	// GroupAligning: it is the primary, and brings the logs of the others in step with its own before it serves.
	GroupAligning GroupRole = "aligning"
	GroupServing  GroupRole = "serving"
	// GroupDamaged: it has lost records that it had acknowledged, and waits until the others do without it.
	GroupDamaged GroupRole = "damaged"
)

// GroupProblem is what keeps a group from changing, or a member out of it.
type GroupProblem string

// The problems of a group, or of a member.
const (
	// GroupFrozen: the register is another one, or older than the group. Nothing is changed until a person accepts it.
	GroupFrozen GroupProblem = "frozen"
	// GroupLost: the volumes of all members are gone or damaged.
	GroupLost GroupProblem = "lost"
	// GroupDiverged: this member's volume belongs to another group.
	GroupDiverged GroupProblem = "diverged"
)

// GroupMemberState is how the primary finds another member.
type GroupMemberState string

// The states of another member.
const (
	MemberInStep GroupMemberState = "inStep"
	// MemberJoining: it is sent the log, and is not in the group yet.
	MemberJoining GroupMemberState = "joining"
	// MemberSilent: nothing is heard of it.
	MemberSilent GroupMemberState = "silent"
	// MemberStalled: it answers, and does not make durable what it is sent.
	MemberStalled GroupMemberState = "stalled"
	// MemberDamaged: it has lost records that it had acknowledged.
	MemberDamaged GroupMemberState = "damaged"
	// MemberLost: its volume is gone; another one has its name.
	MemberLost GroupMemberState = "lost"
)

// GroupMember is what the primary knows of another member, or of one that should be.
type GroupMember struct {
	Member int              `json:"member"`
	State  GroupMemberState `json:"state"`
	// BehindRecords and BehindBytes are what it has not acknowledged of the log that it is sent.
	BehindRecords uint64 `json:"behindRecords,omitempty"`
	BehindBytes   int64  `json:"behindBytes,omitempty"`
	// HeardMsAgo is the age of what was heard of it last; nil: nothing, since this primary began.
	HeardMsAgo *int64 `json:"heardMsAgo,omitempty"`
}

// GroupRegister is how a member finds the register of its group.
type GroupRegister struct {
	// AnsweredMsAgo is the age of its last answer; nil: there was none since the start.
	AnsweredMsAgo *int64 `json:"answeredMsAgo,omitempty"`
	// UnreachableForMs is for how long it has not answered, or has not taken a change that the member needs; nil: it
	// does both.
	UnreachableForMs *int64 `json:"unreachableForMs,omitempty"`
}

// Group is what a member of a group knows of it. Lengths of time count from when its process has noticed.
type Group struct {
	// Member is the number of this member, from 1.
	Member int       `json:"member"`
	Role   GroupRole `json:"role"`
	// Epoch, Primary and Members are those of the highest configuration that it knows. Every one of Members has every
	// acknowledged write on its disk. Epoch 0: it knows of none.
	Epoch   uint64 `json:"epoch"`
	Primary int    `json:"primary,omitempty"`
	Members []int  `json:"members,omitempty"`
	Wanted  []int  `json:"wanted"`
	// ShortForMs is for how long a wanted member has been missing; nil: none is.
	ShortForMs *int64 `json:"shortForMs,omitempty"`
	// Others is set by the primary.
	Others []GroupMember `json:"others,omitempty"`
	// Problem is explained for people by Reason. ProblemForMs is for how long there has been one; nil: that is not
	// known.
	Problem      GroupProblem `json:"problem,omitempty"`
	Reason       string       `json:"reason,omitempty"`
	ProblemForMs *int64       `json:"problemForMs,omitempty"`
	// Register is set by members that read the register regularly: the primary, and those that look for one.
	Register *GroupRegister `json:"register,omitempty"`
}

// IsShort reports whether a wanted member is missing.
func (g *Group) IsShort() bool { return g.ShortForMs != nil }

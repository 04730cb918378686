package contract

// Paths that every part serves over HTTP.
const (
	// PathHealth answers 200 while the part is alive.
	PathHealth = "/healthz"
	// PathReady answers with a Readiness: 200 if the part is ready, else 503.
	PathReady = "/readyz"
	// PathMetrics serves metrics in the Prometheus text format.
	PathMetrics = "/metrics"
)

// Phase is a stage in the life of a part's process.
type Phase string

// The phases of a process.
const (
	PhaseStarting Phase = "starting"
	PhaseRunning  Phase = "running"
	PhaseStopping Phase = "stopping"
)

// ReshardingState is what a middleman does for a change of the number of shards (PROTOCOL RSH).
type ReshardingState string

// The states of a middleman while shards change.
const (
	// ReshardingNone: the shards of its ring do not change.
	ReshardingNone ReshardingState = "none"
	// ReshardingCopying: it copies the slots that it takes over; the old owners still serve them.
	ReshardingCopying ReshardingState = "copying"
	// ReshardingMoving: its copies are complete, and slots switch to their new owners.
	ReshardingMoving ReshardingState = "moving"
	// ReshardingCleaning: it serves by the new map, and deletes what it has given away.
	ReshardingCleaning ReshardingState = "cleaning"
	// ReshardingDone: nothing is left to do. This is the last state of a middleman that stays.
	ReshardingDone ReshardingState = "done"
	// ReshardingGone: it has given all slots away and its storage is empty. This is the last state of a middleman that
	// leaves.
	ReshardingGone ReshardingState = "gone"
)

// Membership says whether a coordinator takes part in the writing of its data center (PROTOCOL MEM).
type Membership string

// The stages of a coordinator.
const (
	// MembershipJoining: the first coordinator of the data center has not admitted it yet.
	MembershipJoining Membership = "joining"
	MembershipServing Membership = "serving"
	// MembershipLeaving: it accepts no writes, and completes those that it has accepted.
	MembershipLeaving Membership = "leaving"
	// MembershipLeft: it has no incomplete writes, and the first coordinator knows.
	MembershipLeft Membership = "left"
	// MembershipLogLost: its log is empty, although other parts know of writes that it held. It accepts no writes.
	MembershipLogLost Membership = "log-lost"
	// MembershipSalvaging: its log was lost and given up, and what the shards hold of it is collected and completed. It
	// accepts no writes.
	MembershipSalvaging Membership = "salvaging"
)

// State tells some reasons for not being ready apart, for programs.
type State string

// The states of a part that is not ready. There are reasons without one.
const (
	// StateStorageFull: the storage of a middleman has no memory or disk for writes. Reads are served, and writes wait.
	StateStorageFull State = "StorageFull"
	// StateStorageFailing: the storage of a middleman does not answer, or refuses writes.
	StateStorageFailing State = "StorageFailing"
	// StateLogFull: the volume of a coordinator's log is full. It accepts no writes, and completes those that it has.
	StateLogFull State = "LogFull"
	// StateDataLost: the disk of a middleman or coordinator has lost data that it had acknowledged. A middleman then
	// refuses reads, a coordinator writes, until it is given its data back. A coordinator whose log is damaged does not
	// start.
	StateDataLost State = "DataLost"
	// StateWithdrawn: the data center of a middleman was excluded, and no other ring is known to have its data. It
	// keeps them and answers nothing.
	StateWithdrawn State = "Withdrawn"
	// StateDuplicateIdentity: another process runs as the same part, and peers refuse this one.
	StateDuplicateIdentity State = "DuplicateIdentity"
)

// PeerState is how the first coordinator of a data center finds the parts of another one.
type PeerState string

// The states of a peer. The first that applies counts.
const (
	// PeerOtherManifest: parts there run another list of data centers, other rings or another binding. Links are
	// refused.
	PeerOtherManifest PeerState = "otherManifest"
	// PeerNotTrusted: parts there and here do not accept each other's certificates.
	PeerNotTrusted PeerState = "notTrusted"
	// PeerConnected: there are links, and probes are answered.
	PeerConnected PeerState = "connected"
	// PeerOtherVersion is PeerConnected with parts of another version. That is no fault.
	PeerOtherVersion PeerState = "otherVersion"
	// PeerUnresolved: a name there, or that of the egress here, has no address.
	PeerUnresolved PeerState = "unresolved"
	// PeerUnreachable: there is no link, or probes are not answered. Behind an egress this includes names that do not
	// resolve and regions that the egress does not know: it accepts a connection, and ends it.
	PeerUnreachable PeerState = "unreachable"
)

// PeerStates are all states of a peer.
var PeerStates = []PeerState{PeerOtherManifest, PeerNotTrusted, PeerConnected, PeerOtherVersion, PeerUnresolved,
	PeerUnreachable}

// IsConnected reports whether parts at both ends exchange messages.
func (s PeerState) IsConnected() bool { return s == PeerConnected || s == PeerOtherVersion }

// MaxPeerText bounds the texts of a Peer, in bytes.
const MaxPeerText = 300

// Peer is what the first coordinator of a data center reports of another data center. A report has at most one for
// each.
type Peer struct {
	DataCenter string    `json:"dataCenter"`
	State      PeerState `json:"state"`
	// Links counts the processes there that the coordinator exchanges messages with, LinksUp those of them that have a
	// link now.
	Links   int `json:"links"`
	LinksUp int `json:"linksUp"`
	// RoundTripMs is the round trip that was measured last; nil if there is no answer.
	RoundTripMs *float64 `json:"roundTripMs,omitempty"`
	// Version is one that parts there have, if it is not the own one.
	Version string `json:"version,omitempty"`
	// Error says, for people, why a link is down.
	Error string `json:"error,omitempty"`
}

// Acceptance says which authorities of a part's own trust domain the parts of a data center accept, as far as it has
// links with them. An authority that all accept may issue.
type Acceptance struct {
	DataCenter string `json:"dataCenter"`
	// Links counts the links with parts there that are up.
	Links int `json:"links"`
	// Roots are the authorities that the other ends of all of them accept (FormatRoot), and in its own data center the
	// part itself.
	Roots []string `json:"roots,omitempty"`
	// Behind names, for people, one process there that does not accept all authorities that the part itself accepts.
	Behind string `json:"behind,omitempty"`
}

// FieldRegister is Config.Register in Readiness.RestartNeeded.
const FieldRegister = "register"

// Readiness is the answer to PathReady.
type Readiness struct {
	Ready      bool   `json:"ready"`
	Phase      Phase  `json:"phase"`
	Part       string `json:"part"`
	DataCenter string `json:"dataCenter"`
	Index      int    `json:"index"`
	// Epoch is that of the topology that the part uses.
	Epoch uint64 `json:"topologyEpoch"`
	// Reason says, for people, why the part is not ready.
	Reason string `json:"reason,omitempty"`
	// State is the same for programs; empty for most reasons.
	State State `json:"state,omitempty"`
	// Shards is set by middlemen.
	Shards ReshardingState `json:"shards,omitempty"`
	// Membership is set by coordinators.
	Membership Membership `json:"membership,omitempty"`
	// Group is set by coordinators whose log is held by several members, or was, and by middlemen whose storage is.
	Group *Group `json:"group,omitempty"`
	// CoordinatorsInUse is set by the first coordinator of a data center. It lists, by index, the coordinators that the
	// first one has admitted and that have not left, itself included. A coordinator that is neither in this list nor in
	// the topology that the first one uses has no incomplete writes, and cannot be admitted again.
	CoordinatorsInUse []int `json:"coordinatorsInUse,omitempty"`
	// Peers is set by the first coordinator of a data center. A data center of which nothing is known yet is left out.
	Peers []Peer `json:"peers,omitempty"`
	// Acceptance has every data center of the topology, in its order. It is empty without TLS.
	Acceptance []Acceptance `json:"acceptance,omitempty"`
	// RingsBefore names the rings for which a coordinator still uses the slot map from before a change of shards.
	RingsBefore []string `json:"ringsBefore,omitempty"`
	// RestartNeeded names the fields of the configuration file whose changes take effect after a restart.
	RestartNeeded []string `json:"restartNeeded,omitempty"`
	// ConfigProblem says why the present configuration file is not used.
	ConfigProblem string `json:"configProblem,omitempty"`
}

package authorize

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Place says where sender and receiver must be for a rule to apply. The leader of a data center is its first
// coordinator.
type Place uint8

// The places.
const (
	Anywhere            Place = iota
	SameDC                    // both are in one data center
	SameRing                  // both are in one ring
	ToOwnLeader               // the receiver leads the sender's data center
	LeaderToOwnDC             // the sender leads the receiver's data center
	LeaderToLeader            // both are leaders
	FromLeader                // the sender leads its data center
	ToLeader                  // the receiver leads its data center
	SameGroup                 // both are members of one group
	MemberToOwnLeader         // from a member of a coordinator to one of the leader of its data center
	LeaderMemberToOwnDC       // and back
)

var placeNames = [...]string{"any data center", "own data center", "own ring", "own leader",
	"leader, in its data center", "leader to leader", "from a leader", "to a leader", "own group",
	"member to a member of the own leader", "member of the leader, in its data center"}

// String returns the place as the documentation has it.
func (p Place) String() string { return placeNames[p] }

// Content says what a message may speak of.
type Content uint8

// The contents.
const (
	Free           Content = iota
	OriginSender           // versions and vectors are of the sender's origin
	OriginReceiver         // versions are of the receiver's origin
	RingSender             // the ring is the sender's
	OriginsSender          // vectors are of origins of the sender's data center
	OriginsNamed           // vectors are of origins of the data center that the message names, and have a bounded seal
)

var contentNames = [...]string{"", "origin of the sender", "origin of the receiver", "ring of the sender",
	"origins of the sender's data center", "origins of the data center that has signed them"}

// String returns the content as the documentation has it.
func (c Content) String() string { return contentNames[c] }

// Rule permits messages of some kinds.
type Rule struct {
	From, To topology.Part
	Place    Place
	Kinds    []causal.Kind
	Content  Content
}

const (
	sidecar     = topology.Sidecar
	coordinator = topology.Coordinator
	middleman   = topology.Middleman
	cache       = topology.Cache
)

// Table lists every message that one part may send to another. What no rule permits is refused. Fronts are sidecars.
var Table = []Rule{
	{sidecar, coordinator, Anywhere, []causal.Kind{causal.KindPut}, Free},
	{sidecar, coordinator, Anywhere, []causal.Kind{causal.KindLogGet}, OriginReceiver},
	{sidecar, coordinator, ToOwnLeader, []causal.Kind{causal.KindSubscribe}, Free},
	{sidecar, coordinator, SameDC, []causal.Kind{causal.KindHomeRead, causal.KindHomeCommit, causal.KindHomeWait,
		causal.KindScan}, Free},
	{sidecar, middleman, Anywhere, []causal.Kind{causal.KindGet, causal.KindDepCheck, causal.KindCount, causal.KindScan,
		causal.KindPing}, Free},
	{sidecar, cache, SameDC, []causal.Kind{causal.KindGet, causal.KindCut, causal.KindPing, causal.KindLease,
		causal.KindInvalidateAck, causal.KindStreamReset}, Free},

	{coordinator, sidecar, Anywhere, []causal.Kind{causal.KindPutReply, causal.KindComplete, causal.KindLogReply},
		OriginSender},
	{coordinator, sidecar, SameDC, []causal.Kind{causal.KindHomeReply, causal.KindHomeWake, causal.KindScanReply,
		causal.KindHomes}, Free},
	{coordinator, sidecar, LeaderToOwnDC, []causal.Kind{causal.KindVectors, causal.KindLatencies}, Free},
	{coordinator, coordinator, ToOwnLeader, []causal.Kind{causal.KindVectors}, OriginSender},
	{coordinator, coordinator, ToOwnLeader, []causal.Kind{causal.KindTerm, causal.KindTermAnswer, causal.KindHomeVote,
		causal.KindFormatQuery, causal.KindFormatReply}, Free},
	{coordinator, coordinator, LeaderToOwnDC, []causal.Kind{causal.KindVectors, causal.KindTermReply,
		causal.KindTermQuery, causal.KindHomeChange, causal.KindFormatQuery, causal.KindFormatReply}, Free},
	{coordinator, coordinator, LeaderToLeader, []causal.Kind{causal.KindVectors}, OriginsSender},
	{coordinator, coordinator, LeaderToLeader, []causal.Kind{causal.KindSignedVectors}, OriginsNamed},
	{coordinator, coordinator, LeaderToLeader, []causal.Kind{causal.KindFormatQuery, causal.KindFormatReply}, Free},
	{coordinator, coordinator, SameDC, []causal.Kind{causal.KindHomeVerdict}, Free},
	{coordinator, coordinator, SameGroup, []causal.Kind{causal.KindGroup, causal.KindFormatQuery,
		causal.KindFormatReply}, Free},
	{coordinator, coordinator, MemberToOwnLeader, []causal.Kind{causal.KindTerm}, Free},
	{coordinator, coordinator, LeaderMemberToOwnDC, []causal.Kind{causal.KindTermReply}, Free},
	{coordinator, middleman, Anywhere, []causal.Kind{causal.KindPutAfter, causal.KindStable}, OriginSender},
	{coordinator, middleman, Anywhere, []causal.Kind{causal.KindLaneSync, causal.KindPing, causal.KindPastQuery,
		causal.KindPastReply,
		causal.KindSalvage, causal.KindDepCheck}, Free},
	{coordinator, middleman, FromLeader, []causal.Kind{causal.KindAdoptQuery, causal.KindAdoptPut,
		causal.KindAdoptStep}, Free},
	{coordinator, middleman, LeaderToOwnDC, []causal.Kind{causal.KindVectors, causal.KindFormatQuery}, Free},
	{coordinator, cache, LeaderToOwnDC, []causal.Kind{causal.KindLatencies, causal.KindVectors}, Free},

	{middleman, sidecar, Anywhere, []causal.Kind{causal.KindGetReply, causal.KindDepStatus}, RingSender},
	{middleman, sidecar, Anywhere, []causal.Kind{causal.KindCountReply, causal.KindScanReply, causal.KindPong}, Free},
	{middleman, coordinator, Anywhere, []causal.Kind{causal.KindPutAck}, OriginReceiver},
	{middleman, coordinator, Anywhere, []causal.Kind{causal.KindDepStatus}, RingSender},
	{middleman, coordinator, Anywhere, []causal.Kind{causal.KindLaneHello, causal.KindPong, causal.KindPastQuery,
		causal.KindPastReply, causal.KindSalvaged}, Free},
	{middleman, coordinator, ToOwnLeader, []causal.Kind{causal.KindFormatReply}, Free},
	{middleman, coordinator, ToLeader, []causal.Kind{causal.KindAdoptHeld, causal.KindAdoptState}, Free},
	{middleman, middleman, Anywhere, []causal.Kind{causal.KindDepStatus}, RingSender},
	{middleman, middleman, Anywhere, []causal.Kind{causal.KindDepCheck}, Free},
	{middleman, middleman, SameRing, []causal.Kind{causal.KindFrontier, causal.KindDepProbe, causal.KindDepMissing,
		causal.KindPing, causal.KindPong, causal.KindPull, causal.KindPulled}, Free},
	{middleman, middleman, Anywhere, []causal.Kind{causal.KindGetReply}, RingSender},
	{middleman, middleman, Anywhere, []causal.Kind{causal.KindGet, causal.KindScan, causal.KindScanReply,
		causal.KindCount, causal.KindCountReply,
		causal.KindPastQuery, causal.KindPastReply}, Free},
	{middleman, middleman, SameGroup, []causal.Kind{causal.KindGroup, causal.KindCopy, causal.KindFormatQuery,
		causal.KindFormatReply}, Free},
	{middleman, cache, Anywhere, []causal.Kind{causal.KindFillReply}, RingSender},
	{middleman, cache, Anywhere, []causal.Kind{causal.KindLeaseGrant, causal.KindInvalidate, causal.KindStreamReset,
		causal.KindPong}, Free},

	{cache, sidecar, SameDC, []causal.Kind{causal.KindGetReply, causal.KindPong, causal.KindLeaseGrant,
		causal.KindInvalidate, causal.KindStreamReset}, Free},
	{cache, middleman, Anywhere, []causal.Kind{causal.KindFill, causal.KindStreamOpen, causal.KindLease,
		causal.KindInvalidateAck, causal.KindPing}, Free},
}

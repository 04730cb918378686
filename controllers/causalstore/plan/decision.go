package plan

import "fmt"

// Decision says whether something may happen now. Code depends on Allowed and Reason only; Message is for people. Code
// that acts requires Allowed. The zero Decision means that there was nothing to decide: it is neither allowed nor
// denied, and so never permits an action.
type Decision struct {
	Allowed bool
	Reason  Reason
	Message string
}

// Reason is why a decision denies something. The values have the form of condition reasons.
type Reason string

// The reasons that concern Kubernetes objects.
const (
	ReasonStatefulSetMissing     Reason = "StatefulSetMissing"
	ReasonStatefulSetNotScaled   Reason = "StatefulSetNotScaled"
	ReasonStatefulSetNotObserved Reason = "StatefulSetNotObserved"
	ReasonPodMissing             Reason = "PodMissing"
	ReasonPodNotReady            Reason = "PodNotReady"
	ReasonPodTerminating         Reason = "PodTerminating"
	ReasonPodNotGone             Reason = "PodNotGone"
	ReasonClaimTerminating       Reason = "ClaimTerminating"
	ReasonRestartsPending        Reason = "RestartsPending"
)

// The reasons that concern the running parts.
const (
	// ReasonNotReported: the part has no pod, or was not asked.
	ReasonNotReported Reason = "PartNotReported"
	ReasonUnreachable Reason = "PartUnreachable"
	// ReasonOldEpoch: the part does not run the recorded epoch of the topology yet.
	ReasonOldEpoch Reason = "PartRunsOldEpoch"
	// ReasonConfigRejected: the part does not accept the configuration with the recorded epoch.
	ReasonConfigRejected Reason = "ConfigRejected"
	// ReasonResharding: slots move between middlemen.
	ReasonResharding Reason = "ReshardingInProgress"
	// ReasonOldSlotMap: a coordinator still uses the slot map from before a change of shards.
	ReasonOldSlotMap Reason = "OldSlotMapInUse"
	// ReasonInUseUnknown: the first coordinator does not say which coordinators are in use.
	ReasonInUseUnknown Reason = "CoordinatorsInUseUnknown"
	// ReasonCoordinatorInUse: the first coordinator counts a coordinator that is to leave as in use.
	ReasonCoordinatorInUse Reason = "CoordinatorInUse"
	// ReasonNotServing: a coordinator that joins does not serve yet.
	ReasonNotServing Reason = "CoordinatorNotServing"
	// ReasonRegisterMissing: coordinators do not have the register yet that groups with several members need.
	ReasonRegisterMissing Reason = "RegisterMissing"
	// ReasonGroupNotServed: of the members of a group none serves, or more than one says so.
	ReasonGroupNotServed Reason = "GroupNotServed"
	// ReasonGroupNotWhole: a member of a group lacks acknowledged writes.
	ReasonGroupNotWhole Reason = "GroupNotWhole"
	// ReasonMemberLeaves: a member that is to leave its group has not left it.
	ReasonMemberLeaves Reason = "MemberLeaves"
	// ReasonLogNotDrained: a coordinator has accepted writes that are not in every ring.
	ReasonLogNotDrained Reason = "LogNotDrained"
)

func allow() Decision { return Decision{Allowed: true} }

func deny(reason Reason, format string, args ...any) Decision {
	return Decision{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Denied reports whether something was to be decided and must not happen now.
func (d Decision) Denied() bool { return !d.Allowed && d.Reason != "" }

// messages returns what decisions say to people.
func messages(all []Decision) []string {
	var texts []string
	for _, d := range all {
		texts = append(texts, d.Message)
	}
	return texts
}

// because appends an explanation to a message, if there is one.
func because(explanation string) string {
	if explanation == "" {
		return ""
	}
	return ": " + explanation
}

// podCount counts pods for people.
func podCount(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

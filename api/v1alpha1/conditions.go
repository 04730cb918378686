package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Types of conditions.
const (
	// ConditionReady is True while every part that the spec asks for in this cluster serves.
	ConditionReady = "Ready"
	// ConditionProgressing is True while the operator is applying a change of the spec.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while a part or edge that has served before is missing, or an image cannot be had.
	ConditionDegraded = "Degraded"
	// ConditionTopologyValid is True if the operator can apply the spec and every zone has nodes. Its reason is
	// SingleZone if the spec gives up the protection from the loss of a zone.
	ConditionTopologyValid = "TopologyValid"
	// ConditionStorageReady is True while all shards in this cluster serve.
	ConditionStorageReady = "StorageReady"
	// ConditionPeersConnected is True while every ring answers and acknowledges the writes of this cluster's
	// coordinators. It is Unknown while a coordinator cannot be asked.
	ConditionPeersConnected = "PeersConnected"
	// ConditionClientsReady is True if the Secrets that spec.clients names are there and can be used.
	ConditionClientsReady = "ClientsReady"
	// ConditionPeersTrusted is True while the certificates of all data centers can be verified: the authority of every
	// region is known here.
	ConditionPeersTrusted = "PeersTrusted"
	// ConditionCertificatesCurrent is True while the certificates of the parts in this region are renewed in time.
	ConditionCertificatesCurrent = "CertificatesCurrent"
	// ConditionEdgesReady is True while every pod of the edges in this cluster serves, their Services have addresses,
	// and all other regions are trusted, so that edges connect to theirs. Whether those can be reached, PeersConnected
	// says.
	ConditionEdgesReady = "EdgesReady"
	// ConditionEtcdReady is True while every pod of the etcds that the operator runs in this cluster serves.
	ConditionEtcdReady = "EtcdReady"
	// ConditionUnderReplicated is True while a group of members that hold one log has fewer of them than the spec asks
	// for, or cannot change: it is frozen or lost, or its register does not answer. It is Unknown while a group has not
	// reported.
	ConditionUnderReplicated = "UnderReplicated"
	// ConditionVolumesKept is True while no volume claim of a part in this cluster is being deleted. Kubernetes deletes
	// such a claim, and its volume, as soon as the pod that uses it is gone.
	ConditionVolumesKept = "VolumesKept"
	// ConditionInjectionReady is True while the webhook injects sidecars into the pods of labelled namespaces.
	ConditionInjectionReady = "InjectionReady"
	// ConditionPaused is True while spec.paused stops the operator from changing anything.
	ConditionPaused = "Paused"
	// ConditionDrillPassed is how the last drill has ended: True if no promise was broken, Unknown if it was aborted.
	// kubectl causal drill sets it, and the operator leaves it alone. A store of which no drill has run does not have
	// it.
	ConditionDrillPassed = "DrillPassed"
)

// healthyConditions are all types of conditions, in the order in which a person should look at them, with what they are
// in a healthy and idle store.
var healthyConditions = []struct {
	name string
	is   metav1.ConditionStatus
}{
	{ConditionVolumesKept, metav1.ConditionTrue},
	{ConditionTopologyValid, metav1.ConditionTrue},
	{ConditionReady, metav1.ConditionTrue},
	{ConditionDegraded, metav1.ConditionFalse},
	{ConditionStorageReady, metav1.ConditionTrue},
	{ConditionUnderReplicated, metav1.ConditionFalse},
	{ConditionPeersConnected, metav1.ConditionTrue},
	{ConditionPeersTrusted, metav1.ConditionTrue},
	{ConditionCertificatesCurrent, metav1.ConditionTrue},
	{ConditionEdgesReady, metav1.ConditionTrue},
	{ConditionEtcdReady, metav1.ConditionTrue},
	{ConditionClientsReady, metav1.ConditionTrue},
	{ConditionInjectionReady, metav1.ConditionTrue},
	{ConditionProgressing, metav1.ConditionFalse},
	{ConditionPaused, metav1.ConditionFalse},
	{ConditionDrillPassed, metav1.ConditionTrue},
}

// ConditionTypes returns all types of conditions, in the order in which a person should look at them.
func ConditionTypes() (all []string) {
	for _, c := range healthyConditions {
		all = append(all, c.name)
	}
	return all
}

// HealthyStatus returns what a condition is in a healthy and idle store; "" if there is no condition of that type.
func HealthyStatus(condition string) metav1.ConditionStatus {
	for _, c := range healthyConditions {
		if c.name == condition {
			return c.is
		}
	}
	return ""
}

// Reasons of conditions.
const (
	ReasonAllPartsReady = "AllPartsReady"
	ReasonPartsNotReady = "PartsNotReady"
	ReasonSpecRefused   = "SpecRefused"
	ReasonNothingHere   = "NoDataCenterHere"
	ReasonApplyFailed   = "ApplyFailed"

	ReasonCreating      = "Creating"
	ReasonRollingOut    = "RollingOut"
	ReasonLogNotDrained = "LogNotDrained"
	ReasonEdgesRolling  = "RollingOutEdges"
	ReasonGrowing       = "GrowingVolumes"
	ReasonMovingSlots   = "MovingSlots"
	ReasonCoordinators  = "ChangingCoordinators"
	ReasonMembers       = "ChangingMembers"
	ReasonDeleting      = "Deleting"
	ReasonUpToDate      = "UpToDate"
	ReasonNotApplied    = "NotApplied"
	ReasonNotDegraded   = "NothingMissing"
	ReasonPartsMissing  = "PartsMissing"
	ReasonDataMissing   = "DataUnavailable"
	ReasonImageMissing  = "ImageUnavailable"
	ReasonDuplicatePart = "DuplicateIdentity"
	ReasonDiskFull      = "DiskFull"
	ReasonDataLost      = "DataLost"

	ReasonTopologyAccepted = "Accepted"
	ReasonSingleZone       = "SingleZone"
	ReasonTopologyChanged  = "ForbiddenChange"
	ReasonZoneWithoutNodes = "ZoneWithoutNodes"
	ReasonObjectConflict   = "ObjectConflict"

	ReasonShardsServe    = "ShardsServe"
	ReasonShardsNotReady = "ShardsNotReady"
	ReasonStorageFull    = "StorageFull"

	ReasonPeersAcknowledge = "RingsAcknowledge"
	ReasonPeersBehind      = "RingsBehind"
	ReasonPeersUnreachable = "DataCentersUnreachable"
	ReasonRegionsAway      = "RegionsAway"
	ReasonPeersManifest    = "OtherManifest"
	ReasonPeersNotTrusted  = "DataCentersNotTrusted"
	ReasonPeersUnresolved  = "DataCentersUnresolved"
	ReasonPeersVersion     = "OtherVersion"
	ReasonPeersUnknown     = "NotMeasured"
	ReasonPeersNotServing  = "RingsNotServing"
	ReasonPeersUnasked     = "CoordinatorsUnreachable"
	ReasonOneRing          = "OneRing"

	ReasonClientsConfigured = "Configured"
	ReasonSecretMissing     = "SecretMissing"
	ReasonSecretInvalid     = "SecretInvalid"
	ReasonRegionsTrusted    = "RegionsTrusted"
	ReasonOneRegion         = "OneRegion"
	ReasonRegionsNotTrusted = "RegionsNotTrusted"
	ReasonRegionsRevoked    = "RegionsRevoked"
	ReasonAuthorityRefused  = "AuthorityRefused"

	ReasonCertificatesRenewed    = "RenewedDaily"
	ReasonCertificatesNotRenewed = "RenewalFailed"
	ReasonCertificatesLate       = "ExpiringSoon"
	ReasonCertificatesUnknown    = "NotIssuedYet"
	ReasonAuthorityExpiring      = "AuthorityExpiring"
	ReasonAuthorityRotating      = "AuthorityRotating"

	ReasonNoEdges            = "NoOtherRegion"
	ReasonEdgesServe         = "EdgesServe"
	ReasonEdgesStarting      = "EdgesStarting"
	ReasonEdgesMissing       = "EdgesMissing"
	ReasonEdgeImageMissing   = "NoEdgeImage"
	ReasonEdgeWithoutAddress = "EdgeWithoutAddress"
	ReasonEdgePeersUntrusted = "RegionsWithoutEdge"

	ReasonNoEtcd            = "NoEtcdNeeded"
	ReasonEtcdServes        = "EtcdServes"
	ReasonEtcdStarting      = "EtcdStarting"
	ReasonEtcdMissing       = "EtcdMembersMissing"
	ReasonEtcdWithoutQuorum = "EtcdWithoutQuorum"
	ReasonEtcdImageMissing  = "NoEtcdImage"

	ReasonNoGroups            = "OneMemberEach"
	ReasonFullyReplicated     = "AllMembersFollow"
	ReasonMembersMissing      = "MembersMissing"
	ReasonGroupLost           = "GroupLost"
	ReasonGroupFrozen         = "GroupFrozen"
	ReasonRegisterUnreachable = "RegisterUnreachable"
	ReasonGroupsUnknown       = "GroupsNotReported"

	ReasonClaimsKept       = "ClaimsKept"
	ReasonClaimTerminating = "ClaimTerminating"

	ReasonWebhookServing      = "WebhookServing"
	ReasonWebhookNotServing   = "WebhookNotServing"
	ReasonWebhookNotInstalled = "WebhookNotInstalled"

	ReasonPromisesHeld  = "PromisesHeld"
	ReasonPromiseBroken = "PromiseBroken"
	ReasonDrillAborted  = "DrillAborted"

	ReasonPaused         = "PausedBySpec"
	ReasonChangesPending = "ChangesPending"
	ReasonNotPaused      = "NotPaused"
)

// Finalizer keeps a deleted store until the operator has applied its deletionPolicy to the volumes.
const Finalizer = "causalstore.io/volumes"

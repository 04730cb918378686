package v1alpha1

// The types of conditions.
const (
	// ConditionReady: every part that the spec asks for here serves.
	ConditionReady = "Ready"
	// ConditionProgressing: something is on its way to what the spec asks for.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: something that was there is missing.
	ConditionDegraded = "Degraded"
	// ConditionTopologyValid: the spec can be carried out, and there are nodes for it.
	ConditionTopologyValid = "TopologyValid"
	// ConditionStorageReady: all shards here serve.
	ConditionStorageReady = "StorageReady"
	// ConditionPeersConnected: every ring acknowledges what is written here.
	ConditionPeersConnected = "PeersConnected"
	// ConditionInjectionReady: sidecars are put into the pods of labelled namespaces.
	ConditionInjectionReady = "InjectionReady"
	// ConditionPaused: the operator changes nothing.
	ConditionPaused = "Paused"
)

// The reasons of conditions.
const (
	ReasonAllPartsReady = "AllPartsReady"
	ReasonPartsNotReady = "PartsNotReady"
	ReasonSpecRefused   = "SpecRefused"
	ReasonNothingHere   = "NoDataCenterHere"
	ReasonApplyFailed   = "ApplyFailed"

	ReasonCreating      = "Creating"
	ReasonRollingOut    = "RollingOut"
	ReasonLogNotDrained = "LogNotDrained"
	ReasonGrowing       = "GrowingVolumes"
	ReasonMovingSlots   = "MovingSlots"
	ReasonCoordinators  = "ChangingCoordinators"
	ReasonDeleting      = "Deleting"
	ReasonUpToDate      = "UpToDate"
	ReasonNotDegraded   = "NothingMissing"
	ReasonPartsMissing  = "PartsMissing"
	ReasonDataMissing   = "DataUnavailable"

	ReasonTopologyAccepted = "Accepted"
	ReasonTopologyChanged  = "ForbiddenChange"
	ReasonZoneWithoutNodes = "ZoneWithoutNodes"

	ReasonShardsServe    = "ShardsServe"
	ReasonShardsNotReady = "ShardsNotReady"

	ReasonPeersAcknowledge = "RingsAcknowledge"
	ReasonPeersBehind      = "RingsBehind"
	ReasonPeersUnknown     = "NotMeasured"
	ReasonOneRing          = "OneRing"

	ReasonWebhookServing      = "WebhookServing"
	ReasonWebhookNotInstalled = "WebhookNotInstalled"

	ReasonPaused    = "PausedBySpec"
	ReasonNotPaused = "NotPaused"
)

// Finalizer keeps a store until its volumes are dealt with as its deletionPolicy says.
const Finalizer = "causalstore.io/volumes"

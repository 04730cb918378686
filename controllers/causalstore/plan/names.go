package plan

import (
	"fmt"
	"maps"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// Labels of the objects of a store.
const (
	LabelName       = "app.kubernetes.io/name"
	LabelInstance   = "app.kubernetes.io/instance"
	LabelComponent  = "app.kubernetes.io/component"
	LabelManagedBy  = "app.kubernetes.io/managed-by"
	LabelDataCenter = "causalstore.io/data-center"
	LabelShard      = "causalstore.io/shard"
	// LabelMember on the objects of a member of a group, if it is not the first one, is its number.
	LabelMember = "causalstore.io/member"
	// LabelRegion is the region of the operator that made the object.
	LabelRegion = "causalstore.io/region"
	// LabelZones on a pod is the role of the zones that it is kept in: ZonesFrontend or ZonesBackend. Other pods have
	// none: those of an etcd, of a third member of coordinators in zones of its own, and of stores with placement
	// SingleZone.
	LabelZones = "causalstore.io/zones"
	// LabelZone on a pod is the zone that it is kept in, if it is kept in one. Fault injection selects pods by these
	// two labels.
	LabelZone = "causalstore.io/zone"
)

// Values of LabelZones.
const (
	ZonesFrontend = "frontend"
	ZonesBackend  = "backend"
)

// LabelSidecarOf on a pod of an app names the store of its sidecar.
const LabelSidecarOf = "causalstore.io/store"

// ManagedBy is the value of LabelManagedBy, and the field manager of server-side apply.
const ManagedBy = "causalstore-operator"

// Values of LabelComponent.
const (
	ComponentCoordinator = "coordinator"
	ComponentCache       = "cache"
	ComponentShard       = "shard"
	ComponentEdge        = "edge"
	ComponentEtcd        = "etcd"
)

// AnnotationRestart on a store restarts all of its pods when its value changes. They are then built as this version of
// the operator builds pods.
const AnnotationRestart = "causalstore.io/restart"

// AnnotationEpoch on a pod is the last epoch of the topology that it was notified of. Kubelets update the files of a
// ConfigMap when anything of the pod changes, and otherwise only every minute or two.
const AnnotationEpoch = "causalstore.io/epoch"

// Labels returns the labels of every object of a store. They also select these objects.
func Labels(store string) map[string]string {
	return map[string]string{LabelName: "causalstore", LabelInstance: store, LabelManagedBy: ManagedBy}
}

func (b *builder) labels() map[string]string {
	return withLabel(Labels(b.store.Name), LabelRegion, b.in.Region)
}

func (b *builder) dcLabels(dc *v1alpha1.DataCenter) map[string]string {
	return withLabel(b.labels(), LabelDataCenter, dc.Name)
}

func (b *builder) partLabels(dc *v1alpha1.DataCenter, component string) map[string]string {
	return withLabel(b.dcLabels(dc), LabelComponent, component)
}

// claimLabels returns the labels of claims. Claim templates cannot change, and a claim says by its data center which
// region it is of.
func (b *builder) claimLabels(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	delete(labels, LabelRegion)
	return labels
}

func withLabel(labels map[string]string, key, value string) map[string]string {
	labels = maps.Clone(labels)
	labels[key] = value
	return labels
}

// LeaseName is the name of the lease that the operator of a region holds, in the namespace of its release.
func LeaseName(region string) string { return "operator." + region + ".causalstore.io" }

// RecordName and KeysName are the names of the objects that are kept with the volumes of a deleted store. Each region
// has a record of its own, even if a cluster has several. Its name has a dot, which no data center's has.
func RecordName(store, region string) string { return store + "-record." + region }
func KeysName(store string) string           { return store + "-keys" }

// DataCenterName is the name of a data center's Service for clients, and of its ConfigMap.
func DataCenterName(store, dc string) string { return store + "-" + dc }

// EdgeName is the name of the Deployment of a data center's edge, of its ConfigMap, and of the Service through which
// parts dial other regions; IngressName is that of the Service that other regions connect to.
func EdgeName(store, dc string) string    { return DataCenterName(store, dc) + "-edge" }
func IngressName(store, dc string) string { return DataCenterName(store, dc) + "-ingress" }

// The names of the StatefulSets. The longest has 52 characters, so that the names of its pods fit into a label.
// Each member of the coordinators' groups has one, and each member of each shard.
func coordinatorsName(store, dc string, member int) string {
	return memberName(DataCenterName(store, dc)+"-cc", member)
}
func cachesName(store, dc string) string { return DataCenterName(store, dc) + "-cache" }

// shardName is short for the further members, or the longest would have 55 characters.
func shardName(store, dc string, i, member int) string {
	if member == 1 {
		return fmt.Sprintf("%s-shard-%d", DataCenterName(store, dc), i)
	}
	return memberName(fmt.Sprintf("%s-s%d", DataCenterName(store, dc), i), member)
}

// memberName returns the name of the StatefulSet of a member, from the one of the first.
func memberName(first string, member int) string {
	if member == 1 {
		return first
	}
	return fmt.Sprintf("%s-m%d", first, member)
}
func partsName(store, dc string) string { return DataCenterName(store, dc) + "-parts" }

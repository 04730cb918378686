package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/diagnose"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// topologyValid holds if the spec can be applied, and every zone has nodes.
func topologyValid(v *view) verdict {
	switch {
	case len(v.Refused) > 0:
		return no(v1alpha1.ReasonSpecRefused, "%s", strings.Join(v.Refused, "; "))
	case len(v.Forbidden) > 0:
		return no(v1alpha1.ReasonTopologyChanged, "%s", strings.Join(v.Forbidden, "; "))
	case len(v.Conflicts) > 0:
		return no(v1alpha1.ReasonObjectConflict, "%s", strings.Join(v.Conflicts, "; "))
	}
	if empty := v.zonesWithoutNodes(); len(empty) > 0 {
		hint := ""
		if len(v.zones()) < 2 {
			hint = "; or, because this cluster does not have two zones, set spec.placement: SingleZone"
		}
		return no(v1alpha1.ReasonZoneWithoutNodes,
			"no node has label %s with the value %s; label nodes, or correct the zones%s",
			v.Store.Spec.ZoneLabel, strings.Join(empty, ", "), hint)
	}
	epoch := max(v.Epoch, v.Store.Status.Topology.Epoch)
	if v.Store.Spec.SingleZone() {
		return yes(v1alpha1.ReasonSingleZone, "topology epoch %d; placement is SingleZone: %s", epoch, noZoneProtection)
	}
	return yes(v1alpha1.ReasonTopologyAccepted, "topology epoch %d", epoch)
}

const noZoneProtection = "nothing protects from the loss of the zone, and coordinators and shards may share a node, " +
	"whose disks can then take acknowledged writes with them"

// zones has the zones that nodes are in.
func (v *view) zones() map[string]bool {
	have := map[string]bool{}
	for _, zone := range v.ZoneOf {
		have[zone] = true
	}
	return have
}

// zonesWithoutNodes returns the zones of the spec that are not among those that the nodes have.
func (v *view) zonesWithoutNodes() []string {
	have := v.zones()
	empty := map[string]bool{}
	for _, dc := range v.Store.Spec.DataCenters {
		if dc.Region != v.Region {
			continue
		}
		zones := v.Store.Spec.ZonesOf(&dc)
		for _, zone := range slices.Concat(zones.Frontend, zones.Backend) {
			if !have[zone] {
				empty[fmt.Sprintf("%s (of %s)", zone, dc.Name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(empty))
}

// storageReady holds if all shards of this region that hold data serve.
func storageReady(v *view) verdict {
	var missing []string
	for _, dc := range v.dataCenters {
		if c := v.dataShards[dc.Name]; c.Ready < c.Desired {
			missing = append(missing, fmt.Sprintf("%s: %d of %d", dc.Name, c.Ready, c.Desired))
		}
	}
	if full := v.problemsOf(diagnose.ReasonStorageFull); len(full) > 0 {
		return no(v1alpha1.ReasonStorageFull, "storages that take no writes%s", causes(full))
	}
	if len(missing) > 0 {
		return no(v1alpha1.ReasonShardsNotReady, "shards that are ready: %s", strings.Join(missing, "; "))
	}
	return yes(v1alpha1.ReasonShardsServe, "all shards in this region serve")
}

// injectionReady holds if this operator injects sidecars.
func injectionReady(v *view) verdict {
	instead := ", and the front is off: nobody can use the store"
	if v.Store.Spec.Clients.Front.IsEnabled() {
		instead = "; clients use the Service " + v.Store.Name
	}
	switch {
	case v.WebhookInstalled && !v.Webhook:
		return no(v1alpha1.ReasonWebhookNotServing,
			"the API server does not trust the webhook's certificate, so new pods get no sidecar; see the "+
				"operator's log")
	case !v.Webhook:
		return no(v1alpha1.ReasonWebhookNotInstalled, "sidecars are not injected%s", instead)
	}
	return yes(v1alpha1.ReasonWebhookServing, "sidecars are injected into new pods of labelled namespaces")
}

func paused(v *view) verdict {
	switch {
	case v.Store.Spec.Paused && len(v.Pending) > 0:
		return yes(v1alpha1.ReasonChangesPending,
			"the operator changes nothing while spec.paused is true; what it would change: %s",
			strings.Join(v.Pending, "; "))
	case v.Store.Spec.Paused:
		return yes(v1alpha1.ReasonPaused,
			"the operator changes nothing while spec.paused is true, and has nothing to change")
	}
	return no(v1alpha1.ReasonNotPaused, "the operator applies changes")
}

// created reports whether the store has been ready once.
func (v *view) created() bool {
	p := meta.FindStatusCondition(v.Store.Status.Conditions, v1alpha1.ConditionProgressing)
	return p != nil && p.Reason != v1alpha1.ReasonCreating && p.Reason != v1alpha1.ReasonSpecRefused
}

// rollingOut reports whether pods restart for a change: some have to, or the last one is not ready yet.
func (v *view) rollingOut() bool {
	p := meta.FindStatusCondition(v.Store.Status.Conditions, v1alpha1.ConditionProgressing)
	was := p != nil && (p.Reason == v1alpha1.ReasonRollingOut || p.Reason == v1alpha1.ReasonLogNotDrained)
	return v.Rollout.Outdated > 0 || was && len(v.away) > 0
}

// maxRestartTime is how long a pod may take to restart until it counts as lost.
const maxRestartTime = 5 * time.Minute

// missingTooLong reports whether parts have been missing for longer than a restart takes.
func (v *view) missingTooLong() bool {
	r := meta.FindStatusCondition(v.Store.Status.Conditions, v1alpha1.ConditionReady)
	return r != nil && r.Status != metav1.ConditionTrue && v.Now.Sub(r.LastTransitionTime.Time) > maxRestartTime
}

// progressing holds while something is on its way to what the spec asks for.
func progressing(v *view) verdict {
	scaling := ""
	if v.Scaling.Pending() {
		scaling = "; " + v.Scaling.String()
	}
	switch {
	case v.Store.DeletionTimestamp != nil:
		return yes(v1alpha1.ReasonDeleting, "the volumes are handled by deletionPolicy %s", v.Store.Spec.DeletionPolicy)
	case !v.created() && len(v.Refused)+len(v.Forbidden) > 0:
		return no(v1alpha1.ReasonSpecRefused, "the spec is not applied; see TopologyValid")
	case v.local > 0 && !v.created() && len(v.missing) > 0 && v.Store.Spec.Paused:
		return no(v1alpha1.ReasonCreating, "the store was paused before it was created; %s", describe(v.missing))
	case v.local > 0 && !v.created() && len(v.missing) > 0:
		return yes(v1alpha1.ReasonCreating, "%s%s%s", describe(v.missing), causes(v.problems), scaling)
	case len(v.Refused)+len(v.Forbidden)+len(v.Conflicts) > 0:
		return no(v1alpha1.ReasonNotApplied, "the spec is not applied; see TopologyValid")
	case len(v.Pending) > 0:
		return no(v1alpha1.ReasonChangesPending, "paused; what would change: %s", strings.Join(v.Pending, "; "))
	case len(v.Resharding.Changes) > 0:
		return yes(v1alpha1.ReasonMovingSlots, "%s%s%s", v.Resharding, scaling, laterRestarts(v.Rollout))
	case len(v.Growing) > 0:
		return yes(v1alpha1.ReasonGrowing, "volumes are growing: %s%s", strings.Join(v.Growing, ", "), scaling)
	case v.Rollout.Outdated > 0 && len(v.Rollout.LateLogs) > 0:
		return yes(v1alpha1.ReasonLogNotDrained,
			"%s; no longer waiting for logs: %s. A coordinator replays its log when it restarts%s",
			restarts(v.Rollout), strings.Join(v.Rollout.LateLogs, "; "), scaling)
	case v.Rollout.Outdated > 0:
		return yes(v1alpha1.ReasonRollingOut, "%s%s", restarts(v.Rollout), scaling)
	case v.rollingOut():
		return yes(v1alpha1.ReasonRollingOut, "the pod that restarted last is not ready yet; %s%s%s", describe(v.away),
			causes(v.problems), scaling)
	case v.Scaling.OnlyMembers():
		return yes(v1alpha1.ReasonMembers, "%s", v.Scaling)
	case v.Scaling.Pending():
		return yes(v1alpha1.ReasonCoordinators, "%s", v.Scaling)
	case v.Rollout.Next.Denied():
		return yes(v1alpha1.ReasonRollingOut, "%s", restarts(v.Rollout))
	case len(v.Resharding.Requested) > 0:
		return yes(v1alpha1.ReasonMovingSlots, "%s", v.Resharding)
	case len(v.edges.rolling) > 0:
		return yes(v1alpha1.ReasonEdgesRolling, "the pods of edges are being replaced: %s%s",
			strings.Join(v.edges.rolling, ", "), causes(v.edgeProblems))
	}
	return no(v1alpha1.ReasonUpToDate, "the store is as the spec says")
}

// restarts says which restarts remain, and what they wait for.
func restarts(r plan.Rollout) string {
	text := restartCount(r.Outdated)
	if r.Next.Denied() {
		text += "; waiting: " + r.Next.Message
	}
	return text
}

func laterRestarts(r plan.Rollout) string {
	if r.Outdated == 0 {
		return ""
	}
	return fmt.Sprintf("; %s after that", restartCount(r.Outdated))
}

func restartCount(n int) string {
	if n == 1 {
		return "1 pod has to restart"
	}
	return fmt.Sprintf("%d pods have to restart", n)
}

// degraded holds if parts or edges that have served are missing, an image cannot be had, a disk has lost data, or two
// processes run as one part. One part that restarts for a change does not count, unless it is known that it will not
// come back by itself.
func degraded(v *view) verdict {
	if without := v.problemsOf(diagnose.ReasonDataLost); len(without) > 0 {
		return yes(v1alpha1.ReasonDataLost, "%s", dataLost(without))
	}
	if two := v.problemsOf(diagnose.ReasonDuplicate); len(two) > 0 {
		return yes(v1alpha1.ReasonDuplicatePart, "two processes run as one part%s", causes(two))
	}
	images, lost := selectProblems(slices.Concat(v.problems, v.edgeProblems, v.etcdProblems),
		[]diagnose.Reason{diagnose.ReasonImage}), v.created() && len(v.lost) > 0
	if lost && v.rollingOut() && v.lostParts == 1 && !v.missingTooLong() && !v.stuck() {
		return no(v1alpha1.ReasonNotDegraded, "one part restarts for a change")
	}
	for _, r := range v.rings {
		if lost && r.Availability == v1alpha1.RingUnavailable {
			return yes(v1alpha1.ReasonDataMissing, "ring %s cannot serve all data; %s%s", r.Name, r.Message,
				causes(v.problems))
		}
	}
	full := v.problemsOf(diagnose.ReasonStorageFull, diagnose.ReasonLogFull)
	switch {
	case len(images) > 0:
		return yes(v1alpha1.ReasonImageMissing,
			"an image cannot be had; correct spec.image, spec.storage.image, or edge.image of the chart (etcd.image "+
				"for etcd), or the pull secrets%s", causes(images))
	case lost && len(full) > 0:
		return yes(v1alpha1.ReasonDiskFull, "%s%s", describe(v.lost), causes(full))
	case lost:
		return yes(v1alpha1.ReasonPartsMissing, "%s%s", describe(v.lost), causes(v.problems))
	}
	if edges := edgesReady(v); edges.reason == v1alpha1.ReasonEdgesMissing {
		return yes(edges.reason, "%s", edges.message)
	}
	return no(v1alpha1.ReasonNotDegraded, "no part is missing")
}

// ready holds if everything that the spec asks for in this region exists and serves. Other regions do not count. Nor do
// sidecars, because the Service does their work as well.
func ready(v *view) verdict {
	switch {
	case len(v.Refused) > 0 && !v.created():
		return no(v1alpha1.ReasonSpecRefused, "%s", strings.Join(v.Refused, "; "))
	case v.local == 0:
		return no(v1alpha1.ReasonNothingHere, "spec.dataCenters has none in region %s, which this operator runs",
			v.Region)
	case len(v.Conflicts) > 0:
		return no(v1alpha1.ReasonObjectConflict, "%s", strings.Join(v.Conflicts, "; "))
	case len(v.problemsOf(diagnose.ReasonDataLost)) > 0:
		return no(v1alpha1.ReasonDataLost, "%s", dataLost(v.problemsOf(diagnose.ReasonDataLost)))
	case clientsReady(v).status != metav1.ConditionTrue:
		return clientsReady(v)
	case len(v.missing) > 0:
		text := describe(v.missing)
		if empty := v.zonesWithoutNodes(); len(empty) > 0 {
			text += "; zones without nodes: " + strings.Join(empty, ", ")
		}
		return no(v1alpha1.ReasonPartsNotReady, "%s%s", text, causes(v.problems))
	case v.Failed != nil:
		return no(v1alpha1.ReasonApplyFailed, "%s", v.Failed)
	}
	return yes(v1alpha1.ReasonAllPartsReady, "all parts of %d data centers serve", v.local)
}

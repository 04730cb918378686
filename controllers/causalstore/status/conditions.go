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
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// topologyValid holds if the spec can be applied, and every zone has nodes.
func topologyValid(v *view) verdict {
	switch {
	case len(v.Refused) > 0:
		return no(v1alpha1.ReasonSpecRefused, "%s", strings.Join(v.Refused, "; "))
	case len(v.Forbidden) > 0:
		return no(v1alpha1.ReasonTopologyChanged, "%s", strings.Join(v.Forbidden, "; "))
	}
	if empty := v.zonesWithoutNodes(); len(empty) > 0 {
		return no(v1alpha1.ReasonZoneWithoutNodes, "no node has label %s with the value %s; label nodes, or correct the zones",
			v.Store.Spec.ZoneLabel, strings.Join(empty, ", "))
	}
	return yes(v1alpha1.ReasonTopologyAccepted, "topology epoch %d", max(v.Epoch, v.Store.Status.Topology.Epoch))
}

func (v *view) zonesWithoutNodes() []string {
	have := map[string]bool{}
	for _, zone := range v.ZoneOf {
		have[zone] = true
	}
	empty := map[string]bool{}
	for _, dc := range v.Store.Spec.DataCenters {
		if dc.Region != v.Region {
			continue
		}
		for _, zone := range slices.Concat(dc.Zones.Frontend, dc.Zones.Backend) {
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
	if full := v.problems(contract.StateStorageFull); len(full) > 0 {
		return no(v1alpha1.ReasonStorageFull, "%s", strings.Join(full, "; "))
	}
	if len(missing) > 0 {
		return no(v1alpha1.ReasonShardsNotReady, "shards that are ready: %s", strings.Join(missing, "; "))
	}
	return yes(v1alpha1.ReasonShardsServe, "all shards in this region serve")
}

// peersConnected holds if every ring acknowledges the writes of this region, which shows that it can be reached.
func peersConnected(v *view) verdict {
	switch {
	case len(v.Store.Spec.Rings) == 1:
		return yes(v1alpha1.ReasonOneRing, "there is only one ring")
	case !v.measured:
		return unknown(v1alpha1.ReasonPeersUnknown, "no coordinator in this region has reported yet how far the rings are behind")
	case len(v.behind) > 0:
		return no(v1alpha1.ReasonPeersBehind,
			"rings that do not acknowledge writes: %s; check their data centres and the network to them", strings.Join(v.behind, ", "))
	}
	return yes(v1alpha1.ReasonPeersAcknowledge, "every ring acknowledges the writes of this region")
}

// injectionReady holds if this operator injects sidecars.
func injectionReady(v *view) verdict {
	if !v.Webhook {
		return no(v1alpha1.ReasonWebhookNotInstalled, "sidecars are not injected; clients use the Service %s", v.Store.Name)
	}
	return yes(v1alpha1.ReasonWebhookServing, "sidecars are injected into new pods of labelled namespaces")
}

func paused(v *view) verdict {
	if v.Store.Spec.Paused {
		return yes(v1alpha1.ReasonPaused, "the operator changes nothing while spec.paused is true")
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
	return v.Rollout.Outdated > 0 || was && len(v.lost) > 0
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
	case !v.created() && len(v.Refused) > 0:
		return no(v1alpha1.ReasonSpecRefused, "the spec is not applied; see TopologyValid")
	case v.local > 0 && !v.created() && len(v.missing) > 0:
		return yes(v1alpha1.ReasonCreating, "%s%s", describe(v.missing), scaling)
	case len(v.Resharding.Changes) > 0:
		return yes(v1alpha1.ReasonMovingSlots, "%s%s%s", v.Resharding, scaling, laterRestarts(v.Rollout))
	case len(v.Growing) > 0:
		return yes(v1alpha1.ReasonGrowing, "volumes are growing: %s%s", strings.Join(v.Growing, ", "), scaling)
	case v.Rollout.Outdated > 0 && len(v.Rollout.LateLogs) > 0:
		return yes(v1alpha1.ReasonLogNotDrained, "%s; no longer waiting for logs: %s. A coordinator replays its log when it restarts%s",
			restarts(v.Rollout), strings.Join(v.Rollout.LateLogs, "; "), scaling)
	case v.Rollout.Outdated > 0:
		return yes(v1alpha1.ReasonRollingOut, "%s%s", restarts(v.Rollout), scaling)
	case v.rollingOut():
		return yes(v1alpha1.ReasonRollingOut, "the pod that restarted last is not ready yet; %s%s", describe(v.lost), scaling)
	case v.Scaling.Pending():
		return yes(v1alpha1.ReasonCoordinators, "%s", v.Scaling)
	case v.Rollout.Next.Denied():
		return yes(v1alpha1.ReasonRollingOut, "%s", restarts(v.Rollout))
	case len(v.Resharding.Requested) > 0:
		return yes(v1alpha1.ReasonMovingSlots, "%s", v.Resharding)
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

// degraded holds if parts that have served are missing. One part that restarts for a change does not count.
func degraded(v *view) verdict {
	if two := v.problems(contract.StateDuplicateIdentity); len(two) > 0 {
		return yes(v1alpha1.ReasonDuplicatePart, "%s", strings.Join(two, "; "))
	}
	if !v.created() || len(v.lost) == 0 {
		return no(v1alpha1.ReasonNotDegraded, "no part is missing")
	}
	if v.rollingOut() && v.lostParts == 1 && !v.missingTooLong() {
		return no(v1alpha1.ReasonNotDegraded, "one part restarts for a change")
	}
	for _, r := range v.rings {
		if r.Availability == v1alpha1.RingUnavailable {
			return yes(v1alpha1.ReasonDataMissing, "%s", v.explained(fmt.Sprintf("ring %s cannot serve all data; %s", r.Name, r.Message)))
		}
	}
	if full := v.problems(contract.StateStorageFull, contract.StateLogFull); len(full) > 0 {
		return yes(v1alpha1.ReasonDiskFull, "%s", strings.Join(full, "; "))
	}
	return yes(v1alpha1.ReasonPartsMissing, "%s", v.explained(describe(v.lost)))
}

// ready holds if everything that the spec asks for in this region exists and serves. Other regions do not count. Nor do
// sidecars, because the Service does their work as well.
func ready(v *view) verdict {
	switch {
	case len(v.Refused) > 0 && !v.created():
		return no(v1alpha1.ReasonSpecRefused, "%s", strings.Join(v.Refused, "; "))
	case v.local == 0:
		return no(v1alpha1.ReasonNothingHere, "spec.dataCenters has none in region %s, which this operator runs", v.Region)
	case len(v.missing) > 0:
		return no(v1alpha1.ReasonPartsNotReady, "%s", v.explained(describe(v.missing)))
	case v.Failed != nil:
		return no(v1alpha1.ReasonApplyFailed, "%s", v.Failed)
	}
	return yes(v1alpha1.ReasonAllPartsReady, "all parts of %d data centres serve", v.local)
}

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
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// topologyValid: the spec can be carried out, and every zone has nodes.
func topologyValid(v *view) verdict {
	switch {
	case len(v.Refused) > 0:
		return no(v1alpha1.ReasonSpecRefused, "%s", strings.Join(v.Refused, "; "))
	case len(v.Forbidden) > 0:
		return no(v1alpha1.ReasonTopologyChanged, "%s", strings.Join(v.Forbidden, "; "))
	}
	if empty := v.zonesWithoutNodes(); len(empty) > 0 {
		return no(v1alpha1.ReasonZoneWithoutNodes, "no node has label %s with %s; label nodes, or correct the zones",
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

func storageReady(v *view) verdict {
	var lacking []string
	for _, dc := range v.dataCenters {
		if c := v.holding[dc.Name]; c.Ready < c.Desired {
			lacking = append(lacking, fmt.Sprintf("%s: %d of %d", dc.Name, c.Ready, c.Desired))
		}
	}
	if len(lacking) > 0 {
		return no(v1alpha1.ReasonShardsNotReady, "shards that serve, in %s", strings.Join(lacking, "; "))
	}
	return yes(v1alpha1.ReasonShardsServe, "all shards here serve")
}

// peersConnected: a ring that acknowledges what is written here can be reached, whatever lies between.
func peersConnected(v *view) verdict {
	switch {
	case len(v.Store.Spec.Rings) == 1:
		return yes(v1alpha1.ReasonOneRing, "there is no other ring")
	case !v.measured:
		return unknown(v1alpha1.ReasonPeersUnknown, "no coordinator here has said yet how far the rings are")
	case len(v.behind) > 0:
		return no(v1alpha1.ReasonPeersBehind,
			"rings that do not acknowledge: %s; look at their data centres, and at the way to them", strings.Join(v.behind, ", "))
	}
	return yes(v1alpha1.ReasonPeersAcknowledge, "every ring acknowledges what is written here")
}

func injectionReady(v *view) verdict {
	if !v.Webhook {
		return no(v1alpha1.ReasonWebhookNotInstalled, "sidecars are not injected; pods use the Service %s", v.Store.Name)
	}
	return yes(v1alpha1.ReasonWebhookServing, "sidecars are injected into new pods of labelled namespaces")
}

func paused(v *view) verdict {
	if v.Store.Spec.Paused {
		return yes(v1alpha1.ReasonPaused, "nothing is changed while spec.paused is true")
	}
	return no(v1alpha1.ReasonNotPaused, "changes are carried out")
}

// created says whether the store has been ready once.
func (v *view) created() bool {
	p := meta.FindStatusCondition(v.Store.Status.Conditions, v1alpha1.ConditionProgressing)
	return p != nil && p.Reason != v1alpha1.ReasonCreating && p.Reason != v1alpha1.ReasonSpecRefused
}

// rolling says whether pods restart for a change: some are to, or the last one comes back.
func (v *view) rolling() bool {
	p := meta.FindStatusCondition(v.Store.Status.Conditions, v1alpha1.ConditionProgressing)
	was := p != nil && (p.Reason == v1alpha1.ReasonRollingOut || p.Reason == v1alpha1.ReasonLogNotDrained)
	return v.Rollout.Outdated > 0 || was && len(v.lost) > 0
}

// rollingPatience is how long a pod may take to come back from a restart until it counts as lost.
const rollingPatience = 5 * time.Minute

// lostPatience says whether parts have been missing for longer than a restart takes.
func (v *view) lostPatience() bool {
	r := meta.FindStatusCondition(v.Store.Status.Conditions, v1alpha1.ConditionReady)
	return r != nil && r.Status != metav1.ConditionTrue && v.Now.Sub(r.LastTransitionTime.Time) > rollingPatience
}

func progressing(v *view) verdict {
	changing := v.Regroup.String()
	also := ""
	if changing != "" {
		also = "; " + changing
	}
	switch {
	case v.Store.DeletionTimestamp != nil:
		return yes(v1alpha1.ReasonDeleting, "volumes are dealt with as deletionPolicy %s says", v.Store.Spec.DeletionPolicy)
	case !v.created() && len(v.Refused) > 0:
		return no(v1alpha1.ReasonSpecRefused, "the spec is not carried out; see TopologyValid")
	case v.here > 0 && !v.created() && len(v.missing) > 0:
		return yes(v1alpha1.ReasonCreating, "ready are %s%s", strings.Join(v.missing, "; "), also)
	case len(v.Reshape.Changes) > 0:
		return yes(v1alpha1.ReasonMovingSlots, "%s%s%s", v.Reshape, also, restartsThen(v.Rollout))
	case len(v.Growing) > 0:
		return yes(v1alpha1.ReasonGrowing, "volumes that grow: %s%s", strings.Join(v.Growing, ", "), also)
	case v.Rollout.Outdated > 0 && len(v.Rollout.Late) > 0:
		return yes(v1alpha1.ReasonLogNotDrained, "%d pods are to be restarted%s; not waiting any longer for logs: %s. What is in a log "+
			"goes on when its coordinator is back%s", v.Rollout.Outdated, waiting(v.Rollout), strings.Join(v.Rollout.Late, "; "), also)
	case v.Rollout.Outdated > 0:
		return yes(v1alpha1.ReasonRollingOut, "%d pods are to be restarted%s%s", v.Rollout.Outdated, waiting(v.Rollout), also)
	case v.rolling():
		return yes(v1alpha1.ReasonRollingOut, "the last pod comes back; ready are %s%s", strings.Join(v.lost, "; "), also)
	case changing != "":
		return yes(v1alpha1.ReasonCoordinators, "%s", changing)
	case v.Rollout.Waiting != "":
		return yes(v1alpha1.ReasonRollingOut, "%d pods are to be restarted%s", v.Rollout.Outdated, waiting(v.Rollout))
	case len(v.Reshape.Wanted) > 0:
		return yes(v1alpha1.ReasonMovingSlots, "%s", v.Reshape)
	}
	return no(v1alpha1.ReasonUpToDate, "everything is as the spec has it")
}

func restartsThen(r plan.Rollout) string {
	if r.Outdated == 0 {
		return ""
	}
	return fmt.Sprintf("; %d pods are to be restarted after that", r.Outdated)
}

func waiting(r plan.Rollout) string {
	if r.Waiting == "" {
		return ""
	}
	return "; waiting, since " + r.Waiting
}

// degraded: what was there once is missing. One part that restarts for a change does not count.
func degraded(v *view) verdict {
	if !v.created() || len(v.lost) == 0 {
		return no(v1alpha1.ReasonNotDegraded, "nothing that was there is missing")
	}
	if v.rolling() && v.lostParts == 1 && !v.lostPatience() {
		return no(v1alpha1.ReasonNotDegraded, "one part restarts for a change")
	}
	for _, r := range v.rings {
		if r.Availability == v1alpha1.RingUnavailable {
			return yes(v1alpha1.ReasonDataMissing, "ring %s cannot serve all data: %s", r.Name, r.Message)
		}
	}
	return yes(v1alpha1.ReasonPartsMissing, "ready are %s", strings.Join(v.lost, "; "))
}

// ready: what the spec asks for here is there and serves. Other regions do not count; nor do sidecars, whose work the Service
// does as well.
func ready(v *view) verdict {
	switch {
	case len(v.Refused) > 0 && !v.created():
		return no(v1alpha1.ReasonSpecRefused, "%s", strings.Join(v.Refused, "; "))
	case v.here == 0:
		return no(v1alpha1.ReasonNothingHere, "spec.dataCenters has none with region %s, which this operator runs", v.Region)
	case len(v.missing) > 0:
		return no(v1alpha1.ReasonPartsNotReady, "ready are %s", strings.Join(v.missing, "; "))
	case v.Failed != nil:
		return no(v1alpha1.ReasonApplyFailed, "%s", v.Failed)
	}
	return yes(v1alpha1.ReasonAllPartsReady, "all parts of %d data centres serve", v.here)
}

package plan

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/topology"
)

// EndingClaim is a claim that somebody has deleted while a part uses it. Kubernetes keeps it, and its volume, for as
// long as the pod is there, and removes both when that goes: a restart, which is harmless otherwise, then takes the
// data. The deletion cannot be taken back.
type EndingClaim struct {
	Claim string
	// Pod is the one that uses it, and Node where that runs, if it does.
	Pod, Node string
	Since     time.Time
	labels    map[string]string // of the pod
}

func (c *EndingClaim) hasLabels(selector map[string]string) bool { return matches(selector, c.labels) }

// IsBound reports whether a claim has, or had, a volume: only then anything can be in it.
func IsBound(c *corev1.PersistentVolumeClaim) bool {
	return c.Spec.VolumeName != "" || c.Status.Phase == corev1.ClaimBound || c.Status.Phase == corev1.ClaimLost
}

// EndingClaims returns the claims of parts that are to stay, and are being deleted, by name. Those of parts that have
// left are deleted by the operator itself, and are not among them.
func EndingClaims(in Observed) (all []EndingClaim) {
	for i := range in.Claims {
		c := &in.Claims[i]
		if c.DeletionTimestamp == nil || !in.isUsed(c) {
			continue
		}
		e := EndingClaim{Claim: c.Name, Pod: PodOfClaim(c), Since: c.DeletionTimestamp.Time}
		for j := range in.Pods {
			if p := &in.Pods[j]; p.Name == e.Pod {
				e.Node, e.labels = p.Spec.NodeName, p.Labels
			}
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b EndingClaim) int { return strings.Compare(a.Claim, b.Claim) })
	return all
}

// PodOfClaim returns the name of the pod that uses a claim of a store.
func PodOfClaim(c client.Object) string {
	_, pod, _ := strings.Cut(c.GetName(), "-")
	return pod
}

// isUsed reports whether a claim is of a part that the spec asks for, or that still runs: one that leaves has what it
// has not handed over.
func (in *Observed) isUsed(c *corev1.PersistentVolumeClaim) bool {
	if !IsClaimOfStore(in.Store.Name, c) {
		return false
	}
	for i := range in.Store.Spec.DataCenters {
		dc := &in.Store.Spec.DataCenters[i]
		if dc.Name != c.Labels[LabelDataCenter] {
			continue
		}
		if IsOfEtcd(c) {
			return in.HasEtcd(dc)
		}
		part, groups, field := topology.Coordinator, int(dc.Coordinators.Replicas),
			c.Name[strings.LastIndex(c.Name, "-")+1:]
		if shard, ok := c.Labels[LabelShard]; ok {
			part, groups, field = topology.Middleman, int(dc.Shards), shard
		}
		n, err := strconv.Atoi(field)
		if err != nil {
			return false
		}
		return n < groups && Member(c) <= WantedMembers(&in.Store.Spec, dc, part) ||
			in.runs(dc.Name, part, n, Member(c))
	}
	return false
}

// runs reports whether the recorded layout has a member of a group, though it may leave.
func (in *Observed) runs(name string, part topology.Part, group, member int) bool {
	f, err := in.Record.LayoutFile()
	if err != nil || f == nil {
		return false
	}
	d := findDataCenter(f, name)
	if d == nil {
		return false
	}
	counts := d.Counts()
	groups := counts.RunningCoordinators()
	if part == topology.Middleman {
		groups = counts.RunningMiddlemen()
	}
	return group < groups && member <= counts.Members(part)
}

// checkClaimsOf denies to restart a pod that would lose its volume.
func checkClaimsOf(in Observed, p *corev1.Pod) Decision {
	for _, c := range EndingClaims(in) {
		if c.Pod == p.Name {
			return deny(ReasonClaimTerminating,
				"claim %s is being deleted: its volume goes with pod %s (docs/disasters.md, A claim is being deleted)",
				c.Claim, c.Pod)
		}
	}
	return allow()
}

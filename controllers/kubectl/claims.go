package kubectl

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/outage"
)

// checkVolumes has a finding for each claim that is being deleted under its pod, that has lost its volume, or that has
// none yet.
func (e *evidence) checkVolumes() (all []finding) {
	for i := range e.parts {
		for _, claim := range e.claimsOf(&e.parts[i]) {
			all = append(all, e.describeEnding(e.claims[claim], &e.parts[i]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.claims)) {
		c := e.claims[name]
		switch {
		case c.Status.Phase == corev1.ClaimLost:
			all = append(all, finding{level: levelProblem, subject: "claim " + name, text: "its volume is lost",
				next: []string{
					"get the disk or a PersistentVolume for it back; if it is gone for good: docs/disasters.md",
				},
				safe: "leaving the pod down. Never replace the volume by an empty one"})
		case c.Status.Phase == corev1.ClaimPending:
			all = append(all, finding{level: levelNote, subject: "claim " + name,
				text: "it is not bound to a volume yet",
				next: []string{fmt.Sprintf("kubectl -n %s describe persistentvolumeclaim %s", c.Namespace, name)}})
		}
	}
	return all
}

// describeEnding says what is lost with a claim that is being deleted, and how to keep it.
func (e *evidence) describeEnding(c *corev1.PersistentVolumeClaim, p *corev1.Pod) finding {
	in := "kubectl -n " + p.Namespace
	loss, copied := e.lossWith(p)
	f := finding{level: levelProblem, subject: "claim " + c.Name,
		text: fmt.Sprintf("it was deleted at %s, and its volume goes as soon as pod %s stops, by whatever: %s",
			c.DeletionTimestamp.UTC().Format("2006-01-02 15:04 UTC"), p.Name, loss),
		safe: fmt.Sprintf(
			"leaving pod %s and node %s alone. The operator restarts no such pod, and its budget allows no eviction",
			p.Name, p.Spec.NodeName)}
	if copied {
		f.next = []string{
			fmt.Sprintf(
				"%s delete pod %s, if all other members follow: it starts with an empty volume and gets everything "+
					"from them", in, p.Name),
		}
		f.safe = "deleting the pod while every other member of its group serves or follows; leaving it alone always"
		return f
	}
	volume := c.Spec.VolumeName
	if volume == "" {
		volume = "VOLUME"
	}
	set := p.Name
	if i := len(fmt.Sprintf("-%d", plan.Index(p))); i < len(set) {
		set = set[:len(set)-i]
	}
	f.next = []string{
		"to keep the volume, all of this, in this order (docs/disasters.md#a-claim-is-being-deleted):",
		fmt.Sprintf(`kubectl patch persistentvolume %s -p '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`,
			volume),
		fmt.Sprintf("kubectl causal pause %s --namespace %s", e.store.Name, e.store.Namespace),
		fmt.Sprintf("%s delete statefulset %s --cascade=orphan", in, set),
		fmt.Sprintf("%s delete pod %s", in, p.Name),
		fmt.Sprintf("%s wait --for=delete persistentvolumeclaim/%s --timeout=120s", in, c.Name),
		fmt.Sprintf(
			`kubectl patch persistentvolume %s --type=merge -p '{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}'`, volume),
		fmt.Sprintf("kubectl causal resume %s --namespace %s", e.store.Name, e.store.Namespace),
	}
	return f
}

// lossWith says what is lost with the volume of a pod, and whether other members have all of it.
func (e *evidence) lossWith(p *corev1.Pod) (text string, copied bool) {
	layout := layoutOf(e.store)
	of, _ := processOf(p)
	for _, dc := range layout.DataCenters {
		switch {
		case dc.Name != of.DataCenter:
		case of.Kind == outage.Etcd && dc.Etcd > 1:
			return "nothing while the other members of the etcd serve", true
		case of.Kind == outage.Etcd:
			return "what the only member of the etcd knows of the groups of its data center", false
		case of.Kind == outage.Coordinator && dc.CoordinatorMembers > 1, of.Kind == outage.Shard && dc.ShardMembers > 1:
			return "nothing while another member of its group has everything", true
		case of.Kind == outage.Coordinator:
			return "acknowledged writes that are not in every ring yet", false
		case of.Kind == outage.Shard && len(layout.Rings) > 1:
			return "this ring's copy of the data of the shard, which then has to come back from another ring", false
		}
	}
	return "ALL DATA OF THE SHARD: the store has one ring", false
}

package kubectl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/outage"
	"github.com/causalstore/causalstore/topology"
)

// layoutOf returns the layout of a store, which says what clients notice while pods are away.
func layoutOf(s *v1alpha1.CausalStore) outage.Store {
	o := outage.Store{Static: s.Spec.Binding == v1alpha1.BindingStatic, Fronts: s.Spec.Clients.Front.IsEnabled()}
	for i := range s.Spec.DataCenters {
		dc := &s.Spec.DataCenters[i]
		d := outage.DataCenter{Name: dc.Name, Coordinators: int(dc.Coordinators.Replicas),
			CoordinatorMembers: plan.WantedMembers(&s.Spec, dc, topology.Coordinator),
			Shards:             int(dc.Shards), ShardMembers: plan.WantedMembers(&s.Spec, dc, topology.Middleman),
			Caches: int(dc.Caches.Replicas)}
		for _, is := range s.Status.DataCenters {
			if is.Name == dc.Name && is.Etcd != nil {
				d.Etcd = int(is.Etcd.Desired)
			}
		}
		o.DataCenters = append(o.DataCenters, d)
	}
	for _, r := range s.Spec.Rings {
		o.Rings = append(o.Rings, r.DataCenters)
	}
	return o
}

// processOf returns what runs in a pod; false if it is an edge.
func processOf(p *corev1.Pod) (outage.Process, bool) {
	kinds := map[string]outage.Kind{plan.ComponentCoordinator: outage.Coordinator, plan.ComponentShard: outage.Shard,
		plan.ComponentCache: outage.Cache, plan.ComponentEtcd: outage.Etcd}
	kind, ok := kinds[p.Labels[plan.LabelComponent]]
	o := outage.Process{DataCenter: p.Labels[plan.LabelDataCenter], Kind: kind, Index: plan.Index(p),
		Member: plan.Member(p)}
	if kind == outage.Shard {
		o.Index, _ = strconv.Atoi(p.Labels[plan.LabelShard]) // the operator writes the label
	}
	return o, ok
}

// maxNodesShown bounds the nodes of which the doctor says what a drain costs.
const maxNodesShown = 32

// checkDisruption says what it costs to take down a pod or a node now, by the layout of the store, and whether anything
// speaks against it.
func (e *evidence) checkDisruption() finding {
	if reasons := e.notNow(); len(reasons) > 0 {
		return finding{level: levelNote, subject: "now",
			text: "do not take down further pods or nodes: " + strings.Join(reasons, ", "),
			safe: "leaving what serves as it is, and what is said of each pod above. Never delete a volume claim"}
	}
	f := finding{level: levelOK, subject: "now",
		text: "one pod may be deleted, or one node drained, at a time: no data is lost by it, since the volumes stay" +
			e.exceptUnread()}
	layout := layoutOf(e.store)
	var anyPod outage.Effects
	onNode := map[string][]outage.Process{}
	for i := range e.parts {
		if p, ok := processOf(&e.parts[i]); ok {
			anyPod.Add(outage.Of(layout, []outage.Process{p}))
			onNode[e.parts[i].Spec.NodeName] = append(onNode[e.parts[i].Spec.NodeName], p)
		}
	}
	f.costs = append(f.costs, "deleting one pod, by its part: "+anyPod.String())
	nodes := slices.Sorted(maps.Keys(onNode))
	slices.SortStableFunc(nodes, func(a, b string) int {
		return cmp.Compare(failsFirst(outage.Of(layout, onNode[a])), failsFirst(outage.Of(layout, onNode[b])))
	})
	var costly []string
	for i, node := range nodes {
		effects := outage.Of(layout, onNode[node])
		if effects.Fails() {
			costly = append(costly, node)
		}
		if i < maxNodesShown {
			f.costs = append(f.costs,
				fmt.Sprintf("draining node %s, until its %d pods serve elsewhere or it is back: %s%s", node,
					len(onNode[node]), &effects, waitsBehind(layout, onNode[node])))
		}
	}
	if len(nodes) > maxNodesShown {
		f.costs = append(f.costs, fmt.Sprintf("%d more nodes are not shown", len(nodes)-maxNodesShown))
	}
	switch {
	case anyPod.Fails():
		f.safe = "for data: deleting one pod or draining one node at a time. Clients see failures while a part is " +
			"away of which the cost says so: its like is in no other pod"
	case len(costly) > 0:
		f.safe = "deleting one pod at a time. Draining a node too, except " +
			strings.Join(costly[:min(len(costly), maxNodesShown)], ", ") + ": clients see failures, as their cost says"
	default:
		f.safe = "deleting one pod, or draining one node at a time; the PodDisruptionBudgets hold back what must " +
			"wait (docs/kubernetes.md#maintenance-of-nodes)"
	}
	return f
}

func failsFirst(e outage.Effects) int {
	if e.Fails() {
		return 0
	}
	return 1
}

// waitsBehind says that the drain of a node waits for a pod that it has evicted: parts with one member of a data center
// share a budget.
func waitsBehind(s outage.Store, pods []outage.Process) string {
	count := map[string]int{}
	for _, p := range pods {
		for _, dc := range s.DataCenters {
			if dc.Name == p.DataCenter && (p.Kind == outage.Shard && dc.ShardMembers == 1 ||
				p.Kind == outage.Coordinator && dc.CoordinatorMembers == 1) {
				count[fmt.Sprintf("%ss of %s", p.Kind, dc.Name)]++
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(count)) {
		if count[what] > 1 {
			return fmt.Sprintf(
				"; the drain evicts its %d %s one after the other, and waits if one cannot start elsewhere",
				count[what], what)
		}
	}
	return ""
}

// notNow returns what speaks against taking down anything.
func (e *evidence) notNow() (reasons []string) {
	for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionPeersConnected} {
		c := meta.FindStatusCondition(e.store.Status.Conditions, name)
		if is := conditionStatus(c); is != metav1.ConditionTrue {
			reasons = append(reasons, fmt.Sprintf("%s is %s", name, is))
		}
	}
	if e.store.DeletionTimestamp != nil {
		reasons = append(reasons, "the store is being deleted")
	}
	if conditionStatus(meta.FindStatusCondition(e.store.Status.Conditions,
		v1alpha1.ConditionProgressing)) == metav1.ConditionTrue {
		reasons = append(reasons, "a change is in progress")
	}
	if conditionStatus(meta.FindStatusCondition(e.store.Status.Conditions,
		v1alpha1.ConditionUnderReplicated)) == metav1.ConditionTrue {
		reasons = append(reasons, "a group lacks members")
	}
	for i := range e.parts {
		p := &e.parts[i]
		if p.Labels[plan.LabelComponent] != plan.ComponentEdge && !e.downs.includes(p) &&
			(!plan.Ready(p) || p.DeletionTimestamp != nil || e.nodes.problem(p) != "") {
			reasons = append(reasons, "pod "+p.Name+" does not serve")
			break
		}
	}
	if e.missingPods() != "" {
		reasons = append(reasons, "pods are missing")
	}
	if len(e.operatorAway()) > 0 {
		reasons = append(reasons, "no operator watches the store")
	}
	for i := range e.parts {
		for _, claim := range e.claimsOf(&e.parts[i]) {
			reasons = append(reasons, fmt.Sprintf("claim %s is being deleted, and its volume goes with pod %s", claim,
				e.parts[i].Name))
		}
	}
	return reasons
}

func conditionStatus(c *metav1.Condition) metav1.ConditionStatus {
	if c == nil {
		return metav1.ConditionUnknown
	}
	return c.Status
}

// exceptUnread says that it is not known whether volumes stay.
func (e *evidence) exceptUnread() string {
	if slices.Contains(e.unread, unreadClaims) {
		return ", unless a claim is Terminating, which you may not see: ask somebody who may"
	}
	return ""
}

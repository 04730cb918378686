package kubectl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/diagnose"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// findings judges the evidence: first what the rest depends on, and last what is safe now.
func (e *evidence) findings() []finding {
	all := []finding{e.checkOperator(), e.checkSpec()}
	all = append(all, e.checkPods()...)
	all = append(all, e.checkVolumes()...)
	all = append(append(append(all, e.checkEdges()...), e.checkEtcds()...), e.checkGroups()...)
	all = append(all, e.checkRings(), e.checkSidecars(), e.checkDisruption())
	if len(e.unread) > 0 {
		all = append(all, finding{level: levelNote, subject: "rights", text: "you may not list " + strings.Join(e.unread, ", ") + ": what depends on them was not checked"})
	}
	return all
}

// condition returns a condition of the store, or an Unknown one.
func (e *evidence) condition(name string) metav1.Condition {
	if c := meta.FindStatusCondition(e.store.Status.Conditions, name); c != nil {
		return *c
	}
	return metav1.Condition{Type: name, Status: metav1.ConditionUnknown, Reason: "NotObserved", Message: "no operator has reported it"}
}

func (e *evidence) checkOperator() finding {
	f := finding{level: levelOK, subject: "operator", text: "it keeps the status of the store up to date"}
	ready := 0
	for i := range e.operator {
		if plan.Ready(&e.operator[i]) {
			ready++
		}
	}
	differences := compareWithPods(e.store, e.parts, e.now)
	stale := describeStaleness(e.store, e.now)
	if stale == "" && len(differences) == 0 {
		return f
	}
	f.level = levelProblem
	f.text = strings.Join(append(slices.DeleteFunc([]string{stale}, func(s string) bool { return s == "" }), differences...), "; ")
	f.next = []string{"kubectl get pods --all-namespaces --selector " + plan.LabelName + "=" + plan.ManagedBy}
	switch {
	case slices.Contains(e.unread, "the pods of the operator"):
	case len(e.operator) == 0:
		f.text += "; no pod of an operator is in this cluster"
		f.next = append(f.next, "install the chart again, with the same region: helm upgrade --install")
	case ready == 0:
		f.text += fmt.Sprintf("; none of its %d pods is ready", len(e.operator))
		f.next = append(f.next, fmt.Sprintf("kubectl -n %s describe pod %s", e.operator[0].Namespace, e.operator[0].Name))
	default:
		f.text += fmt.Sprintf("; %d of its %d pods are ready", ready, len(e.operator))
		f.next = append(f.next, fmt.Sprintf("kubectl -n %s logs %s --tail=50", e.operator[0].Namespace, e.operator[0].Name))
	}
	f.safe = "restarting or reinstalling the operator at any time; stores serve without it. Everything below that comes from the status is as old"
	return f
}

func (e *evidence) checkSpec() finding {
	s := e.store
	edit := fmt.Sprintf("kubectl -n %s edit causalstore %s", s.Namespace, s.Name)
	f := finding{level: levelOK, subject: "spec", text: fmt.Sprintf("generation %d is applied", s.Generation)}
	topology, ready, paused := e.condition(v1alpha1.ConditionTopologyValid), e.condition(v1alpha1.ConditionReady), e.condition(v1alpha1.ConditionPaused)
	switch {
	case topology.Status == metav1.ConditionFalse:
		f.level, f.text = levelProblem, topology.Message
		f.next, f.safe = []string{edit}, "correcting the spec at any time. What runs goes on as it is"
	case ready.Reason == v1alpha1.ReasonApplyFailed:
		f.level, f.text = levelProblem, ready.Message
		f.next, f.safe = []string{"remove what the API server names: a quota, a policy, an object of the same name; the operator tries again by itself"}, "waiting: what runs goes on as it is"
	case paused.Reason == v1alpha1.ReasonChangesPending:
		f.level, f.text = levelProblem, paused.Message
		f.next = []string{fmt.Sprintf("kubectl causal resume %s --namespace %s", s.Name, s.Namespace)}
		f.safe = "staying paused, but nothing of the store is repaired meanwhile"
	case paused.Status == metav1.ConditionTrue:
		f.level, f.text = levelNote, paused.Message
	case s.Status.ObservedGeneration != s.Generation:
		f.level, f.text = levelNote, fmt.Sprintf("the operator has not processed generation %d yet", s.Generation)
	case e.condition(v1alpha1.ConditionProgressing).Status == metav1.ConditionTrue:
		f.level, f.text = levelNote, "a change is in progress: "+e.condition(v1alpha1.ConditionProgressing).Message
	case topology.Reason == v1alpha1.ReasonSingleZone:
		f.level, f.text = levelNote, f.text+"; "+topology.Message
		f.next = []string{"for data that must survive the loss of a zone, use a cluster with two zones or more, and placement Zones: volumes cannot move, so this needs a new store unless they are in the right zones"}
	}
	return f
}

// checkPods has a finding for each pod that does not serve, and one for all others.
func (e *evidence) checkPods() (all []finding) {
	slices.SortFunc(e.parts, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	serving, ending := 0, 0
	for i := range e.parts {
		p := &e.parts[i]
		if p.DeletionTimestamp != nil && p.Labels[plan.LabelComponent] == plan.ComponentEdge {
			ending++
			continue // it serves its tunnels to their end, and another one has taken its place
		}
		node := e.nodes.problem(p)
		if plan.Ready(p) && p.DeletionTimestamp == nil && node == "" {
			serving++
			continue
		}
		c := causeOf(p, e.store, e.now)
		f := finding{level: levelProblem, subject: "pod " + p.Name, text: e.downs.unreadyReason(p, e.store, e.now)}
		if node != "" {
			c.Reason, f.text = diagnose.ReasonNodeGone, node
		}
		if e.downs.includes(p) && !c.Lasting && node == "" {
			f.level = levelNote
		}
		f.next, f.safe = e.advise(p, c), safety(p, c)
		all = append(all, f)
	}
	if missing := e.missingPods(); missing != "" {
		all = append(all, finding{level: levelProblem, subject: "pods", text: missing,
			next: []string{fmt.Sprintf("kubectl -n %s get statefulsets,events --selector %s=%s", e.store.Namespace, plan.LabelInstance, e.store.Name)},
			safe: "waiting: the StatefulSets create their pods again, on their old volumes"})
	}
	f := finding{level: levelOK, subject: "pods", text: fmt.Sprintf("%d of %d serve", serving, len(e.parts)-ending)}
	if serving < len(e.parts)-ending {
		f.level = levelNote
	}
	return append(all, f)
}

// missingPods says which pods the status asks for and are not there.
func (e *evidence) missingPods() string {
	var texts []string
	for _, dc := range e.store.Status.DataCenters {
		for component, want := range map[string]int32{plan.ComponentCoordinator: dc.Coordinators.Desired, plan.ComponentCache: dc.Caches.Desired, plan.ComponentShard: dc.Shards.Desired} {
			have := int32(0)
			for i := range e.parts {
				if l := e.parts[i].Labels; l[plan.LabelDataCenter] == dc.Name && l[plan.LabelComponent] == component {
					have++
				}
			}
			if have < want {
				texts = append(texts, fmt.Sprintf("%s has %d of %d pods of component %s", dc.Name, have, want, component))
			}
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

func (e *evidence) checkVolumes() (all []finding) {
	for _, name := range slices.Sorted(maps.Keys(e.claims)) {
		c := e.claims[name]
		switch {
		case c.Status.Phase == corev1.ClaimLost:
			all = append(all, finding{level: levelProblem, subject: "claim " + name, text: "its volume is lost",
				next: []string{"get the disk or a PersistentVolume for it back; if it is gone for good: docs/disasters.md"},
				safe: "leaving the pod down. Never replace the volume by an empty one"})
		case c.Status.Phase == corev1.ClaimPending:
			all = append(all, finding{level: levelNote, subject: "claim " + name, text: "it is not bound to a volume yet",
				next: []string{fmt.Sprintf("kubectl -n %s describe persistentvolumeclaim %s", c.Namespace, name)}})
		}
	}
	return all
}

func (e *evidence) checkRings() finding {
	f := finding{level: levelOK, subject: "rings", text: e.store.Status.Summary.Rings + " complete here; " + e.condition(v1alpha1.ConditionPeersConnected).Message}
	var broken []string
	for _, r := range e.store.Status.Rings {
		if r.Availability == v1alpha1.RingUnavailable || r.Availability == v1alpha1.RingDegraded {
			broken = append(broken, fmt.Sprintf("%s is %s (%s)", r.Name, r.Availability, r.Message))
		}
	}
	peers := e.condition(v1alpha1.ConditionPeersConnected)
	switch {
	case len(broken) > 0:
		f.level, f.text = levelProblem, strings.Join(broken, "; ")
		f.next = []string{"bring back the pods above; the ring catches up by itself"}
		f.safe = "waiting: nothing acknowledged is lost while the volumes are intact. Writes wait in the coordinators' logs, and end with BUSY when these are full"
	case peers.Status == metav1.ConditionFalse:
		f.level, f.text = levelProblem, peers.Message
		f.next = []string{"run kubectl causal doctor in the cluster of that ring's region, and kubectl causal topology here for the paths that do not answer"}
		f.safe = "waiting, until the write buffers are full: kubectl causal top shows the incomplete writes. Do not remove coordinators"
	case peers.Status == metav1.ConditionUnknown:
		f.level, f.text = levelNote, peers.Message
	}
	return f
}

// checkEdges has a finding if data centers here have edges.
func (e *evidence) checkEdges() []finding {
	if !slices.ContainsFunc(e.store.Status.DataCenters, func(d v1alpha1.DataCenterStatus) bool { return d.Edge != nil }) {
		return nil
	}
	c := e.condition(v1alpha1.ConditionEdgesReady)
	f := finding{level: levelOK, subject: "edges", text: c.Message}
	if c.Status == metav1.ConditionTrue {
		return []finding{f}
	}
	f.level, f.safe = levelProblem, "deleting one pod of an edge at a time: it has no state. Parts dial again by themselves"
	switch c.Reason {
	case v1alpha1.ReasonEdgePeersUntrusted:
		f.next = []string{"with a context for each cluster: kubectl causal trust --context THIS --context OTHER"}
	case v1alpha1.ReasonEdgeImageMissing:
		f.next = []string{"helm upgrade ... --set edge.image.repository=REPOSITORY --set edge.image.tag=TAG"}
	default:
		f.next = []string{fmt.Sprintf("kubectl -n %s describe service,deployment --selector %s=%s,%s=%s", e.store.Namespace, plan.LabelInstance, e.store.Name,
			plan.LabelComponent, plan.ComponentEdge)}
	}
	return []finding{f}
}

// checkEtcds has a finding if the operator runs an etcd here.
func (e *evidence) checkEtcds() []finding {
	if !slices.ContainsFunc(e.store.Status.DataCenters, func(d v1alpha1.DataCenterStatus) bool { return d.Etcd != nil }) {
		return nil
	}
	c := e.condition(v1alpha1.ConditionEtcdReady)
	f := finding{level: levelOK, subject: "etcd", text: c.Message}
	if c.Status != metav1.ConditionTrue {
		f.level, f.safe = levelProblem, "deleting a pod that does not serve: its volume stays. Never delete volume claims of two members"
		f.next = []string{fmt.Sprintf("kubectl -n %s describe pods --selector %s=%s,%s=%s", e.store.Namespace, plan.LabelInstance, e.store.Name,
			plan.LabelComponent, plan.ComponentEtcd), "docs/runbooks.md#causalstoreetcdnotready explains the reasons"}
	}
	return []finding{f}
}

// checkGroups has a finding for each group of members that is not whole, or one for all of them. It has none if no part has several members.
func (e *evidence) checkGroups() (all []finding) {
	c := e.condition(v1alpha1.ConditionUnderReplicated)
	groups, whole := 0, 0
	for i := range e.store.Status.DataCenters {
		d := &e.store.Status.DataCenters[i]
		for j := range d.Groups {
			g := &d.Groups[j]
			groups++
			if len(g.Members) >= int(g.Wanted) && g.Primary != 0 && g.Problem == "" {
				whole++
				continue
			}
			f := finding{level: levelProblem, subject: fmt.Sprintf("group of %s %d of %s", g.Part, g.Index, d.Name), text: describeGroup(g),
				next: []string{"bring back the pods and volumes above; a member joins by itself, also on an empty volume", "docs/runbooks.md#causalstoregroupunderreplicated explains the states"},
				safe: "deleting a pod of a member that does not follow; its volume stays"}
			if g.Problem != "" || g.Primary == 0 {
				f.next = []string{fmt.Sprintf("kubectl causal recover %s %s/%d%s --namespace %s says what a person may decide", e.store.Name, d.Name, g.Index, shardFlag(g), e.store.Namespace),
					"docs/runbooks.md#causalstoregroupfrozen and #causalstoregrouplost explain the states"}
				f.safe = "waiting: nothing acknowledged is lost while the volumes are intact. Never delete one of them"
			}
			all = append(all, f)
		}
	}
	if groups == 0 {
		return nil
	}
	f := finding{level: levelOK, subject: "groups", text: fmt.Sprintf("%d of %d have all their members", whole, groups)}
	if whole < groups || c.Status == metav1.ConditionUnknown {
		f.level = levelNote
	}
	if c.Status == metav1.ConditionUnknown {
		f.text += "; " + c.Message
	}
	return append(all, f)
}

func (e *evidence) checkSidecars() finding {
	if slices.Contains(e.unread, unreadApps) {
		return finding{level: levelNote, subject: "sidecars", text: "not checked"}
	}
	if len(e.sidecars) == 0 {
		return finding{level: levelOK, subject: "sidecars", text: "every pod that should have one has a current one"}
	}
	f := finding{level: levelProblem, subject: "sidecars", text: fmt.Sprintf("%d pods have none, or an old one; the first: %s", len(e.sidecars), e.sidecars[0])}
	f.next = []string{"kubectl causal check --all-namespaces lists them, and with --restart restarts them one by one"}
	f.safe = "restarting pods of apps in this way: it respects their PodDisruptionBudgets. A pod without a sidecar has a session for each connection until then"
	return f
}

// checkDisruption says whether a pod or node may be taken down now.
func (e *evidence) checkDisruption() finding {
	f := finding{level: levelOK, subject: "now", safe: "deleting one pod, or draining one node at a time; the PodDisruptionBudgets hold back what must wait"}
	reasons := []string{}
	for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionPeersConnected} {
		if c := e.condition(name); c.Status != metav1.ConditionTrue {
			reasons = append(reasons, fmt.Sprintf("%s is %s", name, c.Status))
		}
	}
	if c := e.condition(v1alpha1.ConditionProgressing); c.Status == metav1.ConditionTrue {
		reasons = append(reasons, "a change is in progress")
	}
	if e.condition(v1alpha1.ConditionUnderReplicated).Status == metav1.ConditionTrue {
		reasons = append(reasons, "a group lacks members")
	}
	if describeStaleness(e.store, e.now) != "" {
		reasons = append(reasons, "no operator watches the store")
	}
	if len(reasons) == 0 {
		f.text = "pods and nodes may be taken down, one at a time"
		return f
	}
	f.level, f.text = levelNote, "do not take down further pods or nodes: "+strings.Join(reasons, ", ")
	f.safe = "deleting a pod that does not serve; its volume stays. Never delete a volume claim"
	return f
}

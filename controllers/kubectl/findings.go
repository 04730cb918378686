package kubectl

import (
	"cmp"
	"fmt"
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
	all := append(e.checkDeletion(), e.checkOperator(), e.checkSpec())
	all = append(all, e.checkVolumes()...)
	all = append(all, e.checkConditions()...)
	all = append(all, e.checkPods()...)
	all = append(all, e.checkGroups()...)
	return append(all, e.checkRings(), e.checkSidecars(), e.checkDisruption(), e.checkKnown())
}

// checkSpec says whether the operator has applied the spec. What is wrong with it, conditions say.
func (e *evidence) checkSpec() finding {
	s := e.store
	switch topology := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionTopologyValid); {
	case s.Status.ObservedGeneration != s.Generation:
		return finding{level: levelNote, subject: "spec",
			text: fmt.Sprintf(
				"the operator has not processed generation %d yet; what the status says is of generation %d",
				s.Generation, s.Status.ObservedGeneration)}
	case topology != nil && topology.Status != metav1.ConditionTrue:
		return finding{level: levelNote, subject: "spec",
			text: fmt.Sprintf("generation %d is not applied", s.Generation)}
	case topology != nil && topology.Reason == v1alpha1.ReasonSingleZone:
		return finding{level: levelNote, subject: "spec",
			text: fmt.Sprintf("generation %d is applied; %s", s.Generation, topology.Message),
			next: []string{
				"for data that must survive the loss of a zone, use a cluster with two zones or more, and placement " +
					"Zones: volumes cannot move, so this needs a new store unless they are in the right zones",
			}}
	}
	return finding{level: levelOK, subject: "spec",
		text: fmt.Sprintf("the operator has processed generation %d", s.Generation)}
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
		f.next, f.safe = e.advise(p, c), e.safety(p, c)
		all = append(all, f)
	}
	if missing := e.missingPods(); missing != "" {
		all = append(all, finding{level: levelProblem, subject: "pods", text: missing,
			next: []string{fmt.Sprintf("kubectl -n %s get statefulsets --selector %s=%s", e.store.Namespace,
				plan.LabelInstance, e.store.Name),
				fmt.Sprintf("kubectl -n %s get events --field-selector reason=FailedCreate", e.store.Namespace)},
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
		for component, want := range map[string]int32{plan.ComponentCoordinator: dc.Coordinators.Desired,
			plan.ComponentCache: dc.Caches.Desired, plan.ComponentShard: dc.Shards.Desired} {
			have := int32(0)
			for i := range e.parts {
				if l := e.parts[i].Labels; l[plan.LabelDataCenter] == dc.Name && l[plan.LabelComponent] == component {
					have++
				}
			}
			if have < want {
				texts = append(texts, fmt.Sprintf("%s has %d of %d pods of component %s", dc.Name, have, want,
					component))
			}
		}
	}
	slices.Sort(texts)
	for _, p := range e.store.Status.Problems {
		if len(texts) > 0 && p.Reason == string(diagnose.ReasonNotCreated) {
			texts = append(texts, fmt.Sprintf("%s: %s: %s", p.Pod, p.Reason, p.Message))
		}
	}
	return strings.Join(texts, "; ")
}

// checkRings has the rings as far as this cluster knows; whether they acknowledge writes, condition PeersConnected
// says.
func (e *evidence) checkRings() finding {
	f := finding{level: levelOK, subject: "rings", text: e.store.Status.Summary.Rings + " complete here"}
	var broken []string
	for _, r := range e.store.Status.Rings {
		if r.Availability == v1alpha1.RingUnavailable || r.Availability == v1alpha1.RingDegraded {
			broken = append(broken, fmt.Sprintf("%s is %s (%s)", r.Name, r.Availability, r.Message))
		}
	}
	switch {
	case len(broken) > 0:
		f.level, f.text = levelProblem, strings.Join(broken, "; ")
		f.next = []string{"bring back the pods above; the ring catches up by itself"}
		f.safe = "waiting: nothing acknowledged is lost while the volumes are intact. Writes wait in the " +
			"coordinators' logs, and end with BUSY when these are full"
	case e.store.Status.Summary.Rings == "" || len(e.operatorAway()) > 0:
		f.level, f.text = levelNote, "not known: no operator looks at them"
	}
	return f
}

// checkGroups has a finding for each group of members that is not whole, or one for all of them. It has none if no part
// has several members.
func (e *evidence) checkGroups() (all []finding) {
	c := meta.FindStatusCondition(e.store.Status.Conditions, v1alpha1.ConditionUnderReplicated)
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
			f := finding{level: levelProblem, subject: fmt.Sprintf("group of %s %d of %s", g.Part, g.Index, d.Name),
				text: describeGroup(g),
				next: []string{
					"bring back the pods and volumes above; a member joins by itself, also on an empty volume",
					"docs/runbooks.md#causalstoregroupunderreplicated explains the states",
				},
				safe: "deleting a pod of a member that does not follow: the others have everything"}
			if g.Problem != "" || g.Primary == 0 {
				f.next = []string{
					fmt.Sprintf("kubectl causal recover %s %s/%d%s --namespace %s says what a person may decide",
						e.store.Name, d.Name, g.Index, shardFlag(g), e.store.Namespace),
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
	if whole < groups || conditionStatus(c) == metav1.ConditionUnknown {
		f.level = levelNote
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
	f := finding{level: levelProblem, subject: "sidecars",
		text: fmt.Sprintf("%d pods have none, or an old one; the first: %s", len(e.sidecars), e.sidecars[0])}
	f.next = []string{"kubectl causal check --all-namespaces lists them, and with --restart restarts them one by one"}
	f.safe = "restarting pods of apps in this way: it respects their PodDisruptionBudgets. A pod without a sidecar " +
		"has a session for each connection until then"
	return f
}

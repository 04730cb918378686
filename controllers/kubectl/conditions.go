package kubectl

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// checkConditions has a finding for each condition that is not as in a healthy and idle store, and one for all others.
func (e *evidence) checkConditions() (all []finding) {
	if len(e.store.Status.Conditions) == 0 {
		return []finding{{level: levelProblem, subject: "status",
			text: "no operator has processed the store, so that nothing but its pods is known",
			next: []string{"install an operator whose region is that of one of its data centers"}}}
	}
	healthy := 0
	for _, name := range v1alpha1.ConditionTypes() {
		c := meta.FindStatusCondition(e.store.Status.Conditions, name)
		switch {
		case c == nil && name == v1alpha1.ConditionDrillPassed: // no drill has run
		case c == nil:
			all = append(all, finding{level: levelNote, subject: "condition " + name,
				text: "not known: the operator has not reported it"})
		case c.Status == v1alpha1.HealthyStatus(name) && c.Reason != v1alpha1.ReasonPeersVersion:
			healthy++
		default:
			f := finding{level: levelOf(c), subject: "condition " + name,
				text: fmt.Sprintf("%s, %s: %s", c.Status, c.Reason, c.Message)}
			f.next, f.safe = e.adviseCondition(c)
			all = append(all, f)
		}
	}
	text := fmt.Sprintf("%d of %d are as in a healthy and idle store", healthy, healthy+len(all))
	if len(e.operatorAway()) > 0 {
		text += fmt.Sprintf(", as they were %s ago; what they are now is not known", e.statusAge())
	}
	f := finding{level: levelOK, subject: "conditions", text: text}
	if len(all) > 0 || len(e.operatorAway()) > 0 {
		f.level = levelNote
	}
	return append(all, f)
}

// levelOf returns how serious it is that a condition is not as it should be. What is unknown, under way, or so by
// somebody's choice, is no problem.
func levelOf(c *metav1.Condition) level {
	if c.Status == metav1.ConditionUnknown {
		return levelNote
	}
	switch c.Reason {
	case v1alpha1.ReasonPeersVersion, v1alpha1.ReasonPaused, v1alpha1.ReasonWebhookNotInstalled,
		v1alpha1.ReasonEdgesStarting, v1alpha1.ReasonEtcdStarting:
		return levelNote
	}
	if c.Type == v1alpha1.ConditionProgressing {
		return levelNote
	}
	return levelProblem
}

// adviseCondition returns what to do about a condition, and what is safe meanwhile.
func (e *evidence) adviseCondition(c *metav1.Condition) (next []string, safe string) {
	s := e.store
	edit := fmt.Sprintf("kubectl -n %s edit causalstore %s", s.Namespace, s.Name)
	describe := func(kinds, component string) string {
		return fmt.Sprintf("kubectl -n %s describe %s --selector %s=%s,%s=%s", s.Namespace, kinds, plan.LabelInstance,
			s.Name, plan.LabelComponent, component)
	}
	switch c.Type {
	case v1alpha1.ConditionVolumesKept:
		return []string{"docs/disasters.md#a-claim-is-being-deleted keeps the volume"},
			"leaving the pods and nodes that it names alone"
	case v1alpha1.ConditionTopologyValid:
		return []string{edit}, "correcting the spec at any time. What runs goes on as it is"
	case v1alpha1.ConditionReady:
		if c.Reason == v1alpha1.ReasonApplyFailed {
			return []string{
				"remove what the API server names: a quota, a policy, an object of the same name; the operator tries " +
					"again by itself",
			}, "waiting: what runs goes on as it is"
		}
		return []string{fmt.Sprintf("kubectl causal status %s --namespace %s, and the findings on pods here", s.Name,
			s.Namespace)}, ""
	case v1alpha1.ConditionDegraded, v1alpha1.ConditionStorageReady:
		return []string{"the findings on pods here say what to do about each"},
			"waiting: parts that are back catch up by themselves"
	case v1alpha1.ConditionUnderReplicated:
		return []string{"the findings on groups here say what to do about each"},
			"leaving the volumes of all members as they are"
	case v1alpha1.ConditionPeersConnected:
		if c.Reason == v1alpha1.ReasonPeersVersion {
			return nil, "upgrading the other regions: see docs/upgrades.md"
		}
		return []string{
				"run kubectl causal doctor in the cluster of that ring's region, and kubectl causal topology here " +
					"for the paths that do not answer",
			},
			"waiting, until the write buffers are full: kubectl causal top shows the incomplete writes. Do not " +
				"remove coordinators"
	case v1alpha1.ConditionPeersTrusted:
		return []string{"with a context for each cluster: kubectl causal trust --context THIS --context OTHER"},
			"waiting: links that are open go on, until the certificates of either side expire"
	case v1alpha1.ConditionCertificatesCurrent:
		return []string{"docs/runbooks.md#causalstorecertificatesnotrenewed explains the reasons"},
			"waiting until the first certificate expires, which takes days from the first failure; the " +
				"message says when"
	case v1alpha1.ConditionEdgesReady:
		return e.adviseEdges(c, describe("service,deployment", plan.ComponentEdge)),
			"deleting one pod of an edge at a time: it has no state. Parts dial again by themselves"
	case v1alpha1.ConditionEtcdReady:
		return []string{describe("pods", plan.ComponentEtcd),
				"docs/runbooks.md#causalstoreetcdnotready explains the reasons"},
			"waiting: reads and writes do not need etcd. Never delete volume claims of two members"
	case v1alpha1.ConditionClientsReady:
		return []string{"create or correct the Secret that the message names; the operator notices by itself"},
			"waiting: clients that are connected go on"
	case v1alpha1.ConditionInjectionReady:
		return []string{
			"docs/runbooks.md#causalstoreinjectionnotready explains the reasons; by choice, injection.enabled of the " +
				"chart is false",
		}, "pods that have a sidecar keep it"
	case v1alpha1.ConditionPaused:
		return []string{fmt.Sprintf("kubectl causal resume %s --namespace %s", s.Name, s.Namespace)},
			"staying paused, but nothing of the store is repaired meanwhile"
	case v1alpha1.ConditionDrillPassed:
		return []string{fmt.Sprintf("kubectl causal drill list --namespace %s, and docs/drills.md", s.Namespace)}, ""
	case v1alpha1.ConditionProgressing:
		return nil, "waiting. A change that has begun goes on where it is after any interruption"
	}
	return nil, ""
}

func (e *evidence) adviseEdges(c *metav1.Condition, describe string) []string {
	switch c.Reason {
	case v1alpha1.ReasonEdgePeersUntrusted:
		return []string{"with a context for each cluster: kubectl causal trust --context THIS --context OTHER"}
	case v1alpha1.ReasonEdgeImageMissing:
		return []string{"helm upgrade ... --set edge.image.repository=REPOSITORY --set edge.image.tag=TAG"}
	}
	return []string{describe}
}

// checkKnown says what the findings rest on, and what is not known.
func (e *evidence) checkKnown() finding {
	f := finding{level: levelOK, subject: "looked at",
		text: fmt.Sprintf(
			"%d pods of operators, %d conditions that were written %s ago, %d pods, %d nodes, %d claims, and pods of "+
				"apps that lack a sidecar",
			len(e.operator), len(e.store.Status.Conditions), e.statusAge(), len(e.parts), len(e.nodes), len(e.claims))}
	var unknown []string
	if len(e.unread) > 0 {
		unknown = append(unknown, "you may not list "+strings.Join(e.unread, ", ")+
			": what depends on them was not checked")
	}
	if len(e.operatorAway()) > 0 {
		unknown = append(unknown,
			"no operator looks at the store: whether rings, groups, certificates, edges and etcds are well is not "+
				"known, nor why pods are not ready, if only they know it")
	}
	if elsewhere := e.elsewhere(); len(elsewhere) > 0 {
		unknown = append(unknown, "the clusters of "+strings.Join(elsewhere, ", ")+
			" were not looked at: run kubectl causal doctor there")
	}
	if len(unknown) > 0 {
		f.level, f.text = levelNote, f.text+". Not known: "+strings.Join(unknown, "; ")
	}
	return f
}

// elsewhere returns the data centers that other clusters run.
func (e *evidence) elsewhere() (all []string) {
	for _, dc := range e.store.Status.DataCenters {
		if !dc.Here {
			all = append(all, dc.Name)
		}
	}
	return all
}

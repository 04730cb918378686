package kubectl

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/controllers/causalstore/diagnose"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// advise returns what to do about a pod that does not serve.
func (e *evidence) advise(p *corev1.Pod, c diagnose.Cause) []string {
	in := "kubectl -n " + p.Namespace
	if ending := e.claimsOf(p); len(ending) > 0 {
		return []string{
			fmt.Sprintf(
				"first keep its volume, as the finding on claim %s says: whatever makes the pod again would take it",
				ending[0]),
		}
	}
	edit := fmt.Sprintf("%s edit causalstore %s", in, e.store.Name)
	switch c.Reason {
	case diagnose.ReasonImage:
		if isEdge(p) {
			return []string{
				"correct edge.image of the chart, or spec.imagePullSecrets: helm upgrade ... --set " +
					"edge.image.repository=REPOSITORY --set edge.image.tag=TAG",
			}
		}
		if plan.IsOfEtcd(p) {
			return []string{
				"correct etcd.image of the chart, spec.dataCenters[].etcd.image, or spec.imagePullSecrets: helm " +
					"upgrade ... --set etcd.image.repository=REPOSITORY --set etcd.image.tag=TAG",
			}
		}
		return []string{"correct spec.image or spec.storage.image, or spec.imagePullSecrets: " + edit,
			"the operator then replaces this pod first; nothing else has to be done"}
	case diagnose.ReasonOOMKilled:
		return []string{fmt.Sprintf("raise the memory limit (%s): %s", memoryField(p), edit)}
	case diagnose.ReasonCrashing:
		return []string{fmt.Sprintf("%s logs %s --all-containers --previous --tail=50", in, p.Name),
			"the last line says what the part refuses; docs/disasters.md if it is about data"}
	case diagnose.ReasonContainer, diagnose.ReasonFailed, diagnose.ReasonStarting:
		return []string{fmt.Sprintf("%s describe pod %s", in, p.Name)}
	case diagnose.ReasonUnschedulable:
		if e.store.Spec.SingleZone() {
			return []string{"kubectl describe nodes",
				"add a node or room; what spec.pods says about nodes must hold for it"}
		}
		return []string{fmt.Sprintf("kubectl get nodes --label-columns %s", e.store.Spec.ZoneLabel),
			"add a node or room in the zones of the data center; the zones are strict on purpose"}
	case diagnose.ReasonVolumeZone:
		return []string{"bring back a node in the zone of the volume: " +
			fmt.Sprintf("%s get persistentvolumeclaims, and the node affinity of their PersistentVolumes", in),
			"if spec.dataCenters[].zones was changed, change it back: a volume does not move"}
	case diagnose.ReasonNodeGone:
		return e.adviseDeadNode(p)
	case diagnose.ReasonDataLost:
		if p.Labels[plan.LabelComponent] == plan.ComponentCoordinator {
			return []string{
				"give it its folder back as it was when the process stopped: " +
					"docs/disasters.md#a-coordinator-has-lost-its-log",
			}
		}
		return []string{
			"nothing, if the store has another ring: it gets its data from there by itself, and the reason says how " +
				"far it is, or what it waits for",
			"in a store with one ring, give it its disk back as it was when the process stopped: " +
				"docs/disasters.md#a-shard-has-lost-its-data"}
	case diagnose.ReasonWithdrawn:
		return []string{
			"bring back the shards that the text names: it begins again by itself when they have all data; delete " +
				"nothing meanwhile",
			"if they wait for this one, two sides have excluded each other, and you have to choose whose data count: " +
				"docs/disasters.md#two-sides-have-excluded-each-other"}
	case diagnose.ReasonDuplicate:
		return []string{
			"stop the process that should not run; the text names both: " +
				"docs/operations.md#two-processes-with-one-identity",
		}
	case diagnose.ReasonStorageFull:
		return []string{"raise spec.storage.resources (Redis: the memory limit) or spec.storage.volume.size: " + edit,
			"it continues by itself: docs/operations.md#full-disks-and-storages"}
	case diagnose.ReasonLogFull:
		return []string{"raise spec.dataCenters[].coordinators.volume.size, or bring back the ring that lags: " + edit,
			"it continues by itself: docs/operations.md#full-disks-and-storages"}
	}
	if isEdge(p) {
		return []string{fmt.Sprintf("%s logs %s", in, p.Name),
			"docs/runbooks.md#causalstoreedgesnotready explains the reasons"}
	}
	if plan.IsOfEtcd(p) {
		return []string{fmt.Sprintf("%s logs %s --all-containers", in, p.Name),
			"docs/runbooks.md#causalstoreetcdnotready explains the reasons"}
	}
	return []string{fmt.Sprintf("%s port-forward %s %d:%d and curl -s http://127.0.0.1:%d/readyz", in, p.Name,
		plan.PortHTTP, plan.PortHTTP, plan.PortHTTP),
		"docs/runbooks.md#causalstorepartnotready explains the reasons"}
}

func isEdge(p *corev1.Pod) bool { return p.Labels[plan.LabelComponent] == plan.ComponentEdge }

// adviseDeadNode returns what to do about a pod on a node that does not answer. Kubernetes does not replace a pod of a
// StatefulSet while it cannot know that the old one has stopped.
func (e *evidence) adviseDeadNode(p *corev1.Pod) []string {
	node := p.Spec.NodeName
	if isEdge(p) {
		return []string{"nothing: Kubernetes starts another pod of the edge within minutes"}
	}
	steps := []string{fmt.Sprintf("bring node %s back: the pod goes on by itself", node)}
	if p.Labels[plan.LabelComponent] == plan.ComponentCache {
		return append(steps,
			fmt.Sprintf("or replace the cache elsewhere: kubectl -n %s delete pod %s --force --grace-period=0",
				p.Namespace, p.Name))
	}
	return append(steps,
		fmt.Sprintf(
			"or, if that machine is certainly off and stays off: kubectl taint nodes %s "+
				"node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", node),
		"the pod then starts on another node of its zones, if its volume can be reached from there; a volume on the "+
			"disk of that machine cannot")
}

// memoryField names the field of the spec that sets the memory of a pod.
func memoryField(p *corev1.Pod) string {
	switch p.Labels[plan.LabelComponent] {
	case plan.ComponentCoordinator:
		return "spec.dataCenters[].coordinators.resources"
	case plan.ComponentCache:
		return "spec.dataCenters[].caches.memory"
	case plan.ComponentEtcd:
		return "spec.dataCenters[].etcd.resources"
	case plan.ComponentEdge:
		return "spec.dataCenters[].edge.resources"
	}
	return "spec.storage.middleman.resources, or spec.storage.resources for the container storage"
}

// safety says what may be done with a pod that does not serve.
func (e *evidence) safety(p *corev1.Pod, c diagnose.Cause) string {
	if p.Labels[plan.LabelComponent] == plan.ComponentCache {
		return "deleting the pod, also by force: a cache has no volume"
	}
	if isEdge(p) {
		return "deleting the pod, also by force, one at a time: an edge has no state"
	}
	if ending := e.claimsOf(p); len(ending) > 0 {
		return fmt.Sprintf("leaving the pod as it is: claim %s is being deleted, and its volume goes with the pod",
			ending[0])
	}
	if c.Reason == diagnose.ReasonDataLost {
		return "waiting: the part refuses what it cannot do without the data. Never replace the volume by an older one"
	}
	if c.Reason == diagnose.ReasonNodeGone {
		return "waiting. The taint, and deleting the pod by force, only if the machine is off: else two processes " +
			"write to one volume. Never delete the volume claim"
	}
	if slices.Contains(e.unread, unreadClaims) {
		return "waiting. Deleting the pod too, if none of its claims is Terminating, which you may not see. Never " +
			"delete the volume claim"
	}
	return "deleting the pod: its volume stays. Never delete the volume claim"
}

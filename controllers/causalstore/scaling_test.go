package causalstore_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

const (
	firstCoordinator  = "try-here-cc-0"
	secondCoordinator = "try-here-cc-1"
)

// setMembership sets the membership that coordinators report.
func (p *parts) setMembership(epoch uint64, membership contract.Membership, reason string, pods ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range pods {
		p.reports[pod] = contract.Readiness{Epoch: epoch, Membership: membership, Reason: reason}
	}
}

// setInUse sets the coordinators that the first one reports as in use.
func (p *parts) setInUse(epoch uint64, indices ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports[firstCoordinator] = contract.Readiness{Epoch: epoch, Membership: contract.MembershipServing,
		CoordinatorsInUse: indices}
}

// awaitCoordinators waits until the parts are configured with these coordinators, and the StatefulSet has so many
// replicas.
func (k *cluster) awaitCoordinators(want string, replicas int32) {
	k.t.Helper()
	k.await(want, func() (bool, string) {
		c := k.configuration()
		dc, before := c.Topology.DataCenters[0], 0
		if dc.CoordinatorsBefore != nil {
			before = *dc.CoordinatorsBefore
		}
		is := fmt.Sprintf("epoch %d: %d coordinators, before %d, %d addresses", c.Topology.Epoch,
			*dc.Coordinators, before,
			len(c.Addresses["here"].Coordinators))
		set := &appsv1.StatefulSet{}
		k.get("try-here-cc", set)
		return is == want && *set.Spec.Replicas == replicas, fmt.Sprintf("%s; %d replicas", is, *set.Spec.Replicas)
	})
}

// awaitNotified waits until a pod is marked with an epoch.
func (k *cluster) awaitNotified(pod, epoch string) {
	k.t.Helper()
	k.await("epoch "+epoch+" at "+pod, func() (bool, string) {
		p := &corev1.Pod{}
		k.get(pod, p)
		return p.Annotations[plan.AnnotationEpoch] == epoch, fmt.Sprint(p.Annotations)
	})
}

// claim returns the identity of a claim that is not being deleted, or nothing.
func (k *cluster) claim(name string) types.UID {
	k.t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if !k.exists(name, c) || c.DeletionTimestamp != nil {
		return ""
	}
	return c.UID
}

// checkUnchanged fails for each pod that was replaced or deleted.
func checkUnchanged(t *testing.T, before, now map[string]types.UID) {
	t.Helper()
	for name, uid := range before {
		if now[name] != uid {
			t.Errorf("pod %s was replaced or deleted", name)
		}
	}
}

func TestCoordinatorsScaleUpAndDownWithoutRestarts(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	before := k.uids()

	// Up: the new one is created at once, and serves when it has been admitted.
	k.workloads.fail(secondCoordinator)
	k.parts.setMembership(2, contract.MembershipJoining, "the first coordinator has not answered", secondCoordinator)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Replicas = 2 })
	k.awaitCoordinators("epoch 2: 2 coordinators, before 0, 2 addresses", 2)
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+
		" is joining: the first coordinator has not answered")
	k.awaitCondition("try", v1alpha1.ConditionReady, no, v1alpha1.ReasonPartsNotReady)
	k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	k.awaitNotified(firstCoordinator, "2")
	budget := &policyv1.PodDisruptionBudget{}
	k.await("a budget that allows to evict the serving one", func() (bool, string) {
		k.get("try-here-coordinator", budget)
		return budget.Spec.MinAvailable.IntValue() == 0, budget.Spec.String()
	})
	stop() // the next operator still knows that it has not served
	stop = k.operator("local", "causalstore:v1")
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" is joining")
	k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	k.workloads.repair(secondCoordinator)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	if c := k.store("try").Status.DataCenters[0].Coordinators; c != (v1alpha1.Count{Ready: 2, Desired: 2, Updated: 2}) {
		t.Errorf("coordinators: %+v", c)
	}
	k.get("try-here-coordinator", budget)
	if budget.Spec.MinAvailable.IntValue() != 1 {
		t.Errorf("budget: %s", budget.Spec.String())
	}
	checkUnchanged(t, before, k.uids())

	// Down: it stays as long as the first one reports it as in use, and it does not count that it is not ready.
	before = k.uids()
	claimed := k.claim("data-" + secondCoordinator)
	k.parts.silence(secondCoordinator)
	k.parts.setInUse(2, 0)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Replicas = 1 })
	k.awaitCoordinators("epoch 3: 1 coordinators, before 2, 2 addresses", 2)
	k.workloads.fail(secondCoordinator)
	k.awaitProgress(v1alpha1.ReasonCoordinators, "here from 2 to 1",
		secondCoordinator+" is unreachable: it does not answer",
		firstCoordinator+" runs epoch 2, not yet epoch 3")
	k.awaitNotified(secondCoordinator, "3")
	k.await("a pod that does not serve", func() (bool, string) {
		p := &corev1.Pod{}
		k.get(secondCoordinator, p)
		return !isReady(p), "it serves"
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	stop()
	k.operator("local", "causalstore:v1")
	k.parts.setInUse(3, 0, 1)
	k.parts.setMembership(3, contract.MembershipLeaving, "", secondCoordinator)
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" is leaving",
		firstCoordinator+" reports it as in use")
	k.parts.silence(secondCoordinator)
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" is unreachable",
		firstCoordinator+" reports it as in use")
	checkUnchanged(t, before, k.uids())
	k.parts.setInUse(3, 0)
	k.awaitCoordinators("epoch 4: 1 coordinators, before 0, 1 addresses", 1)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.await("the pod to be deleted", func() (bool, string) {
		return !k.exists(secondCoordinator, &corev1.Pod{}), "it exists"
	})
	delete(before, secondCoordinator)
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods (-before +after):\n%s", d)
	}
	if now := k.claim("data-" + secondCoordinator); now != claimed {
		t.Errorf("its volume was %s and is %q, want the same", claimed, now)
	}
}

func TestAScaleUpDuringAScaleDownComesAfterIt(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.DeletionPolicy, s.Spec.DataCenters[0].Coordinators.Replicas = v1alpha1.DeletionDelete, 2
	})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	before, claimed := k.uids(), k.claim("data-"+secondCoordinator)
	k.parts.setInUse(2, 0, 1)
	k.parts.setMembership(2, contract.MembershipLeaving, "", secondCoordinator)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Replicas = 1 })
	k.awaitCoordinators("epoch 2: 1 coordinators, before 2, 2 addresses", 2)
	k.workloads.fail(secondCoordinator)
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" is leaving")

	// Other pods restart meanwhile, although the one that leaves is not ready. That one does not restart.
	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.DataCenters[0].Coordinators.Replicas, s.Spec.DataCenters[0].Shards, s.Spec.Image = 2, 3, "causalstore:v2"
	})
	k.await("all other pods to restart", func() (bool, string) {
		now := k.uids()
		for name, uid := range before {
			if same := now[name] == uid; same != (name == secondCoordinator) {
				return false, fmt.Sprint(now)
			}
		}
		return true, ""
	})
	k.awaitProgress(v1alpha1.ReasonCoordinators, "requested next: here to 2")
	k.awaitCoordinators("epoch 2: 1 coordinators, before 2, 2 addresses", 2)
	stop()
	k.operator("local", "causalstore:v1")

	// It is removed with its volume, and a new one joins with a volume of its own; shards change after that.
	k.parts.setMembership(2, contract.MembershipLeft, "", secondCoordinator)
	k.parts.setInUse(2, 0)
	k.awaitCoordinators("epoch 4: 2 coordinators, before 0, 2 addresses", 2)
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" runs epoch 2, not yet epoch 4")
	if now := k.uids()[secondCoordinator]; now == before[secondCoordinator] {
		t.Error("the coordinator that has left still exists when the next one joins")
	}
	if now := k.claim("data-" + secondCoordinator); now == claimed || now == "" {
		t.Errorf("the claim was %s and is %q; want another one", claimed, now)
	}
	k.workloads.repair(secondCoordinator)
	k.awaitShards("epoch 5: 3 shards, before 2, 3 addresses")
	shard := func(i int) string { return fmt.Sprintf("try-here-shard-%d-0", i) }
	k.parts.setShards(5, contract.ReshardingDone, shard(0), shard(1), shard(2))
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
}

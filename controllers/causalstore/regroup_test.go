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
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

const (
	firstCoordinator  = "try-here-cc-0"
	secondCoordinator = "try-here-cc-1"
)

// is lets coordinators say what they are: joining, serving, leaving or left.
func (p *parts) is(epoch int64, member, reason string, pods ...string) {
	p.say(epoch, "", pods...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range pods {
		p.says[pod] = plan.Move{Epoch: epoch, Member: member, Reason: reason}
	}
}

// inUse lets the first coordinator say which are in use.
func (p *parts) inUse(epoch int64, indices ...int) {
	p.is(epoch, "serving", "", firstCoordinator)
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.says[firstCoordinator]
	m.InUse = indices
	p.says[firstCoordinator] = m
}

// awaitCoordinators waits until the parts are told so much of coordinators, and the StatefulSet has so many replicas.
func (k *cluster) awaitCoordinators(want string, replicas int32) {
	k.t.Helper()
	k.await(want, func() (bool, string) {
		c := k.configuration()
		dc, before := c.Topology.DataCenters[0], 0
		if dc.CoordinatorsBefore != nil {
			before = *dc.CoordinatorsBefore
		}
		is := fmt.Sprintf("epoch %d: %d coordinators, before %d, %d addresses", c.Topology.Epoch, *dc.Coordinators, before,
			len(c.Addresses["here"].Coordinators))
		set := &appsv1.StatefulSet{}
		k.get("try-here-cc", set)
		return is == want && *set.Spec.Replicas == replicas, fmt.Sprintf("%s; %d replicas", is, *set.Spec.Replicas)
	})
}

// awaitHeard waits until a pod is marked with an epoch.
func (k *cluster) awaitHeard(pod, epoch string) {
	k.t.Helper()
	k.await("epoch "+epoch+" at "+pod, func() (bool, string) {
		p := &corev1.Pod{}
		k.get(pod, p)
		return p.Annotations[plan.AnnotationEpoch] == epoch, fmt.Sprint(p.Annotations)
	})
}

// claim is the identity of a claim that is not being deleted, or nothing.
func (k *cluster) claim(name string) types.UID {
	k.t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if !k.exists(name, c) || c.DeletionTimestamp != nil {
		return ""
	}
	return c.UID
}

// unchanged says which pods of before are not there any more.
func unchanged(t *testing.T, before, now map[string]types.UID) {
	t.Helper()
	for name, uid := range before {
		if now[name] != uid {
			t.Errorf("pod %s is another, or gone", name)
		}
	}
}

func TestCoordinatorsComeAndGoAndNothingRestarts(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	before := k.uids()

	// Up: the new one is there at once, and serves once it has been let in.
	k.workloads.breakIt(secondCoordinator)
	k.parts.is(2, "joining", "the first coordinator has not answered", secondCoordinator)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Replicas = 2 })
	k.awaitCoordinators("epoch 2: 2 coordinators, before 0, 2 addresses", 2)
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" is joining: the first coordinator has not answered")
	k.awaitCondition("try", v1alpha1.ConditionReady, no, v1alpha1.ReasonPartsNotReady)
	k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	k.awaitHeard(firstCoordinator, "2")
	budget := &policyv1.PodDisruptionBudget{}
	k.await("the one that serves may be evicted", func() (bool, string) {
		k.get("try-here-coordinator", budget)
		return budget.Spec.MaxUnavailable == nil && budget.Spec.MinAvailable.IntValue() == 0, budget.Spec.String()
	})
	stop() // another operator still knows that it has not served
	stop = k.operator("local", "causalstore:v1")
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" is joining")
	k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	k.workloads.mend(secondCoordinator)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	if c := k.store("try").Status.DataCenters[0].Coordinators; c != (v1alpha1.Count{Ready: 2, Desired: 2, Updated: 2}) {
		t.Errorf("coordinators: %+v", c)
	}
	k.get("try-here-coordinator", budget)
	if budget.Spec.MinAvailable != nil || budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("budget: %s", budget.Spec.String())
	}
	unchanged(t, before, k.uids())

	// Down: it stays as long as the first one has it in use, and nobody minds that it does not serve.
	before = k.uids()
	claimed := k.claim("data-" + secondCoordinator)
	k.parts.silence(secondCoordinator)
	k.parts.inUse(2, 0)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Replicas = 1 })
	k.awaitCoordinators("epoch 3: 1 coordinators, before 2, 2 addresses", 2)
	k.workloads.breakIt(secondCoordinator)
	k.awaitProgress(v1alpha1.ReasonCoordinators, "here from 2 to 1", secondCoordinator+" cannot be asked: it does not answer",
		firstCoordinator+" runs epoch 2, and has not heard of epoch 3")
	k.awaitHeard(secondCoordinator, "3")
	k.await("a pod that does not serve", func() (bool, string) {
		p := &corev1.Pod{}
		k.get(secondCoordinator, p)
		return !isReady(p), "it serves"
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	stop()
	k.operator("local", "causalstore:v1")
	k.parts.inUse(3, 0, 1)
	k.parts.is(3, "leaving", "", secondCoordinator)
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" is leaving", firstCoordinator+" has it in use")
	k.parts.silence(secondCoordinator)
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" cannot be asked", firstCoordinator+" has it in use")
	unchanged(t, before, k.uids())
	k.parts.inUse(3, 0)
	k.awaitCoordinators("epoch 4: 1 coordinators, before 0, 1 addresses", 1)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.await("it to have gone", func() (bool, string) { return !k.exists(secondCoordinator, &corev1.Pod{}), "it is there" })
	delete(before, secondCoordinator)
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods (-before +after):\n%s", d)
	}
	if now := k.claim("data-" + secondCoordinator); now != claimed {
		t.Errorf("its volume was %s and is %q; it is to stay", claimed, now)
	}
}

func TestAChangeOfMindWhileACoordinatorLeavesComesAfterThat(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.DeletionPolicy, s.Spec.DataCenters[0].Coordinators.Replicas = v1alpha1.DeletionDelete, 2
	})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	before, claimed := k.uids(), k.claim("data-"+secondCoordinator)
	k.parts.inUse(2, 0, 1)
	k.parts.is(2, "leaving", "", secondCoordinator)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Replicas = 1 })
	k.awaitCoordinators("epoch 2: 1 coordinators, before 2, 2 addresses", 2)
	k.workloads.breakIt(secondCoordinator)
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" is leaving")

	// Other pods restart meanwhile, although one that leaves is not ready. It stays as it is.
	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.DataCenters[0].Coordinators.Replicas, s.Spec.DataCenters[0].Shards, s.Spec.Image = 2, 3, "causalstore:v2"
	})
	k.await("all others to be new", func() (bool, string) {
		now := k.uids()
		for name, uid := range before {
			if same := now[name] == uid; same != (name == secondCoordinator) {
				return false, fmt.Sprint(now)
			}
		}
		return true, ""
	})
	k.awaitProgress(v1alpha1.ReasonCoordinators, "comes after that: here to 2")
	k.awaitCoordinators("epoch 2: 1 coordinators, before 2, 2 addresses", 2)
	stop()
	k.operator("local", "causalstore:v1")

	// It goes with its volume, and another one comes that has a volume of its own; shards change after that.
	k.parts.is(2, "left", "", secondCoordinator)
	k.parts.inUse(2, 0)
	k.awaitCoordinators("epoch 4: 2 coordinators, before 0, 2 addresses", 2)
	k.awaitProgress(v1alpha1.ReasonCoordinators, secondCoordinator+" runs epoch 2, and has not heard of epoch 4")
	if now := k.uids()[secondCoordinator]; now == before[secondCoordinator] {
		t.Error("the coordinator that has left is still there when the next one is to come")
	}
	if now := k.claim("data-" + secondCoordinator); now == claimed || now == "" {
		t.Errorf("the claim was %s and is %q; want another one", claimed, now)
	}
	k.workloads.mend(secondCoordinator)
	k.awaitTold("epoch 5: 3 shards, before 2, 3 addresses")
	shard := func(i int) string { return fmt.Sprintf("try-here-shard-%d-0", i) }
	k.parts.say(5, "done", shard(0), shard(1), shard(2))
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
}

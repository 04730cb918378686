package causalstore_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// TestMembersOfShardsOfARunningStoreChange: 1, 2, 3, 1. At any time one pod is away, and only the shards restart, once,
// for their logs, on the volumes that they had.
func TestMembersOfShardsOfARunningStoreChange(t *testing.T) {
	k := newClusterWithGroups(t)
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.DeletionPolicy, s.Spec.DataCenters[0].Shards = v1alpha1.DeletionDelete, 2
	})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	members := func(n int32) {
		k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Storage.Replicas = n })
	}
	k.workloads.forgetHistory()
	before := k.uids()
	volume := k.claim("data-try-here-shard-0-0")
	members(2)
	k.awaitMembers(plan.ComponentShard, 2, "try-here-s0-m2", "try-here-s1-m2", "try-here-shard-0", "try-here-shard-1")
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	now := k.uids()
	for name, uid := range before {
		if restarted, is := now[name] != uid, strings.Contains(name, "-shard-"); restarted != is {
			t.Errorf("%s restarted: %v", name, restarted)
		}
	}
	if volume != k.claim("data-try-here-shard-0-0") || k.claim("log-try-here-shard-0-0") == "" ||
		k.claim("log-try-here-s1-m2-0") == "" {
		t.Error("a shard has other data, or no log")
	}
	if c := k.store("try").Status.DataCenters[0]; c.Shards != (v1alpha1.Count{Ready: 4, Desired: 4, Updated: 4}) ||
		len(c.Groups) != 2 {
		t.Errorf("shards: %+v, groups: %+v", c.Shards, c.Groups)
	}
	if k.configuration().Register != nil {
		t.Error("coordinators have got a register, and have one member")
	}
	stop() // the next operator goes on
	k.operator("local", "causalstore:v1")
	members(3)
	k.awaitMembers(plan.ComponentShard, 3, "try-here-s0-m2", "try-here-s0-m3", "try-here-s1-m2", "try-here-s1-m3",
		"try-here-shard-0", "try-here-shard-1")
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	checkUnchanged(t, now, k.uids())

	// A version goes through one pod at a time, the first members last.
	k.workloads.forgetHistory()
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:v2" })
	k.await("the first member to restart", func() (bool, string) {
		p := &corev1.Pod{}
		return k.exists("try-here-shard-1-0", p) && p.Spec.Containers[0].Image == "causalstore:v2", p.Name
	})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	if restarts, most := k.workloads.history(); most > 1 ||
		slices.Index(restarts, "try-here-s0-m3-0") > slices.Index(restarts, "try-here-shard-0-0") {
		t.Errorf("%d pods were away at once; restarts: %v", most, restarts)
	}

	now = k.uids()
	members(1)
	k.awaitMembers(plan.ComponentShard, 1, "try-here-shard-0", "try-here-shard-1")
	k.await("the volumes of members to go", func() (bool, string) {
		return k.claim("data-try-here-s0-m2-0") == "" && k.claim("log-try-here-s1-m3-0") == "", "they are there"
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	for name, uid := range k.uids() {
		if was, ok := now[name]; ok && was != uid { // the last pod of the etcd may have been about to come
			t.Errorf("%s restarted when members left", name)
		}
	}
	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.DataCenters[0].Etcd = v1alpha1.Etcd{Replicas: 3, Volume: s.Spec.DataCenters[0].Etcd.Volume,
			Endpoints: []string{"https://etcd.example.com:2379"}, SecretName: "etcd"}
	})
	k.await("another etcd to be refused", func() (bool, string) {
		c := k.awaitCondition("try", v1alpha1.ConditionTopologyValid, no, v1alpha1.ReasonTopologyChanged)
		return strings.Contains(c.Message, "its shards have had several members, and still use it"), c.Message
	})
}

// TestANewStoreStartsWithTheMembersOfItsShards: nothing is restarted for it. A shard of which one member is left is not
// degraded.
func TestANewStoreStartsWithTheMembersOfItsShards(t *testing.T) {
	k := newClusterWithGroups(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.Storage.Replicas, s.Spec.DataCenters[0].Shards = 3, 1
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitMembers(plan.ComponentShard, 3, "try-here-s0-m2", "try-here-s0-m3", "try-here-shard-0")
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	if restarts, _ := k.workloads.history(); len(restarts) > 0 {
		t.Errorf("restarts: %v", restarts)
	}
	if !k.exists("try-here-etcd", &appsv1.StatefulSet{}) {
		t.Error("there is no etcd")
	}
	var p corev1.Pod
	k.get("try-here-s0-m2-0", &p)
	if args := p.Spec.Containers[0].Args; !slices.Contains(args, "--member=2") {
		t.Errorf("arguments: %v", args)
	}
	k.workloads.fail("try-here-shard-0-0")
	k.workloads.fail("try-here-s0-m2-0")
	k.awaitCondition("try", v1alpha1.ConditionReady, no, v1alpha1.ReasonPartsNotReady)
	k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	k.awaitCondition("try", v1alpha1.ConditionStorageReady, yes, v1alpha1.ReasonShardsServe)
	k.workloads.fail("try-here-s0-m3-0")
	k.awaitCondition("try", v1alpha1.ConditionStorageReady, no, v1alpha1.ReasonShardsNotReady)
}

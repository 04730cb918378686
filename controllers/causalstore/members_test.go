package causalstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/topology"
)

// groups answers for coordinators and shards as members of groups do that always are as the published configuration
// says, if their pods are ready. The first ready member serves. A shard whose pod has no log is in no group.
type groups struct {
	*parts
	k *cluster
}

// Measure implements causalstore.Prober.
func (g groups) Measure(ctx context.Context, pod *corev1.Pod) (m plan.Measure, err error) {
	var config corev1.ConfigMap
	if err := g.k.client.Get(ctx, client.ObjectKey{Namespace: g.k.namespace, Name: "try-here"}, &config); err != nil {
		return m, err
	}
	c, err := contract.ParseConfig([]byte(config.Data[plan.PartsFile]))
	if err != nil {
		return m, err
	}
	var pods corev1.PodList
	if err := g.k.client.List(ctx, &pods, client.InNamespace(g.k.namespace),
		client.MatchingLabels{plan.LabelComponent: pod.Labels[plan.LabelComponent]}); err != nil {
		return m, err
	}
	counts, part := c.Topology.DataCenters[0].Counts(), topology.Coordinator
	if pod.Labels[plan.LabelComponent] == plan.ComponentShard {
		part = topology.Middleman
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "log" }) {
			return m, nil
		}
	}
	m.MembersWanted = counts.DesiredMembers(part)
	serving := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		sameGroup := plan.Index(p) == plan.Index(pod) && p.Labels[plan.LabelShard] == pod.Labels[plan.LabelShard]
		if n := plan.Member(p); sameGroup && isReady(p) && p.DeletionTimestamp == nil && n <= m.MembersWanted {
			m.Members++
			if serving == 0 || n < serving {
				serving = n
			}
		}
	}
	m.Follows = plan.Member(pod) != serving
	return m, nil
}

func newClusterWithGroups(t *testing.T) *cluster {
	k := newClusterWithEtcd(t)
	k.prober = groups{k.parts, k}
	return k
}

// awaitMembers waits until the StatefulSets of the members of a part are these, and the parts are configured with them.
func (k *cluster) awaitMembers(component string, members int, sets ...string) {
	k.t.Helper()
	k.await(fmt.Sprintf("%d members", members), func() (bool, string) {
		var all appsv1.StatefulSetList
		if err := k.client.List(k.t.Context(), &all, client.InNamespace(k.namespace),
			client.MatchingLabels{plan.LabelComponent: component}); err != nil {
			k.t.Fatal(err)
		}
		var names []string
		for _, s := range all.Items {
			names = append(names, s.Name)
		}
		slices.Sort(names)
		c := k.configuration()
		counts, part, parts, addresses := c.Topology.DataCenters[0].Counts(), topology.Coordinator, 0,
			c.Addresses["here"].Coordinators
		if parts = counts.Coordinators; component == plan.ComponentShard {
			part, parts, addresses = topology.Middleman, counts.Shards, c.Addresses["here"].Middlemen
		}
		return slices.Equal(names, sets) && counts.DesiredMembers(part) == members && counts.Members(part) == members &&
				len(addresses) == members*parts,
			fmt.Sprintf("%v, %+v", names, counts)
	})
}

// TestMembersOfARunningStoreChange: 1, 2, 3, 1. At any time one pod is away, and only the coordinators restart, once,
// for their register.
func TestMembersOfARunningStoreChange(t *testing.T) {
	k := newClusterWithGroups(t)
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.DeletionPolicy, s.Spec.DataCenters[0].Coordinators.Replicas = v1alpha1.DeletionDelete, 2
	})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	if k.exists("try-here-etcd", &appsv1.StatefulSet{}) {
		t.Error("a store with one member has an etcd")
	}
	members := func(n int32) {
		k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Members = n })
	}
	before := k.uids()
	members(2)
	k.awaitMembers(plan.ComponentCoordinator, 2, "try-here-cc", "try-here-cc-m2")
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	now := k.uids()
	for name, uid := range before {
		if restarted, is := now[name] != uid, strings.Contains(name, "-cc-"); restarted != is {
			t.Errorf("%s restarted: %v", name, restarted)
		}
	}
	if c := k.store("try").Status.DataCenters[0].Coordinators; c != (v1alpha1.Count{Ready: 4, Desired: 4, Updated: 4}) {
		t.Errorf("coordinators: %+v", c)
	}
	if p := k.configuration().Register; p == nil || len(p.Etcd.Endpoints) != 3 {
		t.Errorf("register: %+v", p)
	}
	stop() // the next operator goes on
	k.operator("local", "causalstore:v1")
	members(3)
	k.awaitMembers(plan.ComponentCoordinator, 3, "try-here-cc", "try-here-cc-m2", "try-here-cc-m3")
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	checkUnchanged(t, now, k.uids())
	for pod, zone := range map[string]string{"try-here-cc-1": "node-zone-a", "try-here-cc-m2-1": "node-zone-b",
		"try-here-cc-m3-1": "node-zone-a"} {
		var p corev1.Pod
		if k.get(pod, &p); p.Spec.NodeName != zone { // the simulated scheduler knows zones only
			t.Errorf("%s is on %s, want %s", pod, p.Spec.NodeName, zone)
		}
		apart := p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector
		if text := fmt.Sprint(apart); !strings.Contains(text, appsv1.PodIndexLabel) || !strings.Contains(text, "[1]") {
			t.Errorf("the API server has made %s of the anti-affinity of %s", text, pod)
		}
	}

	// A member that is away stops a rollout, and another one does not go with it.
	k.workloads.forgetHistory()
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:v2" })
	k.await("the first coordinator to restart", func() (bool, string) {
		p := &corev1.Pod{}
		return k.exists("try-here-cc-0", p) && p.Spec.Containers[0].Image == "causalstore:v2", p.Name
	})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	if restarts, most := k.workloads.history(); most > 1 ||
		slices.Index(restarts, "try-here-cc-m3-0") > slices.Index(restarts, "try-here-cc-0") {
		t.Errorf("%d pods were away at once; restarts: %v", most, restarts)
	}

	now = k.uids()
	members(1)
	k.awaitMembers(plan.ComponentCoordinator, 1, "try-here-cc")
	k.await("the volumes of members to go", func() (bool, string) {
		return k.claim("data-try-here-cc-m2-0") == "" && k.claim("data-try-here-cc-m3-1") == "", "they are there"
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionEtcdReady, yes, v1alpha1.ReasonEtcdServes)
	for name, uid := range k.uids() {
		if now[name] != uid {
			t.Errorf("%s restarted when members left", name)
		}
	}
	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.DataCenters[0].Etcd = v1alpha1.Etcd{Replicas: 3, Volume: s.Spec.DataCenters[0].Etcd.Volume,
			Endpoints: []string{"https://etcd.example.com:2379"}, SecretName: "etcd"}
	})
	k.await("another etcd to be refused", func() (bool, string) {
		c := k.awaitCondition("try", v1alpha1.ConditionTopologyValid, no, v1alpha1.ReasonTopologyChanged)
		return strings.Contains(c.Message, "its coordinators have had several members, and still use it"), c.Message
	})
}

// TestANewStoreStartsWithItsMembers: nothing is restarted for it, also in one zone, where hosts are preferred to be
// different.
func TestANewStoreStartsWithItsMembers(t *testing.T) {
	k := newClusterWithGroups(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		threeMembers(s)
		s.Spec.Placement, s.Spec.DataCenters[0].Zones = v1alpha1.PlacementSingleZone, v1alpha1.Zones{}
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitMembers(plan.ComponentCoordinator, 3, "try-here-cc", "try-here-cc-m2", "try-here-cc-m3")
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	if restarts, _ := k.workloads.history(); len(restarts) > 0 {
		t.Errorf("restarts: %v", restarts)
	}
	var p corev1.Pod
	k.get("try-here-cc-m2-0", &p)
	if a := p.Spec.Affinity; a == nil || a.NodeAffinity != nil ||
		len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Errorf("affinity: %+v", a)
	}
	if args := p.Spec.Containers[0].Args; !slices.Contains(args, "--member=2") {
		t.Errorf("arguments: %v", args)
	}

	// A coordinator of which one member is left is not degraded.
	k.workloads.fail("try-here-cc-0")
	k.workloads.fail("try-here-cc-m2-0")
	k.awaitCondition("try", v1alpha1.ConditionReady, no, v1alpha1.ReasonPartsNotReady)
	k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	k.workloads.fail("try-here-cc-m3-0")
	k.awaitCondition("try", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonPartsMissing)
}

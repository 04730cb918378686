package status_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// one is a store with a data center that has a coordinator, a cache and a shard, in one of two rings. The other ring is
// in another region.
func one() status.Observed {
	s := &v1alpha1.CausalStore{}
	s.Name, s.Namespace, s.Generation = "s", "ns", 7
	s.Spec.ZoneLabel, s.Spec.Binding, s.Spec.Storage.Replicas = "zone", v1alpha1.BindingDynamic, 1
	dc := func(name, region string) v1alpha1.DataCenter {
		return v1alpha1.DataCenter{Name: name, Region: region, Shards: 1, Zones: v1alpha1.Zones{Frontend: []string{"a"},
			Backend: []string{"b"}},
			Coordinators: v1alpha1.Coordinators{Replicas: 1}, Caches: v1alpha1.Caches{Replicas: 1}}
	}
	s.Spec.DataCenters = []v1alpha1.DataCenter{dc("here", "r"), dc("there", "q")}
	s.Spec.Rings = []v1alpha1.Ring{{Name: "mine", DataCenters: []string{"here"}}, {Name: "theirs", DataCenters: []string{"there"}}}
	in := status.Observed{Epoch: 3}
	in.Now = time.Unix(1000, 0)
	in.Store, in.Region, in.ZoneOf = s, "r", map[string]string{"n1": "a", "n2": "b"}
	for _, part := range []string{plan.ComponentCoordinator, plan.ComponentCache, plan.ComponentShard} {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: part, Labels: map[string]string{plan.LabelDataCenter: "here",
			plan.LabelComponent: part}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		in.Pods = append(in.Pods, p)
	}
	return in
}

// fail makes a part not ready.
func fail(in *status.Observed, part string) {
	for i := range in.Pods {
		if in.Pods[i].Name == part {
			in.Pods[i].Status.Conditions[0].Status = corev1.ConditionFalse
		}
	}
}

// report makes a pod report why it is not ready.
func report(in *status.Observed, pod string, state contract.State, reason string) {
	fail(in, pod)
	in.Reports = map[string]plan.Report{pod: {Readiness: contract.Readiness{State: state, Reason: reason}}}
}

// reshard changes the only shard to several.
func reshard(in *status.Observed, shards int32) {
	in.Store.Spec.DataCenters[0].Shards = shards
	in.Record = &plan.Record{Epoch: 2, Layout: `{"dataCenters":[{"name":"here","coordinators":1,"shards":2,"shardsBefore":1}]}`}
	in.Resharding = plan.Resharding{Changes: []string{"here from 1 to 2"}, Blockers: blocked("s-here-shard-0-0 is copying"), Local: true}
}

// scaleCoordinators changes the only coordinator to two, or two to one; either way the second does not serve.
func scaleCoordinators(in *status.Observed, coordinators int32) {
	in.Store.Spec.DataCenters[0].Coordinators.Replicas = coordinators
	second := in.Pods[0].DeepCopy()
	second.Name, second.Labels[appsv1.PodIndexLabel] = "second", "1"
	in.Pods = append(in.Pods, *second)
	fail(in, "second")
	in.Record = &plan.Record{Epoch: 2, Served: map[string]int{"here": 1},
		Layout: `{"dataCenters":[{"name":"here","coordinators":2,"shards":1}]}`}
	in.Scaling = plan.CoordinatorScaling{Joining: blocked("second is joining: it has not been admitted")}
	if coordinators == 1 {
		in.Record.Layout = `{"dataCenters":[{"name":"here","coordinators":1,"coordinatorsBefore":2,"shards":1}]}`
		in.Scaling = plan.CoordinatorScaling{ScaleDowns: []string{"here from 2 to 1"}, Blockers: blocked("second is leaving")}
	}
	in.Measured = map[string]plan.Measure{"second": {Published: true, StabilityLag: time.Hour, Incomplete: 3,
		RingLag: map[string]time.Duration{"theirs": time.Hour}}}
}

// blocked returns a decision that denies something.
func blocked(message string) []plan.Decision {
	return []plan.Decision{{Reason: plan.ReasonNotServing, Message: message}}
}

// wasReady gives the store the status of one that has been ready.
func wasReady(in *status.Observed) { in.Store.Status = status.Of(one()) }

func TestEachConditionReportsTheState(t *testing.T) {
	measured := func(lag time.Duration) func(*status.Observed) {
		return func(in *status.Observed) {
			in.Measured = map[string]plan.Measure{plan.ComponentCoordinator: {Published: true, StabilityLag: lag, Incomplete: 5,
				RingLag: map[string]time.Duration{"mine": 0, "theirs": lag}}}
		}
	}
	for _, c := range []struct {
		when              string
		given             func(*status.Observed)
		condition, reason string
		is                metav1.ConditionStatus
		says              string
	}{
		{"all serve", func(*status.Observed) {}, v1alpha1.ConditionReady, v1alpha1.ReasonAllPartsReady, "True", "1 data centres"},
		{"it is new and a part is missing", func(in *status.Observed) { fail(in, "shard") }, v1alpha1.ConditionProgressing,
			v1alpha1.ReasonCreating, "True", "0 of 1 shards"},
		{"it is new and a part is missing", func(in *status.Observed) { fail(in, "shard") }, v1alpha1.ConditionDegraded,
			v1alpha1.ReasonNotDegraded, "False", ""},
		{"a shard was lost", func(in *status.Observed) { wasReady(in); fail(in, "shard") }, v1alpha1.ConditionDegraded,
			v1alpha1.ReasonDataMissing, "True", "ring mine"},
		{"a shard was lost", func(in *status.Observed) { wasReady(in); fail(in, "shard") }, v1alpha1.ConditionStorageReady,
			v1alpha1.ReasonShardsNotReady, "False", "here: 0 of 1"},
		{"a cache was lost", func(in *status.Observed) { wasReady(in); fail(in, "cache") }, v1alpha1.ConditionDegraded,
			v1alpha1.ReasonPartsMissing, "True", "0 of 1 caches"},
		{"slots move", func(in *status.Observed) { wasReady(in); reshard(in, 2); in.Rollout.Outdated = 3 },
			v1alpha1.ConditionProgressing, v1alpha1.ReasonMovingSlots, "True",
			"here from 1 to 2; waiting for: s-here-shard-0-0 is copying; 3 pods have to restart after that"},
		{"a new shard is not ready yet", func(in *status.Observed) { wasReady(in); reshard(in, 2) },
			v1alpha1.ConditionDegraded, v1alpha1.ReasonNotDegraded, "False", ""},
		{"a new shard is not ready yet", func(in *status.Observed) { wasReady(in); reshard(in, 2) },
			v1alpha1.ConditionStorageReady, v1alpha1.ReasonShardsServe, "True", ""},
		{"a new shard is not ready yet", func(in *status.Observed) { wasReady(in); reshard(in, 2) },
			v1alpha1.ConditionReady, v1alpha1.ReasonPartsNotReady, "False", "1 of 2 shards"},
		{"a shard that gives slots away is lost", func(in *status.Observed) { wasReady(in); reshard(in, 2); fail(in, "shard") },
			v1alpha1.ConditionDegraded, v1alpha1.ReasonDataMissing, "True", "ring mine"},
		{"a change of shards waits", func(in *status.Observed) {
			wasReady(in)
			in.Resharding = plan.Resharding{Requested: []string{"here to 2"}, Start: blocked("a pod is terminating")[0]}
		}, v1alpha1.ConditionProgressing, v1alpha1.ReasonMovingSlots, "True", "here to 2; waiting: a pod is terminating"},
		{"a coordinator leaves", func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 1) }, v1alpha1.ConditionProgressing,
			v1alpha1.ReasonCoordinators, "True", "coordinators are leaving: here from 2 to 1; waiting for: second is leaving"},
		{"a coordinator leaves", func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 1) }, v1alpha1.ConditionReady,
			v1alpha1.ReasonAllPartsReady, "True", ""},
		{"a coordinator leaves", func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 1) }, v1alpha1.ConditionDegraded,
			v1alpha1.ReasonNotDegraded, "False", ""},
		{"a coordinator leaves, and lags behind", func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 1) },
			v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersUnknown, "Unknown", ""},
		{"a coordinator leaves, and the other is lost",
			func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 1); fail(in, plan.ComponentCoordinator) },
			v1alpha1.ConditionDegraded, v1alpha1.ReasonPartsMissing, "True", "0 of 1 coordinators"},
		{"a coordinator joins", func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 2) }, v1alpha1.ConditionProgressing,
			v1alpha1.ReasonCoordinators, "True", "coordinators are joining: second is joining: it has not been admitted"},
		{"a coordinator joins", func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 2) }, v1alpha1.ConditionReady,
			v1alpha1.ReasonPartsNotReady, "False", "1 of 2 coordinators"},
		{"a coordinator joins", func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 2) }, v1alpha1.ConditionDegraded,
			v1alpha1.ReasonNotDegraded, "False", ""},
		{"a coordinator that has joined is lost",
			func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 2); in.Record.Served["here"] = 2 },
			v1alpha1.ConditionDegraded, v1alpha1.ReasonPartsMissing, "True", "1 of 2 coordinators"},
		{"a coordinator joins a new store", func(in *status.Observed) { scaleCoordinators(in, 2) },
			v1alpha1.ConditionProgressing, v1alpha1.ReasonCreating, "True", "1 of 2 coordinators; coordinators are joining: second is joining"},
		{"pods restart while a coordinator leaves", func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 1); in.Rollout.Outdated = 2 },
			v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut, "True", "2 pods have to restart; coordinators are leaving"},
		{"the last pod restarts while a coordinator leaves", func(in *status.Observed) {
			wasReady(in)
			scaleCoordinators(in, 1)
			in.Rollout.Outdated = 1
			in.Store.Status = status.Of(*in)
			in.Rollout.Outdated = 0
			fail(in, "cache")
		}, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut, "True", "0 of 1 caches; coordinators are leaving"},
		{"one part restarts for a change", func(in *status.Observed) { wasReady(in); fail(in, "cache"); in.Rollout.Outdated = 2 },
			v1alpha1.ConditionDegraded, v1alpha1.ReasonNotDegraded, "False", ""},
		{"a part does not return from its restart", func(in *status.Observed) {
			wasReady(in)
			fail(in, "cache")
			in.Rollout.Outdated = 2
			in.Store.Status = status.Of(*in)
			in.Now = in.Now.Add(time.Hour)
		}, v1alpha1.ConditionDegraded, v1alpha1.ReasonPartsMissing, "True", "0 of 1 caches"},
		{"pods restart for a change", func(in *status.Observed) {
			wasReady(in)
			in.Rollout = plan.Rollout{Outdated: 2, Next: blocked("pod x is not ready")[0]}
		},
			v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut, "True", "2 pods have to restart; waiting: pod x"},
		{"a change no longer waits for a log", func(in *status.Observed) {
			wasReady(in)
			in.Rollout = plan.Rollout{Outdated: 2, LateLogs: []string{"cc-0 has 3 writes"}}
		},
			v1alpha1.ConditionProgressing, v1alpha1.ReasonLogNotDrained, "True", "2 pods have to restart; no longer waiting for logs: cc-0 has 3 writes"},
		{"volumes grow", func(in *status.Observed) { wasReady(in); in.Growing = []string{"data-x"} }, v1alpha1.ConditionProgressing,
			v1alpha1.ReasonGrowing, "True", "data-x"},
		{"the spec is refused", func(in *status.Observed) { in.Refused = []string{"spec.x: no"} }, v1alpha1.ConditionTopologyValid,
			v1alpha1.ReasonSpecRefused, "False", "spec.x: no"},
		{"the spec is refused", func(in *status.Observed) { in.Refused = []string{"spec.x: no"} }, v1alpha1.ConditionReady,
			v1alpha1.ReasonSpecRefused, "False", "spec.x: no"},
		{"a store that runs gets a spec that is refused",
			func(in *status.Observed) { wasReady(in); in.Refused = []string{"spec.x: no"} },
			v1alpha1.ConditionReady, v1alpha1.ReasonAllPartsReady, "True", ""},
		{"a change is forbidden", func(in *status.Observed) { in.Forbidden = []string{"spec.y: no"} },
			v1alpha1.ConditionTopologyValid, v1alpha1.ReasonTopologyChanged, "False", "spec.y"},
		{"a zone has no nodes", func(in *status.Observed) { delete(in.ZoneOf, "n2") }, v1alpha1.ConditionTopologyValid,
			v1alpha1.ReasonZoneWithoutNodes, "False", "b (of here)"},
		{"another process runs as a coordinator", func(in *status.Observed) {
			wasReady(in)
			report(in, plan.ComponentCoordinator, contract.StateDuplicateIdentity, "refused by its peers: two processes run as coordinator 0")
		}, v1alpha1.ConditionDegraded, v1alpha1.ReasonDuplicatePart, "True", "two processes run as coordinator 0"},
		{"a disk of a coordinator is full", func(in *status.Observed) {
			wasReady(in)
			report(in, plan.ComponentCoordinator, contract.StateLogFull, "accepts no writes: no space left")
		}, v1alpha1.ConditionDegraded, v1alpha1.ReasonDiskFull, "True", "accepts no writes: no space left"},
		{"a storage is full", func(in *status.Observed) {
			wasReady(in)
			report(in, "shard", contract.StateStorageFull, "storage takes no writes: OOM")
		}, v1alpha1.ConditionStorageReady, v1alpha1.ReasonStorageFull, "False", "storage takes no writes: OOM"},
		{"a storage is full", func(in *status.Observed) {
			wasReady(in)
			report(in, "shard", contract.StateStorageFull, "storage takes no writes: OOM")
		}, v1alpha1.ConditionDegraded, v1alpha1.ReasonDataMissing, "True", "storage takes no writes: OOM"},
		{"a storage is full", func(in *status.Observed) {
			wasReady(in)
			report(in, "shard", contract.StateStorageFull, "storage takes no writes: OOM")
		}, v1alpha1.ConditionReady, v1alpha1.ReasonPartsNotReady, "False", "storage takes no writes: OOM"},
		{"something could not be applied", func(in *status.Observed) { in.Failed = errors.New("no room") }, v1alpha1.ConditionReady,
			v1alpha1.ReasonApplyFailed, "False", "no room"},
		{"nobody was asked", func(*status.Observed) {}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersUnknown, "Unknown",
			""},
		{"all rings follow", measured(time.Second), v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersAcknowledge, "True", ""},
		{"a ring does not follow", measured(time.Minute), v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersBehind, "False",
			"theirs (1m0s)"},
		{"there is one ring", func(in *status.Observed) { in.Store.Spec.Rings = in.Store.Spec.Rings[:1] },
			v1alpha1.ConditionPeersConnected, v1alpha1.ReasonOneRing, "True", ""},
		{"there is no webhook", func(*status.Observed) {}, v1alpha1.ConditionInjectionReady, v1alpha1.ReasonWebhookNotInstalled,
			"False", "Service s"},
		{"there is a webhook", func(in *status.Observed) { in.Webhook = true }, v1alpha1.ConditionInjectionReady,
			v1alpha1.ReasonWebhookServing, "True", ""},
		{"it is paused", func(in *status.Observed) { in.Store.Spec.Paused = true }, v1alpha1.ConditionPaused, v1alpha1.ReasonPaused,
			"True", ""},
		{"nothing of it is here", func(in *status.Observed) { in.Region = "mars" }, v1alpha1.ConditionReady,
			v1alpha1.ReasonNothingHere, "False", "region mars"},
	} {
		t.Run(c.when+": "+c.condition, func(t *testing.T) {
			in := one()
			c.given(&in)
			got := meta.FindStatusCondition(status.Of(in).Conditions, c.condition)
			if got == nil || got.Status != c.is || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
				t.Fatalf("%s is %+v, want %s %s with %q", c.condition, got, c.is, c.reason, c.says)
			}
			if got.ObservedGeneration != 7 {
				t.Errorf("it is about generation %d, want 7", got.ObservedGeneration)
			}
		})
	}
}

func TestLagsAreShownIfTheyAreKnown(t *testing.T) {
	in := one()
	if s := status.Of(in); s.Summary.VisibilityLag != "" || s.DataCenters[0].StabilityLagMs != nil || s.Rings[1].LagMs != nil {
		t.Errorf("lags are shown, and nobody was asked: %+v", s)
	}
	in.Measured = map[string]plan.Measure{plan.ComponentCoordinator: {Published: true, StabilityLag: 230 * time.Millisecond,
		Incomplete: 5,
		RingLag:    map[string]time.Duration{"theirs": 190 * time.Millisecond}}}
	s := status.Of(in)
	if s.Summary.VisibilityLag != "200ms" || *s.DataCenters[0].StabilityLagMs != 200 || *s.DataCenters[0].IncompleteWrites != 5 || *s.Rings[1].LagMs != 200 {
		t.Errorf("summary %+v, data centre %+v, ring %+v", s.Summary, s.DataCenters[0], s.Rings[1])
	}
}

func TestAConditionKeepsItsTransitionTimeWhileItsStatusStays(t *testing.T) {
	in := one()
	in.Store.Status = status.Of(in)
	in.Now = in.Now.Add(time.Hour)
	fail(&in, "shard")
	s := status.Of(in)
	if at := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused).LastTransitionTime; !at.Time.Equal(time.Unix(1000,
		0)) {
		t.Errorf("Paused has changed at %s, and it has not", at)
	}
	if at := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady).LastTransitionTime; !at.Time.Equal(in.Now) {
		t.Errorf("Ready has changed at %s, want now", at)
	}
}

package status_test

import (
	"errors"
	"fmt"
	"slices"
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
	s.Spec.Rings = []v1alpha1.Ring{{Name: "mine", DataCenters: []string{"here"}},
		{Name: "theirs", DataCenters: []string{"there"}}}
	in := status.Observed{Epoch: 3}
	in.Now = time.Unix(1000, 0)
	in.Store, in.Region, in.ZoneOf = s, "r", map[string]string{"n1": "a", "n2": "b"}
	for _, part := range []string{plan.ComponentCoordinator, plan.ComponentCache, plan.ComponentShard} {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: part,
			Labels: map[string]string{plan.LabelDataCenter: "here",
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

// wait makes a part not ready because its container waits for a reason.
func wait(in *status.Observed, part, reason, message string) {
	fail(in, part)
	for i := range in.Pods {
		if in.Pods[i].Name == part {
			in.Pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "causalstore:bad",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
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
	in.Record = &plan.Record{Epoch: 2,
		Layout: `{"dataCenters":[{"name":"here","coordinators":1,"shards":2,"shardsBefore":1}]}`}
	in.Resharding = plan.Resharding{Changes: []string{"here from 1 to 2"},
		Blockers: blocked("s-here-shard-0-0 is copying"), Local: true}
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
		in.Scaling = plan.CoordinatorScaling{ScaleDowns: []string{"here from 2 to 1"},
			Blockers: blocked("second is leaving")}
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
			in.Measured = map[string]plan.Measure{plan.ComponentCoordinator: {Published: true, StabilityLag: lag,
				Incomplete: 5,
				RingLag:    map[string]time.Duration{"mine": 0, "theirs": lag},
				Answering:  map[string]bool{"here": true, "there": true}}}
		}
	}
	found := func(of ...contract.Peer) func(*status.Observed) {
		return func(in *status.Observed) {
			measured(0)(in)
			in.Reports = map[string]plan.Report{plan.ComponentCoordinator: {Readiness: contract.Readiness{Peers: of}}}
		}
	}
	there := func(s contract.PeerState) contract.Peer { return contract.Peer{DataCenter: "there", State: s} }
	// second adds another data center of the other region.
	second := func(in *status.Observed) {
		dc := in.Store.Spec.DataCenters[1]
		dc.Name = "beyond"
		in.Store.Spec.DataCenters = append(in.Store.Spec.DataCenters, dc)
		in.Store.Spec.Rings[1].DataCenters = append(in.Store.Spec.Rings[1].DataCenters, dc.Name)
	}
	for _, c := range []struct {
		when              string
		given             func(*status.Observed)
		condition, reason string
		is                metav1.ConditionStatus
		says              string
	}{
		{"all serve", func(*status.Observed) {}, v1alpha1.ConditionReady, v1alpha1.ReasonAllPartsReady, "True",
			"1 data centers"},
		{"it is new and a part is missing", func(in *status.Observed) {
			fail(in, "shard")
		}, v1alpha1.ConditionProgressing,
			v1alpha1.ReasonCreating, "True", "0 of 1 shards"},
		{"it is new and a part is missing", func(in *status.Observed) { fail(in, "shard") }, v1alpha1.ConditionDegraded,
			v1alpha1.ReasonNotDegraded, "False", ""},
		{"a shard was lost", func(in *status.Observed) { wasReady(in); fail(in, "shard") }, v1alpha1.ConditionDegraded,
			v1alpha1.ReasonDataMissing, "True", "ring mine"},
		{"a shard was lost", func(in *status.Observed) {
			wasReady(in)
			fail(in, "shard")
		}, v1alpha1.ConditionStorageReady,
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
		{"a shard that gives slots away is lost", func(in *status.Observed) {
			wasReady(in)
			reshard(in, 2)
			fail(in, "shard")
		},
			v1alpha1.ConditionDegraded, v1alpha1.ReasonDataMissing, "True", "ring mine"},
		{"a change of shards waits", func(in *status.Observed) {
			wasReady(in)
			in.Resharding = plan.Resharding{Requested: []string{"here to 2"}, Start: blocked("a pod is terminating")[0]}
		}, v1alpha1.ConditionProgressing, v1alpha1.ReasonMovingSlots, "True",
			"here to 2; waiting: a pod is terminating"},
		{"a coordinator leaves", func(in *status.Observed) {
			wasReady(in)
			scaleCoordinators(in, 1)
		}, v1alpha1.ConditionProgressing,
			v1alpha1.ReasonCoordinators, "True",
			"coordinators are leaving: here from 2 to 1; waiting for: second is leaving"},
		{"a coordinator leaves", func(in *status.Observed) {
			wasReady(in)
			scaleCoordinators(in, 1)
		}, v1alpha1.ConditionReady,
			v1alpha1.ReasonAllPartsReady, "True", ""},
		{"a coordinator leaves", func(in *status.Observed) {
			wasReady(in)
			scaleCoordinators(in, 1)
		}, v1alpha1.ConditionDegraded,
			v1alpha1.ReasonNotDegraded, "False", ""},
		{"a coordinator leaves, and lags behind", func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 1) },
			v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersBehind, "False", "theirs (1h6m40s)"},
		{"a coordinator leaves, and the other is lost",
			func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 1); fail(in, plan.ComponentCoordinator) },
			v1alpha1.ConditionDegraded, v1alpha1.ReasonPartsMissing, "True", "0 of 1 coordinators"},
		{"a coordinator joins", func(in *status.Observed) {
			wasReady(in)
			scaleCoordinators(in, 2)
		}, v1alpha1.ConditionProgressing,
			v1alpha1.ReasonCoordinators, "True",
			"coordinators are joining: second is joining: it has not been admitted"},
		{"a coordinator joins", func(in *status.Observed) {
			wasReady(in)
			scaleCoordinators(in, 2)
		}, v1alpha1.ConditionReady,
			v1alpha1.ReasonPartsNotReady, "False", "1 of 2 coordinators"},
		{"a coordinator joins", func(in *status.Observed) {
			wasReady(in)
			scaleCoordinators(in, 2)
		}, v1alpha1.ConditionDegraded,
			v1alpha1.ReasonNotDegraded, "False", ""},
		{"a coordinator that has joined is lost",
			func(in *status.Observed) { wasReady(in); scaleCoordinators(in, 2); in.Record.Served["here"] = 2 },
			v1alpha1.ConditionDegraded, v1alpha1.ReasonPartsMissing, "True", "1 of 2 coordinators"},
		{"a coordinator joins a new store", func(in *status.Observed) { scaleCoordinators(in, 2) },
			v1alpha1.ConditionProgressing, v1alpha1.ReasonCreating, "True",
			"1 of 2 coordinators; coordinators are joining: second is joining"},
		{"pods restart while a coordinator leaves", func(in *status.Observed) {
			wasReady(in)
			scaleCoordinators(in, 1)
			in.Rollout.Outdated = 2
		},
			v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut, "True",
			"2 pods have to restart; coordinators are leaving"},
		{"the last pod restarts while a coordinator leaves", func(in *status.Observed) {
			wasReady(in)
			scaleCoordinators(in, 1)
			in.Rollout.Outdated = 1
			in.Store.Status = status.Of(*in)
			in.Rollout.Outdated = 0
			fail(in, "cache")
		}, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut, "True", "0 of 1 caches; coordinators are leaving"},
		{"one part restarts for a change", func(in *status.Observed) {
			wasReady(in)
			fail(in, "cache")
			in.Rollout.Outdated = 2
		},
			v1alpha1.ConditionDegraded, v1alpha1.ReasonNotDegraded, "False", ""},
		{"one part has been away for a minute since a change", func(in *status.Observed) {
			wasReady(in)
			fail(in, "cache")
			in.Rollout.Outdated = 2
			in.Store.Status = status.Of(*in)
			in.Now = in.Now.Add(time.Minute)
		}, v1alpha1.ConditionDegraded, v1alpha1.ReasonNotDegraded, "False", ""},
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
			v1alpha1.ConditionProgressing, v1alpha1.ReasonLogNotDrained, "True",
			"2 pods have to restart; no longer waiting for logs: cc-0 has 3 writes"},
		{"volumes grow", func(in *status.Observed) {
			wasReady(in)
			in.Growing = []string{"data-x"}
		}, v1alpha1.ConditionProgressing,
			v1alpha1.ReasonGrowing, "True", "data-x"},
		{"the spec is refused", func(in *status.Observed) {
			in.Refused = []string{"spec.x: no"}
		}, v1alpha1.ConditionTopologyValid,
			v1alpha1.ReasonSpecRefused, "False", "spec.x: no"},
		{"the spec is refused", func(in *status.Observed) {
			in.Refused = []string{"spec.x: no"}
		}, v1alpha1.ConditionReady,
			v1alpha1.ReasonSpecRefused, "False", "spec.x: no"},
		{"a store that runs gets a spec that is refused",
			func(in *status.Observed) { wasReady(in); in.Refused = []string{"spec.x: no"} },
			v1alpha1.ConditionReady, v1alpha1.ReasonAllPartsReady, "True", ""},
		{"a change is forbidden", func(in *status.Observed) { in.Forbidden = []string{"spec.y: no"} },
			v1alpha1.ConditionTopologyValid, v1alpha1.ReasonTopologyChanged, "False", "spec.y"},
		{"a zone has no nodes", func(in *status.Observed) { delete(in.ZoneOf, "n2") }, v1alpha1.ConditionTopologyValid,
			v1alpha1.ReasonZoneWithoutNodes, "False", "b (of here)"},
		{"a cluster of one zone", func(in *status.Observed) {
			delete(in.ZoneOf, "n2")
		}, v1alpha1.ConditionTopologyValid,
			v1alpha1.ReasonZoneWithoutNodes, "False", "set spec.placement: SingleZone"},
		{"placement in one zone", func(in *status.Observed) {
			in.ZoneOf, in.Store.Spec.Placement = nil, v1alpha1.PlacementSingleZone
		},
			v1alpha1.ConditionTopologyValid, v1alpha1.ReasonSingleZone, "True",
			"nothing protects from the loss of the zone"},
		{"a shard has lost its data", func(in *status.Observed) {
			wasReady(in)
			report(in, "shard", contract.StateDataLost, "data lost: the storage is without data")
		}, v1alpha1.ConditionDegraded, v1alpha1.ReasonDataLost, "True",
			"shard: DataLost: data lost: the storage is without data"},
		{"a shard has lost its data", func(in *status.Observed) {
			wasReady(in)
			report(in, "shard", contract.StateDataLost, "data lost: the storage is without data")
		}, v1alpha1.ConditionReady, v1alpha1.ReasonDataLost, "False",
			"shard: DataLost: data lost: the storage is without data"},
		{"a shard has lost its data while pods restart for a change", func(in *status.Observed) {
			wasReady(in)
			in.Rollout.Outdated = 1
			report(in, "shard", contract.StateDataLost, "data lost: the storage is without data")
		}, v1alpha1.ConditionDegraded, v1alpha1.ReasonDataLost, "True", "shard: DataLost"},
		{"a coordinator has lost its log, and a cache is missing", func(in *status.Observed) {
			wasReady(in)
			fail(in, "cache")
			report(in, plan.ComponentCoordinator, contract.StateDataLost, "data lost: the log is empty")
		}, v1alpha1.ConditionDegraded, v1alpha1.ReasonDataLost, "True",
			"coordinator: DataLost: data lost: the log is empty"},
		{"another process runs as a coordinator", func(in *status.Observed) {
			wasReady(in)
			report(in, plan.ComponentCoordinator, contract.StateDuplicateIdentity,
				"refused by its peers: two processes run as coordinator 0")
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
		{"something could not be applied", func(in *status.Observed) {
			in.Failed = errors.New("no room")
		}, v1alpha1.ConditionReady,
			v1alpha1.ReasonApplyFailed, "False", "no room"},
		{"nobody was asked", func(*status.Observed) {}, v1alpha1.ConditionPeersConnected,
			v1alpha1.ReasonPeersUnknown, "Unknown",
			""},
		{"all rings follow", measured(time.Second), v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersAcknowledge,
			"True", ""},
		{"a ring does not follow", measured(time.Minute), v1alpha1.ConditionPeersConnected,
			v1alpha1.ReasonPeersBehind, "False",
			"theirs (1m0s)"},
		{"there is one ring", func(in *status.Observed) { in.Store.Spec.Rings = in.Store.Spec.Rings[:1] },
			v1alpha1.ConditionPeersConnected, v1alpha1.ReasonOneRing, "True", ""},
		{"there is no webhook", func(*status.Observed) {}, v1alpha1.ConditionInjectionReady,
			v1alpha1.ReasonWebhookNotInstalled,
			"False", "Service s"},
		{"there is a webhook", func(in *status.Observed) { in.Webhook = true }, v1alpha1.ConditionInjectionReady,
			v1alpha1.ReasonWebhookServing, "True", ""},
		{"it is paused", func(in *status.Observed) {
			in.Store.Spec.Paused = true
		}, v1alpha1.ConditionPaused, v1alpha1.ReasonPaused,
			"True", ""},
		{"it is paused, and a change waits", func(in *status.Observed) {
			wasReady(in)
			in.Store.Spec.Paused, in.Pending = true, []string{"spec.image", "3 pods to restart"}
		}, v1alpha1.ConditionPaused, v1alpha1.ReasonChangesPending, "True", "spec.image; 3 pods to restart"},
		{"it is paused, and a change waits", func(in *status.Observed) {
			wasReady(in)
			in.Store.Spec.Paused, in.Pending = true, []string{"spec.image"}
		}, v1alpha1.ConditionProgressing, v1alpha1.ReasonChangesPending, "False",
			"paused; what would change: spec.image"},
		{"it was paused before it was created", func(in *status.Observed) {
			in.Store.Spec.Paused, in.Pending = true, []string{"StatefulSets to create: x"}
			fail(in, "shard")
		}, v1alpha1.ConditionProgressing, v1alpha1.ReasonCreating, "False", "paused before it was created"},
		{"it is created again with a change that is forbidden", func(in *status.Observed) {
			in.Forbidden = []string{"spec.rings"}
			fail(in, "shard")
		}, v1alpha1.ConditionProgressing, v1alpha1.ReasonSpecRefused, "False", "not applied"},
		{"a change is forbidden", func(in *status.Observed) { wasReady(in); in.Forbidden = []string{"spec.rings"} },
			v1alpha1.ConditionProgressing, v1alpha1.ReasonNotApplied, "False", "not applied"},
		{"a coordinator does not answer", func(in *status.Observed) {
			measured(time.Second)(in)
			delete(in.Measured, plan.ComponentCoordinator)
			in.Unmeasured = map[string]string{plan.ComponentCoordinator: "it does not answer"}
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersUnasked, "Unknown",
			"coordinator (it does not answer)"},
		{"one of two coordinators does not answer", func(in *status.Observed) {
			scaleCoordinators(in, 2)
			in.Record.Served["here"] = 2
			measured(time.Second)(in)
			in.Unmeasured = map[string]string{"second": "it does not answer"}
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersUnasked, "Unknown", "second (it does not answer)"},
		{"one coordinator of two is not behind", func(in *status.Observed) {
			scaleCoordinators(in, 2)
			in.Record.Served["here"] = 2
			measured(time.Second)(in)
			in.Measured["second"] = plan.Measure{Published: true, StabilityLag: time.Hour,
				RingLag: map[string]time.Duration{"theirs": time.Hour}}
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersBehind, "False", "theirs (1h6m40s)"},
		{"a coordinator has no pod", func(in *status.Observed) { measured(time.Second)(in); in.Pods = in.Pods[1:] },
			v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersUnasked, "Unknown", "1 of here (there is no pod)"},
		{"a coordinator has published nothing", func(in *status.Observed) {
			in.Measured = map[string]plan.Measure{plan.ComponentCoordinator: {}}
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersUnasked, "Unknown",
			"coordinator (it has not published its progress yet)"},
		{"nobody writes, and the shards of another region do not answer", func(in *status.Observed) {
			measured(0)(in)
			in.Measured[plan.ComponentCoordinator].Answering["there"] = false
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonRegionsAway, "False", "there (ring theirs)"},
		{"a region is away", found(there(contract.PeerUnreachable)), v1alpha1.ConditionPeersConnected,
			v1alpha1.ReasonRegionsAway, "False",
			"region q is away: there (ring theirs)"},
		{"the shards of a region do not answer, and its coordinators do",
			found(contract.Peer{DataCenter: "there", State: contract.PeerUnreachable, Links: 2, LinksUp: 1}),
			v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersUnreachable, "False",
			"there (ring theirs): its shards do not answer"},
		{"a region behind an edge is away", func(in *status.Observed) {
			in.Store.Spec.DataCenters[1].Edge = &v1alpha1.Edge{Address: "edge.q.example.com:15443"}
			found(there(contract.PeerUnreachable))(in)
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonRegionsAway, "False",
			"check it and the network to it, at edge.address edge.q.example.com:15443"},
		{"a region is away, and writes wait for it", func(in *status.Observed) {
			found(there(contract.PeerUnreachable))(in)
			measured(time.Minute)(in)
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonRegionsAway, "False",
			"rings that do not acknowledge writes: theirs (1m0s)"},
		{"a region is away", found(there(contract.PeerUnreachable)), v1alpha1.ConditionReady,
			v1alpha1.ReasonAllPartsReady, "True", ""},
		{"a region is away", found(there(contract.PeerUnreachable)), v1alpha1.ConditionDegraded,
			v1alpha1.ReasonNotDegraded, "False", ""},
		{"a region is away", found(there(contract.PeerUnreachable)), v1alpha1.ConditionTopologyValid,
			v1alpha1.ReasonTopologyAccepted, "True", ""},
		{"both data centers of a region are away", func(in *status.Observed) {
			second(in)
			found(there(contract.PeerUnreachable),
				contract.Peer{DataCenter: "beyond", State: contract.PeerUnreachable})(in)
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonRegionsAway, "False",
			"region q is away: there (ring theirs), beyond (ring theirs);"},
		{"one of two data centers of a region is away", func(in *status.Observed) {
			second(in)
			found(there(contract.PeerUnreachable),
				contract.Peer{DataCenter: "beyond", State: contract.PeerConnected})(in)
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersUnreachable, "False",
			"there (ring theirs): its shards do not answer"},
		{"another region has another manifest",
			found(contract.Peer{DataCenter: "there", State: contract.PeerOtherManifest, Error: "it runs other rings"}),
			v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersManifest, "False",
			"there (ring theirs) is refused: it runs other rings"},
		{"another region is not trusted", found(there(contract.PeerNotTrusted)), v1alpha1.ConditionPeersConnected,
			v1alpha1.ReasonPeersNotTrusted, "False",
			"there (ring theirs) and the parts here do not accept each other's certificates"},
		{"names of another region do not resolve", found(there(contract.PeerUnresolved)),
			v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersUnresolved, "False",
			"there (ring theirs): its names, or that of the edge, do not resolve"},
		{"another region has another version",
			found(contract.Peer{DataCenter: "there", State: contract.PeerOtherVersion, Version: "v9"}),
			v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersVersion, "True", "there (v9)"},
		{"one data center is away, and another one refuses the manifest", func(in *status.Observed) {
			second(in)
			found(there(contract.PeerUnreachable),
				contract.Peer{DataCenter: "beyond", State: contract.PeerOtherManifest})(in)
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersManifest, "False",
			"there (ring theirs): its shards do not answer"},
		{"a part of a later version reports a state that is not known", found(there("teleported")),
			v1alpha1.ConditionPeersConnected,
			v1alpha1.ReasonPeersAcknowledge, "True", ""},
		{"there is one ring, and its other region is away", func(in *status.Observed) {
			in.Store.Spec.Rings = []v1alpha1.Ring{{Name: "mine", DataCenters: []string{"here", "there"}}}
			found(there(contract.PeerUnreachable))(in)
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonRegionsAway, "False", "region q is away"},
		{"nobody writes, and another region was never probed", func(in *status.Observed) {
			measured(0)(in)
			delete(in.Measured[plan.ComponentCoordinator].Answering, "there")
		}, v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersUnknown, "Unknown", "there (ring theirs)"},
		{"nobody writes, and a ring here has never served", func(in *status.Observed) {
			measured(0)(in)
			fail(in, "shard")
		},
			v1alpha1.ConditionPeersConnected, v1alpha1.ReasonPeersNotServing, "Unknown",
			"mine (ready: here has 0 of 1 shards)"},
		{"the API server does not trust the webhook", func(in *status.Observed) { in.WebhookInstalled = true },
			v1alpha1.ConditionInjectionReady, v1alpha1.ReasonWebhookNotServing, "False", "does not trust"},
		{"an image cannot be had in a rollout", func(in *status.Observed) {
			wasReady(in)
			in.Rollout.Outdated = 2
			wait(in, "cache", "ImagePullBackOff", "no such image")
		}, v1alpha1.ConditionDegraded, v1alpha1.ReasonImageMissing, "True",
			"cache: ImageUnavailable: container main: ImagePullBackOff of image causalstore:bad: no such image"},
		{"an image cannot be had in a rollout of shards", func(in *status.Observed) {
			wasReady(in)
			in.Rollout.Outdated = 2
			wait(in, "shard", "ErrImagePull", "no such image")
		}, v1alpha1.ConditionDegraded, v1alpha1.ReasonDataMissing, "True",
			"shard: ImageUnavailable: container main: ErrImagePull"},
		{"it is new and an image cannot be had", func(in *status.Observed) {
			wait(in, "shard", "ImagePullBackOff", "no such image")
		},
			v1alpha1.ConditionDegraded, v1alpha1.ReasonImageMissing, "True", "no such image"},
		{"a part does not start", func(in *status.Observed) { wait(in, "shard", "CrashLoopBackOff", "back-off") },
			v1alpha1.ConditionReady, v1alpha1.ReasonPartsNotReady, "False",
			"shard: CrashLoopBackOff: container main: back-off"},
		{"a part says why it is not ready", func(in *status.Observed) {
			fail(in, "shard")
			in.Reports = map[string]plan.Report{
				"shard": {Readiness: contract.Readiness{Reason: "waiting: its storage"}},
			}
		}, v1alpha1.ConditionReady, v1alpha1.ReasonPartsNotReady, "False", "shard: NotReady: waiting: its storage"},
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
	if s := status.Of(in); s.Summary.VisibilityLag != "" || s.DataCenters[0].StabilityLagMs != nil ||
		s.Rings[1].LagMs != nil {
		t.Errorf("lags are shown, and nobody was asked: %+v", s)
	}
	in.Measured = map[string]plan.Measure{plan.ComponentCoordinator: {Published: true,
		StabilityLag: 230 * time.Millisecond,
		Incomplete:   5,
		RingLag:      map[string]time.Duration{"theirs": 190 * time.Millisecond}}}
	s := status.Of(in)
	if s.Summary.VisibilityLag != "200ms" || *s.DataCenters[0].StabilityLagMs != 200 ||
		*s.DataCenters[0].IncompleteWrites != 5 || *s.Rings[1].LagMs != 200 {
		t.Errorf("summary %+v, data center %+v, ring %+v", s.Summary, s.DataCenters[0], s.Rings[1])
	}
}

// TestTheSummarySaysHowManyLagsAreUnknown: the lag of those that answer is not that of all.
func TestTheSummarySaysHowManyLagsAreUnknown(t *testing.T) {
	in := one()
	scaleCoordinators(&in, 2)
	in.Record.Served["here"] = 2
	in.Measured = map[string]plan.Measure{plan.ComponentCoordinator: {Published: true,
		StabilityLag: 230 * time.Millisecond}}
	if got := status.Of(in).Summary.VisibilityLag; got != "200ms, 1 unknown" {
		t.Errorf("the visibility lag is %q", got)
	}
}

func TestTheHeartbeatAdvancesEveryMinuteAndWithEachChange(t *testing.T) {
	in := one()
	start := in.Now
	beat := func(after time.Duration) time.Duration {
		in.Now = start.Add(after)
		in.Store.Status = status.Of(in)
		return in.Store.Status.HeartbeatTime.Sub(start)
	}
	for _, c := range []struct{ at, want time.Duration }{{0, 0}, {30 * time.Second, 0}, {time.Minute, time.Minute},
		{90 * time.Second, time.Minute}} {
		if got := beat(c.at); got != c.want {
			t.Errorf("after %s the heartbeat is that of %s, want %s", c.at, got, c.want)
		}
	}
	fail(&in, "cache")
	if got := beat(95 * time.Second); got != 95*time.Second {
		t.Errorf("with a change after 95s the heartbeat is that of %s", got)
	}
}

// TestTheStateThatAPartReportsIsTheReasonOfItsProblem: programs and the kubectl plugin go by it.
func TestTheStateThatAPartReportsIsTheReasonOfItsProblem(t *testing.T) {
	for _, state := range []contract.State{contract.StateDataLost, contract.StateDuplicateIdentity,
		contract.StateStorageFull, contract.StateStorageFailing, contract.StateLogFull} {
		in := one()
		report(&in, "shard", state, "because")
		want := []v1alpha1.PodProblem{{Pod: "shard", Reason: string(state), Message: "because"}}
		if got := status.Of(in).Problems; !slices.Equal(got, want) {
			t.Errorf("problems %+v, want %+v", got, want)
		}
	}
}

// TestTheProblemsOfPodsAreBounded: a status is an object in etcd.
func TestTheProblemsOfPodsAreBounded(t *testing.T) {
	in := one()
	wait(&in, "shard", "CrashLoopBackOff", strings.Repeat("x", 5000))
	for i := range 100 {
		p := in.Pods[2].DeepCopy()
		p.Name = fmt.Sprintf("shard-%03d", i)
		in.Pods = append(in.Pods, *p)
	}
	s := status.Of(in)
	if len(s.Problems) != 32 || s.Problems[0].Pod != "shard" || s.Problems[0].Reason != "CrashLoopBackOff" ||
		len(s.Problems[0].Message) > 600 {
		t.Errorf("%d problems; the first: %+v", len(s.Problems), s.Problems[0])
	}
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
	if len(c.Message) > 3000 || !strings.Contains(c.Message, "and 98 more") {
		t.Errorf("Ready has a message of %d bytes: %s", len(c.Message), c.Message)
	}
}

func TestAConditionKeepsItsTransitionTimeWhileItsStatusStays(t *testing.T) {
	in := one()
	in.Store.Status = status.Of(in)
	in.Now = in.Now.Add(time.Hour)
	fail(&in, "shard")
	s := status.Of(in)
	if at := meta.FindStatusCondition(s.Conditions,
		v1alpha1.ConditionPaused).LastTransitionTime; !at.Time.Equal(time.Unix(1000,
		0)) {
		t.Errorf("Paused has changed at %s, and it has not", at)
	}
	if at := meta.FindStatusCondition(s.Conditions,
		v1alpha1.ConditionReady).LastTransitionTime; !at.Time.Equal(in.Now) {
		t.Errorf("Ready has changed at %s, want now", at)
	}
}

// TestAClaimThatIsBeingDeletedShowsWithItsPodAndNode: Ready stays True, since the pod serves, and the next restart
// takes the volume.
func TestAClaimThatIsBeingDeletedShowsWithItsPodAndNode(t *testing.T) {
	in := one()
	i := slices.IndexFunc(in.Pods, func(p corev1.Pod) bool {
		return p.Labels[plan.LabelComponent] == plan.ComponentShard
	})
	in.Pods[i].Name, in.Pods[i].Labels[plan.LabelShard], in.Pods[i].Spec.NodeName = "s-here-shard-0-0", "0", "n2"
	at := metav1.NewTime(time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC))
	in.Claims = []corev1.PersistentVolumeClaim{
		{ObjectMeta: metav1.ObjectMeta{Name: "data-s-here-shard-0-0", Labels: in.Pods[i].Labels}},
	}
	find := func() *metav1.Condition {
		return meta.FindStatusCondition(status.Of(in).Conditions, v1alpha1.ConditionVolumesKept)
	}
	if c := find(); c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonClaimsKept {
		t.Errorf("%+v", c)
	}
	in.Claims[0].DeletionTimestamp = &at
	c := find()
	if c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonClaimTerminating ||
		!strings.Contains(c.Message,
			"data-s-here-shard-0-0, of pod s-here-shard-0-0 on node n2, since 2026-01-01 11:00 UTC") {
		t.Errorf("%+v", c)
	}
}

package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// executed returns what is observed after a plan was carried out.
func executed(in plan.Observed, p plan.Plan) plan.Observed {
	in.Record, in.StatefulSets, in.Deployments, in.ConfigMaps = &p.Record, nil, nil, nil
	in.Store = in.Store.DeepCopy()
	in.Store.Status.Topology.Epoch = p.Record.Epoch
	for _, o := range p.Apply {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			in.StatefulSets = append(in.StatefulSets, *o.DeepCopy())
		case *appsv1.Deployment:
			in.Deployments = append(in.Deployments, *o.DeepCopy())
		case *corev1.ConfigMap:
			in.ConfigMaps = append(in.ConfigMaps, *o.DeepCopy())
		}
	}
	return in
}

// templates returns the pod templates, a change of which restarts pods.
func templates(t *testing.T, p plan.Plan) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok {
			b, err := json.Marshal(s.Spec.Template)
			if err != nil {
				t.Fatal(err)
			}
			all[s.Name] = string(b)
		}
	}
	return all
}

// restartedBy names the StatefulSets whose pods a change restarts.
func restartedBy(t *testing.T, change func(*plan.Observed)) []string {
	t.Helper()
	in := observed(t, "regions.yaml", "us-east")
	before := planned(t, in)
	in = executed(in, before)
	runPods(&in)
	change(&in)
	was, is := templates(t, before), templates(t, planned(t, in))
	names := []string{}
	for _, s := range in.StatefulSets {
		if was[s.Name] != is[s.Name] {
			names = append(names, s.Name)
		}
	}
	return names
}

var (
	coordinators = []string{"orders-us-east-1-cc"}
	shards       = []string{"orders-us-east-1-shard-0", "orders-us-east-1-shard-1"}
	everything   = append(append([]string{}, coordinators...), shards...)
)

func TestAChangeRestartsOnlyThePodsThatDependOnIt(t *testing.T) {
	spec := func(f func(*v1alpha1.CausalStoreSpec)) func(*plan.Observed) {
		return func(in *plan.Observed) { f(&in.Store.Spec) }
	}
	for _, c := range []struct {
		about  string
		change func(*plan.Observed)
		want   []string
	}{
		{"nothing", func(*plan.Observed) {}, nil},
		{"image", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.Image = "registry.example.com/causalstore:v2"
		}), everything},
		{"storage image", spec(func(s *v1alpha1.CausalStoreSpec) { s.Storage.Image = "redis:8" }), shards},
		{"coordinator memory", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[0].Coordinators.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("3Gi")}
		}), coordinators},
		{"front zones", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[0].Zones.Frontend = []string{"a", "d"}
		}),
			coordinators},
		{"labels of pods", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.Pods.Labels = v1alpha1.Labels{"team": "shop"}
		}), everything},
		{"annotations of pods", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[0].Pods.Annotations = v1alpha1.Annotations{"team": "shop"}
		}), everything},
		{"priority", spec(func(s *v1alpha1.CausalStoreSpec) { s.Pods.PriorityClassName = "important" }), everything},
		{"affinity to nodes", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.Pods.NodeAffinity = []v1alpha1.NodeRequirement{{Key: "spot", Operator: corev1.NodeSelectorOpDoesNotExist}}
		}), everything},
		{"spread", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.Pods.TopologySpreadConstraints = []v1alpha1.SpreadConstraint{{TopologyKey: "rack", MaxSkew: 1,
				WhenUnsatisfiable: corev1.DoNotSchedule}}
		}), everything},
		{"node selector that the data center overrides", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.Pods.NodeSelector = v1alpha1.NodeSelector{"pool": "other"}
		}), nil},
		{"exclusion of a data center", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[1].Exclusions = 1
		}), nil},
		{"pods of another data center", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[1].Pods = v1alpha1.PodSettings{PriorityClassName: "important",
				Labels: v1alpha1.Labels{"team": "shop"}}
		}), nil},
		{"annotations of the service account", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.ServiceAccount.Annotations = v1alpha1.Annotations{"example.com/role": "reader"}
		}), nil},
		{"placement", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.Placement = v1alpha1.PlacementSingleZone
		}), everything},
		{"the default placement, named", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.Placement = v1alpha1.PlacementZones
		}), nil},
		{"room for data", spec(func(s *v1alpha1.CausalStoreSpec) { s.Storage.Volume.Size = "99Gi" }), nil},
		{"room for logs", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[0].Coordinators.Volume.Size = "99Gi"
		}), coordinators},
		{"no near copies, named", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.NearCopies = &v1alpha1.NearCopies{MaxBytes: "0"}
		}), nil},
		{"near copies", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.NearCopies = &v1alpha1.NearCopies{MaxBytes: "8Mi"}
		}), coordinators},
		{"reads", spec(func(s *v1alpha1.CausalStoreSpec) { s.Session.Reads = v1alpha1.ReadsLatest }), coordinators},
		{"pause, deletion policy, access", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.Paused, s.DeletionPolicy, s.Access = true, v1alpha1.DeletionDelete, v1alpha1.Access{}
		}), nil},
		{"shards, here and elsewhere", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[0].Shards, s.DataCenters[1].Shards = 3, 3
		}), nil},
		{"coordinators, here and elsewhere", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[0].Coordinators.Replicas, s.DataCenters[1].Coordinators.Replicas = 3, 3
		}), nil},
		{"fewer coordinators", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[0].Coordinators.Replicas = 1
		}), nil},
		{"another region", spec(func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[1].Coordinators.Volume.Size, s.DataCenters[1].Edge.Address = "9Gi", "other.example.com:1"
		}), nil},
		{"asked to", func(in *plan.Observed) {
			in.Store.Annotations = map[string]string{plan.AnnotationRestart: "now"}
		},
			everything},
	} {
		t.Run(c.about, func(t *testing.T) {
			if d := cmp.Diff(append([]string{}, c.want...), restartedBy(t, c.change)); d != "" {
				t.Errorf("restarted (-want +got):\n%s", d)
			}
		})
	}
}

func TestAnUpgradeOfTheOperatorRestartsNothing(t *testing.T) {
	for _, file := range []struct{ name, region string }{{"one.yaml", "local"}, {"regions.yaml", "us-east"}} {
		in := observed(t, file.name, file.region)
		before := planned(t, in)
		in = executed(in, before)
		in.Image = "causalstore:newer"
		// An older version has built other templates than this one.
		for i := range in.StatefulSets {
			s := &in.StatefulSets[i]
			s.Spec.Template.Spec.TerminationGracePeriodSeconds = nil
			b, err := json.Marshal(s.Spec.Template)
			if err != nil {
				t.Fatal(err)
			}
			s.Annotations["causalstore.io/template"] = string(b)
		}
		old := map[string]string{}
		for _, s := range in.StatefulSets {
			old[s.Name] = s.Annotations["causalstore.io/template"]
		}
		if d := cmp.Diff(old, templates(t, planned(t, in))); d != "" {
			t.Errorf("%s: pods would restart (-old +new operator):\n%s", file.name, d)
		}
	}
}

// Before the number of coordinators could change, it was one of the inputs of their pods. The digest is one that such
// an operator has written for regions.yaml.
func TestPodsOfOperatorsThatCountedCoordinatorsDoNotRestart(t *testing.T) {
	in := observed(t, "regions.yaml", "us-east")
	in = executed(in, planned(t, in))
	cc := &in.StatefulSets[0]
	cc.Annotations["causalstore.io/inputs"], cc.Spec.Template.Annotations["causalstore.io/inputs"] = "947b2069f4e9a8eb",
		"947b2069f4e9a8eb"
	b, err := json.Marshal(cc.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	cc.Annotations["causalstore.io/template"] = string(b)
	runPods(&in)
	old := string(b)
	for _, n := range []int32{2, 3} {
		in.Store.Spec.DataCenters[0].Coordinators.Replicas = n
		p := planned(t, in)
		if d := cmp.Diff(old, templates(t, p)[cc.Name]); d != "" {
			t.Errorf("with %d coordinators pods would restart (-old +new operator):\n%s", n, d)
		}
		in = executed(in, p)
		runPods(&in)
	}
	if n := *in.StatefulSets[0].Spec.Replicas; n != 3 {
		t.Errorf("there are %d replicas, want 3", n)
	}
}

func TestAForeignChangeOfAPodTemplateIsReverted(t *testing.T) {
	in := observed(t, "one.yaml", "local")
	before := planned(t, in)
	in = executed(in, before)
	in.StatefulSets[0].Spec.Template.Spec.Containers[0].Image = "evil"
	if d := cmp.Diff(templates(t, before), templates(t, planned(t, in))); d != "" {
		t.Errorf("the change was not reverted (-planned +now):\n%s", d)
	}
}

func TestTheEpochGrowsWithTheLayoutAndNeverFalls(t *testing.T) {
	in := observed(t, "regions.yaml", "us-east")
	first := planned(t, in)
	if first.Record.Epoch != 1 {
		t.Fatalf("a new store starts with epoch %d, want 1", first.Record.Epoch)
	}
	in = executed(in, first)
	in.Store.Spec.Image = "other"
	if e := planned(t, in).Record.Epoch; e != 1 {
		t.Errorf("with another image the epoch is %d, want 1: the layout is the same", e)
	}
	in.Store.Spec.DataCenters[1].Caches.Replicas = 2
	second := planned(t, in)
	if second.Record.Epoch != 2 || second.Record.RestartEpoch != 1 {
		t.Errorf("with another number of caches the epoch is %d, want 2, and the restart epoch %d, want 1",
			second.Record.Epoch, second.Record.RestartEpoch)
	}
	in = executed(in, second)
	in.Record = nil
	if e := planned(t, in).Record.Epoch; e != 3 {
		t.Errorf("without its record, a store that has had epoch 2 gets %d, want 3: the layout may differ", e)
	}
}

func TestTheRecordSurvivesBeingWrittenAndRead(t *testing.T) {
	p := planned(t, observed(t, "regions.yaml", "us-east"))
	got, err := plan.ReadRecord(named[*corev1.ConfigMap](t, p, plan.RecordName("orders", "us-east")))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p.Record, *got); d != "" {
		t.Errorf("(-written +read)\n%s", d)
	}
	old := named[*corev1.ConfigMap](t, p, plan.RecordName("orders", "us-east"))
	old.Data["epoch"], old.Data["since"] = "4", ""
	if got, err := plan.ReadRecord(old); err != nil || got.RestartEpoch != 4 {
		t.Errorf("a record from before shards could change: %+v (%v), want restart epoch 4, and no restarts", got, err)
	}
	delete(old.Data, "served.json")
	if got, err := plan.ReadRecord(old); err != nil || got.ServedCoordinators("us-east-1") != 2 {
		t.Errorf("a record from before coordinators could change: %+v (%v), want that both have served", got, err)
	}
	old.Data["served.json"] = "some"
	if _, err := plan.ReadRecord(old); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a damaged record: %v", err)
	}
	last, err := got.LastSpec()
	if err != nil || last.DataCenters[0].Name != "us-east-1" {
		t.Errorf("the last spec is %+v (%v)", last, err)
	}
}

func claim(name, size string) corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{}
	c.Name, c.Spec.Resources.Requests = name, corev1.ResourceList{"storage": resource.MustParse(size)}
	return c
}

func TestVolumesGrowAroundTheirPods(t *testing.T) {
	in := observed(t, "regions.yaml", "us-east")
	in = executed(in, planned(t, in))
	in.Claims = []corev1.PersistentVolumeClaim{claim("data-orders-us-east-1-shard-0-0", "10Gi"),
		claim("data-orders-us-east-1-shard-1-0", "20Gi"),
		claim("data-orders-us-east-1-cc-0", "5Gi"), claim("data-orders-us-east-1-cc-x", "1Gi")}
	if p := planned(t, in); len(p.GrowClaims) > 0 || len(p.Recreate) > 0 {
		t.Fatalf("the spec has not changed, but %v grow and %v are recreated", p.GrowClaims, p.Recreate)
	}
	in.Store.Spec.Storage.Volume.Size = "20Gi"
	p := planned(t, in)
	if d := cmp.Diff([]plan.ClaimSize{{Claim: "data-orders-us-east-1-shard-0-0", Size: resource.MustParse("20Gi")}},
		p.GrowClaims); d != "" {
		t.Errorf("claims that grow (-want +got):\n%s", d)
	}
	if d := cmp.Diff(shards, p.Recreate); d != "" {
		t.Errorf("recreated (-want +got):\n%s", d)
	}
}

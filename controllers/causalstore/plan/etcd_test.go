package plan_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/etcd"
)

// withEtcd returns the input of a plan for a store with an etcd whose authority exists.
func withEtcd(t *testing.T) plan.Observed {
	t.Helper()
	in := observed(t, "members.yaml", "local")
	in.EtcdImage, in.EtcdBundles = "etcd:operator", map[string]string{"here": "0011223344556677"}
	return in
}

// ofEtcd returns the kinds and names of the objects of an etcd.
func ofEtcd(p plan.Plan) (names []string) {
	for _, o := range p.Apply {
		if plan.IsOfEtcd(o) {
			names = append(names, o.GetName())
		}
	}
	return names
}

func TestTheObjectsOfMembersAndTheirEtcdMatchTheGoldenFiles(t *testing.T) {
	for file, part := range map[string]string{"members.yaml.golden": plan.ComponentCoordinator,
		"shardmembers.yaml.golden": plan.ComponentShard} {
		in := withEtcd(t)
		if part == plan.ComponentShard {
			in.Store.Spec.Storage.Replicas, in.Store.Spec.DataCenters[0].Coordinators.Members = 2, 1
		}
		var out bytes.Buffer
		for _, o := range planned(t, in).Apply {
			if plan.IsOfEtcd(o) && part == plan.ComponentCoordinator || o.GetLabels()[plan.LabelComponent] == part ||
				o.GetName() == "try-here" {
				write(t, &out, o)
			}
		}
		golden := filepath.Join("testdata", file)
		if flag.Lookup("rewrite").Value.String() == "true" {
			if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), out.String()); d != "" {
			t.Errorf("the plan differs from %s (-want +got); run with -rewrite if this is intended:\n%s", file, d)
		}
	}
}

func TestWithoutSeveralMembersThereIsNoEtcd(t *testing.T) {
	in := withEtcd(t)
	in.Store.Spec.DataCenters[0].Coordinators.Members = 1
	if names := ofEtcd(planned(t, in)); len(names) > 0 || len(plan.EtcdCertificates(in)) > 0 {
		t.Errorf("with one member, there are %v", names)
	}
	in = withEtcd(t)
	in.Store.Spec.DataCenters[0].Etcd.Endpoints, in.Store.Spec.DataCenters[0].Etcd.SecretName = []string{
		"https://etcd.example.com:2379",
	}, "etcd"
	if names := ofEtcd(planned(t, in)); len(names) > 0 || len(plan.EtcdCertificates(in)) > 0 {
		t.Errorf("with an etcd of somebody else, there are %v", names)
	}
}

func TestAnEtcdHasNoPodsWithoutAnImageOrAnAuthority(t *testing.T) {
	for what, change := range map[string]func(*plan.Observed){
		"image":     func(in *plan.Observed) { in.EtcdImage = "" },
		"authority": func(in *plan.Observed) { in.EtcdBundles = nil },
	} {
		in := withEtcd(t)
		change(&in)
		for _, o := range planned(t, in).Apply {
			if _, ok := o.(*appsv1.StatefulSet); ok && plan.IsOfEtcd(o) {
				t.Errorf("there are pods without an %s", what)
			}
		}
	}
	in := withEtcd(t)
	in.EtcdImage, in.EtcdBundles = "", nil
	runs := named[*appsv1.StatefulSet](t, planned(t, withEtcd(t)), "try-here-etcd")
	in.StatefulSets = []appsv1.StatefulSet{*runs}
	if d := cmp.Diff(runs, named[*appsv1.StatefulSet](t, planned(t, in), "try-here-etcd")); d != "" {
		t.Errorf("an operator without an image and the authority changes an etcd that runs (-runs +planned):\n%s", d)
	}
}

// TestWhatRestartsAnEtcd: other authorities do, since it reads them at a start; what only a member without data needs
// does not.
func TestWhatRestartsAnEtcd(t *testing.T) {
	of := func(in plan.Observed, name string) string {
		return named[*appsv1.StatefulSet](t, planned(t, in), name).Spec.Template.Annotations["causalstore.io/inputs"]
	}
	before, cc := of(withEtcd(t), "try-here-etcd"), of(withEtcd(t), "try-here-cc")
	for what, c := range map[string]struct {
		change   func(*plan.Observed)
		restarts bool
	}{
		"another authority": {func(in *plan.Observed) { in.EtcdBundles["here"] = "8899aabbccddeeff" }, true},
		"another image":     {func(in *plan.Observed) { in.EtcdImage = "etcd:next" }, true},
		"that it was founded": {func(in *plan.Observed) {
			in.Record = &plan.Record{Epoch: 1, RestartEpoch: 1, Etcd: map[string]bool{"here": true},
				Image: "causalstore:operator", ID: string(in.Store.UID)}
		}, false},
		"a larger volume": {func(in *plan.Observed) { in.Store.Spec.DataCenters[0].Etcd.Volume.Size = "4Gi" }, false},
		"another binding": {func(in *plan.Observed) { in.Store.Spec.Binding = "Static" }, false},
	} {
		in := withEtcd(t)
		c.change(&in)
		if restarts := of(in, "try-here-etcd") != before; restarts != c.restarts {
			t.Errorf("%s: restarts %v", what, restarts)
		}
	}
	in := withEtcd(t)
	in.EtcdBundles["here"] = "8899aabbccddeeff"
	if of(in, "try-here-cc") != cc {
		t.Error("another authority of the etcd restarts coordinators")
	}
}

func TestAnEtcdIsFoundedOnce(t *testing.T) {
	in := withEtcd(t)
	founded := func() bool {
		t.Helper()
		c, err := etcd.ParseCluster([]byte(named[*corev1.ConfigMap](t, planned(t, in),
			"try-here-etcd").Data[etcd.ClusterFile]))
		if err != nil {
			t.Fatal(err)
		}
		return c.Founded
	}
	if founded() {
		t.Error("a new etcd counts as founded")
	}
	for n := range int32(3) {
		in.Pods = append(in.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: plan.EtcdPodName("try", "here", n),
			Labels: map[string]string{plan.LabelDataCenter: "here", plan.LabelComponent: plan.ComponentEtcd}},
			Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			}})
		if founded() != (n == 2) {
			t.Errorf("with %d of 3 members that serve, founded is %v", n+1, founded())
		}
	}
	p := planned(t, in)
	in.Pods = nil
	in.Record = &p.Record
	if !founded() {
		t.Error("that it was founded is not recorded")
	}
	in.Record, in.ConfigMaps = nil, []corev1.ConfigMap{*named[*corev1.ConfigMap](t, p, "try-here-etcd")}
	if !founded() {
		t.Error("with the record it is forgotten that it was founded")
	}
	in.Record, in.Store.Annotations = &p.Record, map[string]string{plan.AnnotationNewEtcd: "here"}
	if founded() {
		t.Error("a new etcd was asked for")
	}
}

func TestTheVolumesOfAnEtcdStayInItsZones(t *testing.T) {
	in := withEtcd(t)
	in.Claims = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data-try-here-etcd-0",
		Labels: map[string]string{plan.LabelDataCenter: "here", plan.LabelComponent: plan.ComponentEtcd}}}}
	in.VolumeZones = map[string][]string{"data-try-here-etcd-0": {"zc"}}
	if why := plan.MisplacedVolumes(in); len(why) > 0 {
		t.Errorf("refused: %v", why)
	}
	in.Store.Spec.DataCenters[0].Etcd.Zones = nil // za and zb
	if why := plan.MisplacedVolumes(in); len(why) != 1 || !strings.Contains(why[0], "etcd.zones of here must keep zc") {
		t.Errorf("a zone with a volume can be removed: %v", why)
	}
}

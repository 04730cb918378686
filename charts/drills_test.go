package charts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/drill"
	"github.com/causalstore/causalstore/controllers/drill/record"
)

// drilled is a store of three data centers in two rings, and its pods with the labels that the operator gives them.
func drilled() (*drill.Landscape, []corev1.Pod) {
	s := &v1alpha1.CausalStore{}
	s.Name, s.Namespace = "orders", "shop"
	l := &drill.Landscape{Store: s, ZonesKnown: true}
	var pods []corev1.Pod
	add := func(dc, component, name, zone, zones string) {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "orders-" + dc + "-" + name,
			Labels: plan.Labels(s.Name)}}
		p.Labels[plan.LabelDataCenter], p.Labels[plan.LabelComponent] = dc, component
		if p.Labels[plan.LabelZones] = zones; zones == "" {
			delete(p.Labels, plan.LabelZones)
		}
		p.Spec.NodeName = "node-" + zone
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		pods = append(pods, p)
		l.Parts = append(l.Parts, drill.NewPod(s, &p, zone))
	}
	for _, name := range []string{"east", "north", "south"} {
		dc := v1alpha1.DataCenter{Name: name,
			Zones: v1alpha1.Zones{Frontend: []string{name + "-f"}, Backend: []string{name + "-b"}}}
		s.Spec.DataCenters = append(s.Spec.DataCenters, dc)
	}
	s.Spec.Rings = []v1alpha1.Ring{{Name: "one", DataCenters: []string{"east", "north"}},
		{Name: "two", DataCenters: []string{"south"}}}
	for _, dc := range s.Spec.DataCenters {
		front, back := dc.Zones.Frontend[0], dc.Zones.Backend[0]
		add(dc.Name, plan.ComponentCache, "cache-0", front, plan.ZonesFrontend)
		add(dc.Name, plan.ComponentCoordinator, "cc-0", front, plan.ZonesFrontend)
		add(dc.Name, plan.ComponentEdge, "edge-x1", front, plan.ZonesFrontend)
		add(dc.Name, plan.ComponentEtcd, "etcd-0", dc.Name+"-third", "")
		add(dc.Name, plan.ComponentShard, "shard-0-0", back, plan.ZonesBackend)
		add(dc.Name, plan.ComponentShard, "shard-1-0", back, plan.ZonesBackend)
	}
	other := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "other-north-shard-0-0",
		Labels: plan.Labels("other")}}
	other.Labels[plan.LabelDataCenter], other.Labels[plan.LabelComponent], other.Labels[plan.LabelZones] = "north",
		plan.ComponentShard, plan.ZonesBackend
	operator := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "causalstore-system", Name: "causalstore-0",
		Labels: map[string]string{plan.LabelName: "causalstore-operator"}}}
	l.Operators = []drill.Pod{{Namespace: operator.Namespace, Name: operator.Name, Ready: true}}
	return l, append(pods, other, operator)
}

// chaosSelector is how Chaos Mesh selects pods.
type chaosSelector struct {
	Namespaces          []string
	LabelSelectors      map[string]string
	ExpressionSelectors []metav1.LabelSelectorRequirement
	Nodes               []string
}

func (c chaosSelector) choose(t *testing.T, pods []corev1.Pod) (names []string) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: c.LabelSelectors,
		MatchExpressions: c.ExpressionSelectors})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if slices.Contains(c.Namespaces, p.Namespace) && s.Matches(labels.Set(p.Labels)) &&
			(len(c.Nodes) == 0 || slices.Contains(c.Nodes, p.Spec.NodeName)) {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	return names
}

// experiment is what the chart and the command have in common.
type experiment struct {
	Kind string
	Spec struct {
		Mode, Action, Direction, Duration, TimeOffset string
		Selector                                      chaosSelector
		Target                                        struct{ Selector chaosSelector }
	}
}

func templateDrill(t *testing.T, set string) (string, error) {
	t.Helper()
	return helm(t, "template", "orders-drill", "causalstore-drills", "--namespace", "shop", "--kube-version",
		kubeVersion, "--set", "store=orders,"+set)
}

// TestTheExperimentsOfTheChartHitTheSamePodsAsTheCommand: the chart selects pods by labels, the command by names. They
// do the same to them.
func TestTheExperimentsOfTheChartHitTheSamePodsAsTheCommand(t *testing.T) {
	choice := drill.Choice{DataCenter: "north"}
	for _, d := range drill.Catalogue() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			l, pods := drilled()
			choice := choice
			switch d.Name {
			case "partition-ring":
				choice.To = "east"
			case "partition-pair":
				choice.To = "south"
			}
			target, err := d.Choose(l, choice)
			if err != nil {
				t.Fatal(err)
			}
			var want, wantTargets []string
			for _, f := range target.Faults {
				for _, p := range f.Victims {
					want = append(want, p.String())
				}
				for _, p := range f.Targets {
					wantTargets = append(wantTargets, p.String())
				}
			}
			out, err := templateDrill(t,
				fmt.Sprintf("drill=%s,dataCenter=north,to=%s,ring={north,east},node=node-north-b", d.Name, choice.To))
			if err != nil {
				t.Fatal(out)
			}
			selectors := 1
			if len(wantTargets) > 0 {
				selectors = 2
			}
			var got, gotTargets []string
			each(t, dropFields(t, out), d.Kinds[0], func(e *experiment) {
				victims := e.Spec.Selector.choose(t, pods)
				if e.Spec.Mode == "one" { // Chaos Mesh chooses one of them, the command the first
					victims = slices.DeleteFunc(victims, func(name string) bool { return name != want[0] })
				}
				got, gotTargets = append(got, victims...), append(gotTargets, e.Spec.Target.Selector.choose(t, pods)...)
				if e.Spec.Duration != "60s" {
					t.Errorf("the experiment lasts %q", e.Spec.Duration)
				}
				for _, s := range []chaosSelector{e.Spec.Selector, e.Spec.Target.Selector}[:selectors] {
					if len(s.Namespaces) != 1 || len(s.LabelSelectors) == 0 {
						// it would hit stores of the same name elsewhere
						t.Errorf("a selector is too wide: %+v", s)
					}
				}
			})
			byCommand := specOf(target.Faults[0].Object(&record.Run{Store: "orders", Namespace: "shop", Drill: d.Name},
				0, time.Minute).Object)
			for _, doc := range strings.Split("\n"+out, "\n---\n")[1:] {
				byChart := map[string]any{}
				if err := yaml.Unmarshal([]byte(doc), &byChart); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(byCommand, specOf(byChart)); diff != "" {
					t.Errorf("besides whom it hits (-command +chart):\n%s", diff)
				}
			}
			for _, names := range []*[]string{&want, &wantTargets, &got, &gotTargets} {
				slices.Sort(*names)
			}
			got = slices.Compact(got) // several experiments may hit the same pods
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pods that are hit (-command +chart):\n%s", diff)
			}
			if diff := cmp.Diff(wantTargets, gotTargets); diff != "" {
				t.Errorf("pods that they are cut off from (-command +chart):\n%s", diff)
			}
		})
	}
}

// dropFields leaves the fields of an experiment, so that others may be there.
func dropFields(t *testing.T, text string) string {
	t.Helper()
	var docs []string
	for _, doc := range strings.Split("\n"+text, "\n---\n") {
		var e experiment
		if err := yaml.Unmarshal([]byte(doc), &e); err != nil {
			t.Fatal(err)
		}
		b, err := yaml.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(b))
	}
	return strings.Join(docs, "\n---\n")
}

// specOf returns the spec of an experiment without whom it hits, as text.
func specOf(o map[string]any) string {
	spec, _ := o["spec"].(map[string]any)
	for _, field := range []string{"selector", "mode", "duration"} {
		delete(spec, field)
	}
	if target, ok := spec["target"].(map[string]any); ok {
		delete(target, "selector")
	}
	b, _ := yaml.Marshal(spec) // maps of strings and numbers
	return string(b)
}

// TestTheScheduleOfTheChartIsThatOfTheCommand: the same rights, the same account, the same job.
func TestTheScheduleOfTheChartIsThatOfTheCommand(t *testing.T) {
	l, _ := drilled()
	d, err := drill.Find("ring-az-b")
	if err != nil {
		t.Fatal(err)
	}
	s := drill.Schedule{Drill: d, Choice: drill.Choice{DataCenter: "north", Ring: "one"}, Cron: "0 10 * * 2",
		Window: "Mon-Fri 09:00-16:00", Settings: drill.DefaultSettings(), Image: "causalstore:v1"}
	s.Settings.Injection = 45 * time.Second // 1m0s and 60s would differ
	objects, err := s.Objects(l.Store)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	for _, o := range objects {
		keep(t, want, o)
	}
	out, err := templateDrill(t,
		"drill=ring-az-b,dataCenter=north,durationSeconds=45,schedule.cron=0 10 * * 2,schedule.window=Mon-Fri "+
			"09:00-16:00,schedule.image=causalstore:v1,schedule.ringName=one")
	if err != nil {
		t.Fatal(out)
	}
	got := map[string]any{}
	for _, doc := range strings.Split("\n"+out, "\n---\n")[1:] {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		keep(t, got, o)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-command +chart):\n%s", diff)
	}
}

// keep adds an object by its kind, without empty fields.
func keep(t *testing.T, all map[string]any, o any) {
	t.Helper()
	b, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := yaml.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	all[fmt.Sprint(m["kind"])] = dropEmpty(m)
}

func dropEmpty(m map[string]any) map[string]any {
	for k, v := range m {
		if v, ok := v.(map[string]any); ok && len(dropEmpty(v)) == 0 {
			delete(m, k)
		}
	}
	return m
}

func TestTheChartOfDrillsRejectsInvalidValues(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", "causalstore-drills", "--kube-version", kubeVersion, "--set",
		"store=orders,drill=az-b,dataCenter=north"); err != nil {
		t.Errorf("lint: %s", out)
	}
	for set, says := range map[string]string{
		"dataCenter=north":                   "/drill",
		"drill=az-x,dataCenter=north":        "/drill",
		"drill=az-b":                         "drill az-b needs the value dataCenter",
		"drill=partition-pair,dataCenter=n":  "drill partition-pair needs the value to",
		"drill=ring-az-f":                    "drill ring-az-f needs the value ring",
		"drill=rack":                         "drill rack needs the value node",
		"drill=az-b,durationSeconds=4000":    "/durationSeconds",
		"drill=az-b,schedule.cron=hourly":    "/schedule/cron",
		"drill=az-b,schedule.cron=0 1 * * 2": "/schedule/image",
		"drill=az-b,datacenter=north":        "datacenter",
	} {
		out, err := templateDrill(t, set)
		if err == nil || !strings.Contains(out, says) {
			t.Errorf("--set %s: %v, want an error that names %s:\n%s", set, err, says, out)
		}
	}
	if out, err := helm(t, "template", "x", "causalstore-drills", "--kube-version", kubeVersion, "--set",
		"drill=operator"); err == nil || !strings.Contains(out, "/store") {
		t.Errorf("without a store: %v\n%s", err, out)
	}
}

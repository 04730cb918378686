package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

func TestTheZonesOfAVolumeFollowFromItsNodeAffinity(t *testing.T) {
	nodes := map[string]map[string]string{"n1": {"zone": "a", "host": "n1"}, "n2": {"zone": "b", "host": "n2"},
		"n3": {"zone": "b", "host": "n3"}}
	in := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn,
				Values: values}},
		}
	}
	for name, c := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  []string
	}{
		"anywhere": {nil, nil},
		"one zone": {[]corev1.NodeSelectorTerm{in("zone", "c")}, []string{"c"}},
		"two zones": {[]corev1.NodeSelectorTerm{in("zone", "c"), in("zone", "a")},
			[]string{"a", "c"}},
		"the disk of a node":           {[]corev1.NodeSelectorTerm{in("host", "n2")}, []string{"b"}},
		"the disk of a node that died": {[]corev1.NodeSelectorTerm{in("host", "n9")}, nil},
	} {
		got := plan.VolumeZones(&corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: c.terms}},
			"zone", nodes)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if got := plan.VolumeZones(nil, "zone", nodes); got != nil {
		t.Errorf("a volume without affinity: %v", got)
	}
}

func TestOnlyVolumesOfPartsThatStayHoldTheirZone(t *testing.T) {
	in := observed(t, "one.yaml", "local") // zones za and zb, one coordinator, one shard
	add := func(name, component, shard, zone string) *corev1.PersistentVolumeClaim {
		c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			plan.LabelDataCenter: "here", plan.LabelComponent: component}}}
		if shard != "" {
			c.Labels[plan.LabelShard] = shard
		}
		if in.VolumeZones == nil {
			in.VolumeZones = map[string][]string{}
		}
		in.Claims, in.VolumeZones[name] = append(in.Claims, c), []string{zone}
		return &in.Claims[len(in.Claims)-1]
	}
	add("data-try-here-shard-0-0", plan.ComponentShard, "0", "zb")
	add("data-try-here-cc-1", plan.ComponentCoordinator, "", "elsewhere") // it has left
	add("data-try-here-shard-1-0", plan.ComponentShard, "1", "elsewhere") // it has left
	add("backup", plan.ComponentShard, "0", "elsewhere")
	add("data-try-here-cc-0", plan.ComponentCoordinator, "", "elsewhere").DeletionTimestamp = &metav1.Time{}
	if why := plan.MisplacedVolumes(in); len(why) > 0 {
		t.Error(why)
	}
	in.Claims[4].DeletionTimestamp = nil
	if why := plan.MisplacedVolumes(in); len(why) != 1 ||
		!strings.Contains(why[0], "zones.frontend of here must keep elsewhere") {
		t.Error(why)
	}
	in.Store.Spec.Placement = v1alpha1.PlacementSingleZone
	if why := plan.MisplacedVolumes(in); len(why) > 0 {
		t.Errorf("in a store without zones: %s", why)
	}
}

package drill

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/causalstore/causalstore/controllers/drill/record"
)

// Chaos Mesh's API.
var chaosAPI = schema.GroupVersion{Group: "chaos-mesh.org", Version: "v1alpha1"}

// Kinds of experiments, and the one that holds what is done to the network of a pod.
const (
	KindPod        = "PodChaos"
	KindNetwork    = "NetworkChaos"
	KindTime       = "TimeChaos"
	KindIO         = "IOChaos"
	KindPodNetwork = "PodNetworkChaos"
	KindPodIO      = "PodIOChaos"
)

// ChaosKinds are the kinds of Chaos Mesh that drills use, for clients that do not discover them.
func ChaosKinds() (kinds []schema.GroupVersionKind) {
	for _, k := range []string{KindPod, KindNetwork, KindTime, KindIO, KindPodNetwork, KindPodIO} {
		kinds = append(kinds, chaosAPI.WithKind(k))
	}
	return kinds
}

// Fault is one experiment. Pods are named one by one, so that it never hits one that was not shown before.
type Fault struct {
	Kind string
	// What is a part of the name of the experiment.
	What    string
	Victims []Pod
	// Targets are those that victims are cut off from: NetworkChaos only.
	Targets []Pod
	// Offset is that of a clock: TimeChaos only.
	Offset time.Duration
	// Container and VolumePath are what is hit: TimeChaos and IOChaos only.
	Container, VolumePath string
	// Errno is what writes fail with: IOChaos only.
	Errno int64
}

// Object returns the experiment. It ends by itself after a duration.
func (f Fault) Object(r *record.Run, n int, duration time.Duration) *unstructured.Unstructured {
	spec := map[string]any{"mode": "all", "duration": duration.String(), "selector": selector(f.Victims)}
	switch f.Kind {
	case KindPod:
		spec["action"] = "pod-failure"
	case KindNetwork:
		spec["action"], spec["direction"] = "partition", "both"
		spec["target"] = map[string]any{"mode": "all", "selector": selector(f.Targets)}
	case KindTime:
		spec["timeOffset"], spec["containerNames"] = f.Offset.String(), []any{f.Container}
	case KindIO:
		spec["action"], spec["errno"], spec["percent"] = "fault", f.Errno, int64(100)
		spec["volumePath"], spec["path"], spec["containerNames"] = f.VolumePath, f.VolumePath+"/**/*",
			[]any{f.Container}
		spec["methods"] = []any{"WRITE", "FSYNC", "CREATE", "TRUNCATE"}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(chaosAPI.WithKind(f.Kind))
	o.SetNamespace(r.Namespace)
	o.SetName(fmt.Sprintf("%s%s-%d-%s", experimentPrefix(r.Store), r.ID, n, f.What))
	o.SetLabels(record.Labels(r.Store, r.Drill, r.ID))
	return o
}

// experimentPrefix begins the names of all experiments of a store.
func experimentPrefix(store string) string { return store + "-drill-" }

// selector names pods one by one.
func selector(pods []Pod) map[string]any {
	byNamespace := map[string][]string{}
	for _, p := range pods {
		byNamespace[p.Namespace] = append(byNamespace[p.Namespace], p.Name)
	}
	named := map[string]any{}
	for namespace, names := range byNamespace {
		slices.Sort(names)
		all := make([]any, len(names))
		for i, n := range names {
			all[i] = n
		}
		named[namespace] = all
	}
	return map[string]any{"pods": named}
}

// chaosCondition reports whether a condition of an experiment is True.
func chaosCondition(o *unstructured.Unstructured, name string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == name {
			return c["status"] == string(metav1.ConditionTrue)
		}
	}
	return false
}

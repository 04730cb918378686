package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// DescribePending describes, for people, what carrying out a plan would change. A paused store shows it.
func DescribePending(in Observed, p Plan) (texts []string) {
	if fields := changedFields(in); len(fields) > 0 {
		texts = append(texts, "spec."+strings.Join(fields, ", spec."))
	}
	created, changed := changedStatefulSets(in, p)
	if len(created) > 0 {
		texts = append(texts, "StatefulSets to create: "+strings.Join(created, ", "))
	}
	if len(changed) > 0 {
		texts = append(texts, "StatefulSets to change: "+strings.Join(changed, ", "))
	}
	if edges := changedEdges(in, p); len(edges) > 0 {
		texts = append(texts, "Deployments of edges to create or change: "+strings.Join(edges, ", "))
	}
	if n := p.Rollout.Outdated; n > 0 {
		texts = append(texts, podCount(n)+" to restart")
	}
	for _, s := range []string{p.Scaling.String(), p.Resharding.String()} {
		if s != "" {
			texts = append(texts, s)
		}
	}
	return texts
}

// changedFields returns the fields of the spec that differ from the last spec that was applied. The pause itself does
// not count.
func changedFields(in Observed) (fields []string) {
	last, err := in.Record.LastSpec()
	if err != nil || last == nil {
		return nil
	}
	is, was := jsonFields(in.Store.Spec), jsonFields(last)
	all := maps.Clone(is)
	maps.Copy(all, was)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != "paused" && !reflect.DeepEqual(is[name], was[name]) {
			fields = append(fields, name)
		}
	}
	return fields
}

func jsonFields(spec any) map[string]any {
	b, err := json.Marshal(spec)
	if err != nil {
		panic(err) // unreachable: a spec that was read can be encoded
	}
	fields := map[string]any{}
	if err := json.Unmarshal(b, &fields); err != nil {
		panic(fmt.Sprintf("decode what was encoded: %v", err))
	}
	return fields
}

// changedStatefulSets returns the StatefulSets that the plan adds, and those whose pods it changes.
func changedStatefulSets(in Observed, p Plan) (created, changed []string) {
	for _, o := range p.Apply {
		want, ok := o.(*appsv1.StatefulSet)
		if !ok {
			continue
		}
		is := findStatefulSet(in.StatefulSets, want.Name)
		switch {
		case is == nil:
			created = append(created, want.Name)
		case is.Annotations[annotationInputs] != want.Annotations[annotationInputs] || is.Spec.Replicas == nil ||
			*is.Spec.Replicas != *want.Spec.Replicas:
			changed = append(changed, want.Name)
		}
	}
	return created, changed
}

// changedEdges returns the Deployments of edges that do not exist, or whose pods would be replaced.
func changedEdges(in Observed, p Plan) (names []string) {
	for _, o := range p.Apply {
		d, ok := o.(*appsv1.Deployment)
		if !ok {
			continue
		}
		i := slices.IndexFunc(in.Deployments, func(is appsv1.Deployment) bool { return is.Name == d.Name })
		if i < 0 || *d.Spec.Replicas != *in.Deployments[i].Spec.Replicas ||
			!equality.Semantic.DeepDerivative(d.Spec.Template, in.Deployments[i].Spec.Template) {
			names = append(names, d.Name)
		}
	}
	return names
}

package drill

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/drill/record"
)

// forceFinalizer is the annotation with the value "forced" that makes Chaos Mesh remove the finalizer of an experiment
// that it cannot recover.
const forceFinalizer = "chaos-mesh.chaos-mesh.org/cleanFinalizer"

// heal ends the experiments, looks for what they left behind, and waits until canaries in all data centers, the pods
// and the store say that all is well. The status of experiments proves nothing: a pod that restarted while its packets
// were dropped can go on dropping them.
func (x *Runner) heal(ctx context.Context) {
	x.begin(record.Healing)
	defer x.end()
	for _, o := range x.experiments {
		if err := x.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			x.note("delete %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	x.awaitExperimentsGone(ctx)
	x.findRemains(ctx)
	if len(x.experiments) == 0 {
		x.healed = true // nothing was injected
		return
	}
	if x.awaitHealthy(ctx) {
		return
	}
	if x.findRestarted(ctx); x.Settings.RemoveLeftovers {
		x.awaitHealthy(ctx)
	}
}

// until looks at the canaries and at a condition until that holds, or the time is up.
func (x *Runner) until(ctx context.Context, limit time.Duration, holds func(context.Context) bool) bool {
	held := false
	// without rules only ctx ends it
	_ = x.watch(ctx, limit, nil, func(ctx context.Context) bool { held = holds(ctx); return held })
	return held
}

// awaitExperimentsGone waits until no experiment exists. One that Chaos Mesh cannot recover keeps its finalizer.
func (x *Runner) awaitExperimentsGone(ctx context.Context) {
	gone := func(ctx context.Context) bool { return len(x.experimentsLeft(ctx)) == 0 }
	if x.until(ctx, x.Settings.HealTimeout, gone) {
		return
	}
	for _, o := range x.experimentsLeft(ctx) {
		l := record.Leftover{Object: o.GetKind() + "/" + o.GetName(),
			What: fmt.Sprintf("not gone %s after it was deleted, finalizers %s: %s", x.Settings.HealTimeout,
				strings.Join(o.GetFinalizers(), ", "), lastMessage(o)),
			Remedy: fmt.Sprintf("kubectl -n %s annotate %s %s %s=forced", o.GetNamespace(),
				strings.ToLower(o.GetKind()), o.GetName(), forceFinalizer)}
		if x.Settings.RemoveLeftovers {
			body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"forced"}}}`, forceFinalizer)
			if err := x.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType,
				body)); client.IgnoreNotFound(err) != nil {
				x.note("remove the finalizer of %s: %v", l.Object, err)
			} else {
				l.Removed = x.until(ctx, x.Settings.HealTimeout, func(ctx context.Context) bool {
					return apierrors.IsNotFound(x.Client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()))
				})
			}
		}
		x.leftover(l)
	}
}

// experimentsLeft are the experiments that exist. One that cannot be read counts.
func (x *Runner) experimentsLeft(ctx context.Context) (left []*unstructured.Unstructured) {
	for _, o := range x.experiments {
		live := o.DeepCopy()
		if err := x.Client.Get(ctx, client.ObjectKeyFromObject(o), live); !apierrors.IsNotFound(err) {
			left = append(left, live)
		}
	}
	return left
}

func (x *Runner) leftover(l record.Leftover) {
	x.run.Leftovers = append(x.run.Leftovers, l)
	state := "it can be removed with: " + l.Remedy
	if l.Removed {
		state = "removed"
	}
	x.note("left behind: %s: %s; %s", l.Object, l.What, state)
}

// touched are the pods that experiments name.
func (x *Runner) touched() (pods []Pod) {
	for _, f := range x.pre.Target.Faults {
		pods = append(pods, f.Victims...)
		pods = append(pods, f.Targets...)
	}
	return sortPods(pods)
}

// remainFields are the lists of what Chaos Mesh does to a pod, each entry with the experiment that it is of.
var remainFields = map[string][]string{KindPodNetwork: {"iptables", "ipsets", "tcs"}, KindPodIO: {"actions"}}

// findRemains finds what experiments that are gone still do to pods.
func (x *Runner) findRemains(ctx context.Context) {
	for _, kind := range []string{KindPodNetwork, KindPodIO} {
		var find []Pod
		if slices.ContainsFunc(x.pre.Target.Faults, func(f Fault) bool {
			return f.Kind == strings.TrimPrefix(kind, "Pod")
		}) {
			find = x.touched()
		}
		for _, p := range find {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(chaosAPI.WithKind(kind))
			if err := x.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: p.Name}, o); err != nil {
				continue // most pods have none; whether all is well, canaries say
			}
			n, left := removeRules(o, x.isOurs)
			if n == 0 {
				if left == 0 { // Chaos Mesh does not delete it
					x.removeInert(ctx, Remainder{Object: o, Kind: kind})
				}
				continue
			}
			l := record.Leftover{Object: kind + "/" + p.Name,
				What: fmt.Sprintf("has %d rules of an experiment that is gone", n),
				Remedy: fmt.Sprintf("kubectl -n %s edit %s %s, and remove the entries of %s", p.Namespace,
					strings.ToLower(kind), p.Name, x.run.ID)}
			if x.Settings.RemoveLeftovers {
				if err := x.Client.Update(ctx, o); err != nil {
					x.note("remove the rules of %s: %v", l.Object, err)
				} else {
					l.Removed = true
				}
			}
			x.leftover(l)
		}
	}
}

// isOurs reports whether an experiment, as rules name it, is of this run.
func (x *Runner) isOurs(source string) bool {
	return slices.ContainsFunc(x.experiments, func(e *unstructured.Unstructured) bool {
		return source == e.GetNamespace()+"/"+e.GetName()
	})
}

func (x *Runner) removeInert(ctx context.Context, r Remainder) {
	if err := RemoveRemainders(ctx, x.Client, []Remainder{r}); err != nil {
		x.noteOnce("objects of Chaos Mesh that do nothing are left: %v", err)
	}
}

// awaitHealthy waits until a write of every canary is in every ring, all pods are ready and the store is.
func (x *Runner) awaitHealthy(ctx context.Context) bool {
	waits := ""
	x.healed = x.until(ctx, x.Settings.HealTimeout, func(ctx context.Context) bool {
		waits = x.unhealthy(ctx)
		return waits == ""
	})
	if x.healed {
		x.note("healed: writes of all data centers are in every ring, all pods and the store are ready")
	} else {
		x.note("not healed after %s: %s", x.Settings.HealTimeout, waits)
	}
	return x.healed
}

// unhealthy returns what is not well, or "".
func (x *Runner) unhealthy(ctx context.Context) string {
	for _, id := range x.watched {
		if _, ok := x.judge.completeAfter(x.faultsEnded, id); !ok && !x.stopped(id) {
			return "no write of " + id.String() + " is in every ring since the faults ended"
		}
	}
	s := &v1alpha1.CausalStore{}
	if err := x.Client.Get(ctx, client.ObjectKeyFromObject(x.pre.Landscape.Store), s); err != nil {
		return err.Error()
	}
	l, err := Look(ctx, x.Client, s)
	if err != nil {
		return err.Error()
	}
	for _, p := range x.pre.Landscape.Parts {
		i := slices.IndexFunc(l.Parts, func(n Pod) bool { return n.Name == p.Name })
		if isReplaced := p.Component == plan.ComponentEdge; p.Ready && (i < 0 || !l.Parts[i].Ready) && !isReplaced {
			return "pod " + p.String() + " is not ready"
		}
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != "True" {
		if was := meta.FindStatusCondition(x.pre.Landscape.Store.Status.Conditions,
			v1alpha1.ConditionReady); was != nil && was.Status == "True" {
			return "the store is not ready"
		}
	}
	return ""
}

// findRestarted finds pods that restarted, or were replaced, while packets of theirs were dropped: Chaos Mesh does not
// always take the rules back (its issue 4827).
func (x *Runner) findRestarted(ctx context.Context) {
	if !slices.ContainsFunc(x.pre.Target.Faults, func(f Fault) bool { return f.Kind == KindNetwork }) {
		return
	}
	l, err := Look(ctx, x.Client, x.pre.Landscape.Store)
	if err != nil {
		x.note("the pods cannot be read: %v", err)
		return
	}
	for _, p := range x.touched() {
		i := slices.IndexFunc(l.Parts, func(n Pod) bool { return n.Namespace == p.Namespace && n.Name == p.Name })
		if i < 0 || l.Parts[i].UID == p.UID && l.Parts[i].Restarts == p.Restarts {
			continue
		}
		left := record.Leftover{Object: "Pod/" + p.Name,
			What:   "restarted while its packets were dropped, and may go on dropping them (Chaos Mesh issue 4827)",
			Remedy: fmt.Sprintf("kubectl -n %s delete pod %s", p.Namespace, p.Name)}
		if x.Settings.RemoveLeftovers {
			o := &unstructured.Unstructured{}
			o.SetAPIVersion("v1")
			o.SetKind("Pod")
			o.SetNamespace(p.Namespace)
			o.SetName(p.Name)
			if err := x.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
				x.note("delete pod %s: %v", p, err)
			} else {
				left.Removed = true
			}
		}
		x.leftover(left)
	}
}

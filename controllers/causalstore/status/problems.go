package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/diagnose"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// problem is why a pod does not serve.
type problem struct {
	pod   string
	cause diagnose.Cause
}

// Bounds of the problems in the status and of those in a message.
const (
	maxProblems      = 32
	maxProblemsShown = 3
)

// findProblems finds out why pods do not serve. A pod that stops is no problem, unless its node does not answer; nor is
// a coordinator that leaves, unless its containers do not run.
func (v *view) findProblems() {
	isOfEtcd := func(p corev1.Pod) bool { return plan.IsOfEtcd(&p) }
	parts := slices.DeleteFunc(slices.Clone(v.Pods), isOfEtcd)
	etcds := slices.DeleteFunc(slices.Clone(v.Pods), func(p corev1.Pod) bool { return !isOfEtcd(p) })
	v.problems, v.edgeProblems, v.etcdProblems = v.problemsOfPods(parts), v.problemsOfPods(v.EdgePods),
		v.problemsOfPods(etcds)
	v.addUncreated()
}

// addUncreated adds, for each StatefulSet whose pods cannot be made, the first that is missing.
func (v *view) addUncreated() {
	for i := range v.StatefulSets {
		s := &v.StatefulSets[i]
		why := v.Uncreated[s.Name]
		if why == "" {
			continue
		}
		for n := range *s.Spec.Replicas {
			name := fmt.Sprintf("%s-%d", s.Name, n)
			if slices.ContainsFunc(v.Pods, func(p corev1.Pod) bool { return p.Name == name }) {
				continue
			}
			of := &v.problems
			if plan.IsOfEtcd(s) {
				of = &v.etcdProblems
			}
			*of = append(*of, problem{name, diagnose.NotCreated(why)})
			break
		}
	}
}

func (v *view) problemsOfPods(pods []corev1.Pod) (all []problem) {
	for i := range pods {
		p := &pods[i]
		if plan.Ready(p) && p.DeletionTimestamp == nil {
			continue
		}
		var report *contract.Readiness
		if r, ok := v.Reports[p.Name]; ok && r.Err == nil {
			report = &r.Readiness
		}
		c := diagnose.Of(p, report, v.Now)
		if c.Reason == diagnose.ReasonUnschedulable {
			c = v.unscheduled(p, c)
		}
		if c.Reason == diagnose.ReasonTerminating || v.leaving[p.Name] && !c.Lasting {
			continue
		}
		all = append(all, problem{p.Name, c})
	}
	slices.SortFunc(all, func(a, b problem) int { return cmp.Compare(a.pod, b.pod) })
	return all
}

// unscheduled returns why no node takes a pod: the scheduler does not say that of a claim that no volume can be made
// for.
func (v *view) unscheduled(p *corev1.Pod, c diagnose.Cause) diagnose.Cause {
	for _, claim := range diagnose.Claims(p) {
		if why := v.Unbound[claim]; why != "" {
			return diagnose.Unbound(claim, why)
		}
	}
	return c
}

// publicProblems returns the problems as the status has them.
func (v *view) publicProblems() (all []v1alpha1.PodProblem) {
	problems := slices.Concat(v.problems, v.edgeProblems, v.etcdProblems)
	for _, p := range problems[:min(len(problems), maxProblems)] {
		all = append(all, v1alpha1.PodProblem{Pod: p.pod, Reason: string(p.cause.Reason), Message: p.cause.Message})
	}
	return all
}

// problemsOf returns the problems of parts with one of some reasons.
func (v *view) problemsOf(reasons ...diagnose.Reason) []problem {
	return selectProblems(v.problems, reasons)
}

func selectProblems(from []problem, reasons []diagnose.Reason) (all []problem) {
	for _, p := range from {
		if slices.Contains(reasons, p.cause.Reason) {
			all = append(all, p)
		}
	}
	return all
}

// dataLost describes parts whose disks have lost data.
func dataLost(all []problem) string { return "parts whose disks have lost data" + causes(all) }

// stuck reports whether a pod will not serve until somebody changes something.
func (v *view) stuck() bool {
	return slices.ContainsFunc(v.problems, func(p problem) bool { return p.cause.Lasting })
}

// causes describes problems, to be appended to a message. Those that last come first.
func causes(all []problem) string {
	all = slices.DeleteFunc(slices.Clone(all), func(p problem) bool { return p.cause.Message == "" })
	slices.SortStableFunc(all, func(a, b problem) int { return lastingFirst(a) - lastingFirst(b) })
	var b strings.Builder
	for i, p := range all {
		if i == maxProblemsShown {
			fmt.Fprintf(&b, "; and %d more", len(all)-i)
			break
		}
		fmt.Fprintf(&b, "; %s: %s", p.pod, p.cause)
	}
	return b.String()
}

func lastingFirst(p problem) int {
	if p.cause.Lasting {
		return 0
	}
	return 1
}

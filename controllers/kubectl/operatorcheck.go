package kubectl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// operatorLeases returns the lease of the operator of each region that runs here: of those whose data centers the
// status has as here, or of all that the cluster has a lease of. A region without a lease has nil.
func (k *connection) operatorLeases(ctx context.Context, s *v1alpha1.CausalStore) (map[string]*coordinationv1.Lease,
	error) {
	all := map[string]*coordinationv1.Lease{}
	for _, region := range regionsHere(s) {
		var found coordinationv1.LeaseList
		if err := k.List(ctx, &found, client.MatchingFields{"metadata.name": plan.LeaseName(region)}); err != nil {
			return nil, err
		}
		all[region] = nil
		for i := range found.Items {
			if l := &found.Items[i]; all[region] == nil || renewed(l).After(renewed(all[region])) {
				all[region] = l
			}
		}
	}
	return all, nil
}

// regionsHere returns the regions whose data centers are in this cluster, as far as the status says.
func regionsHere(s *v1alpha1.CausalStore) (all []string) {
	for _, dc := range s.Status.DataCenters {
		if dc.Here && !slices.Contains(all, dc.Region) {
			all = append(all, dc.Region)
		}
	}
	return all
}

func renewed(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Time
}

// leaseTolerance is for clocks that differ: by how much longer than its duration a lease may not have been renewed.
const leaseTolerance = 30 * time.Second

// describeLeases says of which regions no operator holds the lease.
func (e *evidence) describeLeases() (lines []string) {
	for _, region := range slices.Sorted(maps.Keys(e.leases)) {
		switch l := e.leases[region]; {
		case l == nil:
			lines = append(lines, fmt.Sprintf("no operator of region %s runs: it has no lease %s", region,
				plan.LeaseName(region)))
		case l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "":
			lines = append(lines, fmt.Sprintf("no operator of region %s runs: its lease %s/%s was given back", region,
				l.Namespace, l.Name))
		default:
			life := leaseTolerance
			if d := l.Spec.LeaseDurationSeconds; d != nil {
				life += time.Duration(*d) * time.Second
			}
			if age := e.now.Sub(renewed(l)); age > life {
				lines = append(lines,
					fmt.Sprintf("no operator of region %s runs: its lease %s/%s was last renewed %s ago", region,
						l.Namespace, l.Name, duration.HumanDuration(age)))
			}
		}
	}
	return lines
}

// readyOperators returns how many pods of operators are ready.
func (e *evidence) readyOperators() (n int) {
	for i := range e.operator {
		if plan.Ready(&e.operator[i]) {
			n++
		}
	}
	return n
}

// operatorAway says why nobody looks at the store now, if that is so. A heartbeat that is not old yet says nothing: an
// operator that is scaled to 0 leaves it as it is.
func (e *evidence) operatorAway() (reasons []string) {
	if stale := describeStaleness(e.store, e.now); stale != "" {
		reasons = append(reasons, stale)
	}
	reasons = append(reasons, e.describeLeases()...)
	switch unread := slices.Contains(e.unread, unreadOperator); {
	case unread:
	case len(e.operator) == 0:
		reasons = append(reasons, "no pod of an operator is in this cluster: it is uninstalled, or scaled to 0")
	case e.readyOperators() == 0:
		reasons = append(reasons, fmt.Sprintf("none of the %d pods of operators is ready", len(e.operator)))
	}
	return reasons
}

func (e *evidence) checkOperator() finding {
	reasons := append(e.operatorAway(), compareWithPods(e.store, e.parts, e.now)...)
	if len(reasons) == 0 {
		if slices.Contains(e.unread, unreadOperator) && slices.Contains(e.unread, unreadLeases) {
			return finding{level: levelNote, subject: "operator",
				text: fmt.Sprintf(
					"it wrote the status %s ago; whether it runs now is not known: you may list neither its pods nor "+
						"its leases", e.statusAge())}
		}
		return finding{level: levelOK, subject: "operator",
			text: fmt.Sprintf("it runs, and wrote the status %s ago", e.statusAge())}
	}
	f := finding{level: levelProblem, subject: "operator", text: strings.Join(reasons, "; "),
		next: []string{"kubectl get pods,deployments --all-namespaces --selector " + plan.LabelName + "=" +
			plan.ManagedBy},
		safe: "restarting or reinstalling the operator at any time; stores serve without it. Everything that comes " +
			"from the status is as old as its heartbeat"}
	switch {
	case slices.Contains(e.unread, unreadOperator):
	case len(e.operator) == 0:
		f.next = append(f.next,
			"scale its Deployment up, or install the chart again, with the same region: helm upgrade --install")
	case e.readyOperators() == 0:
		f.next = append(f.next, fmt.Sprintf("kubectl -n %s describe pod %s", e.operator[0].Namespace,
			e.operator[0].Name))
	default:
		f.text += fmt.Sprintf("; %d of %d pods of operators are ready", e.readyOperators(), len(e.operator))
		f.next = append(f.next, fmt.Sprintf("kubectl -n %s logs %s --tail=50", e.operator[0].Namespace,
			e.operator[0].Name))
	}
	return f
}

// statusAge renders how old the status is.
func (e *evidence) statusAge() string {
	if at := e.store.Status.HeartbeatTime; at != nil {
		return duration.HumanDuration(max(0, e.now.Sub(at.Time)))
	}
	return "an unknown time"
}

// deletionPatience is how long the deletion of a store usually takes at most.
const deletionPatience = time.Minute

// checkDeletion has a finding if the store is being deleted.
func (e *evidence) checkDeletion() []finding {
	s := e.store
	if s.DeletionTimestamp == nil {
		return nil
	}
	age := e.now.Sub(s.DeletionTimestamp.Time)
	f := finding{level: levelNote, subject: "deletion",
		text: fmt.Sprintf("the store is being deleted since %s, and waits for what holds the finalizers %s",
			duration.HumanDuration(age), strings.Join(s.Finalizers, ", ")),
		safe: fmt.Sprintf("waiting. With deletionPolicy %s volumes %s", s.Spec.DeletionPolicy,
			map[bool]string{true: "go with it", false: "stay"}[s.Spec.DeletionPolicy == v1alpha1.DeletionDelete])}
	if others := slices.DeleteFunc(slices.Clone(s.Finalizers), func(f string) bool {
		return f == v1alpha1.Finalizer || f == "foregroundDeletion"
	}); len(others) > 0 {
		f.level, f.next = levelProblem, []string{"ask whoever has set " + strings.Join(others, ", ")}
	}
	if len(e.operatorAway()) > 0 && slices.Contains(s.Finalizers, v1alpha1.Finalizer) {
		f.level = levelProblem
		f.text += "; only the operator removes " + v1alpha1.Finalizer + ", and none runs"
		f.next = append(f.next, "start the operator: it ends the deletion",
			fmt.Sprintf(
				"if there shall be none any more: kubectl -n %s patch causalstore %s --type=merge -p "+
					"'{\"metadata\":{\"finalizers\":null}}'. All volumes stay then, whatever deletionPolicy says",
				s.Namespace, s.Name))
	} else if age > deletionPatience {
		f.level, f.next = levelProblem, append(f.next,
			fmt.Sprintf(
				"kubectl -n %s get pods,persistentvolumeclaims --selector %s=%s: claims wait for their pods, pods "+
					"for their nodes", s.Namespace, plan.LabelInstance, s.Name))
	}
	return []finding{f}
}

// claimsOf returns the claims of a pod of the store that are being deleted.
func (e *evidence) claimsOf(p *corev1.Pod) (ending []string) {
	for _, name := range slices.Sorted(maps.Keys(e.claims)) {
		if c := e.claims[name]; c.DeletionTimestamp != nil && plan.PodOfClaim(c) == p.Name && !e.downs.includes(p) {
			ending = append(ending, name)
		}
	}
	return ending
}

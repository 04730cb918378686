package kubectl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// storePods are the pods of a store in a cluster, and what it takes to say why one does not serve.
type storePods struct {
	parts []corev1.Pod
	downs scaleDowns
	nodes nodes
}

func (k *connection) readStorePods(ctx context.Context, s *v1alpha1.CausalStore) (p storePods, err error) {
	if p.parts, err = k.partPods(ctx, s); err != nil {
		return p, err
	}
	if p.downs, err = k.scaleDowns(ctx, s.Namespace, s.Name); err != nil {
		return p, err
	}
	p.nodes, _, err = k.readNodes(ctx)
	return p, err
}

func (c *cluster) status(cmd *cobra.Command, name string) error {
	k, err := c.connect()
	if err != nil {
		return err
	}
	stores, err := k.listStores(cmd.Context(), name)
	if err != nil {
		return err
	}
	for i := range stores {
		pods, err := k.readStorePods(cmd.Context(), &stores[i])
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := writeStatus(cmd.OutOrStdout(), &stores[i], pods, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// writeStatus writes the state of a store.
func writeStatus(w io.Writer, s *v1alpha1.CausalStore, pods storePods, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 4, 3, ' ', 0)
	fmt.Fprintf(t, "%s/%s: %s\n", s.Namespace, s.Name, describeReady(s, now))
	if len(s.Status.Conditions) == 0 {
		return t.Flush()
	}
	for _, line := range compareWithPods(s, pods.parts, now) {
		fmt.Fprintf(t, "the pods differ from this status: %s\n", line)
	}
	fmt.Fprintf(t, "engine %s, epoch %d, visibility lag %s, clients at %s\n", s.Spec.Storage.Engine,
		s.Status.Topology.Epoch,
		orDash(s.Status.Summary.VisibilityLag), orDash(s.Status.Endpoint))
	if s.Status.ObservedGeneration != s.Generation {
		fmt.Fprintf(t, "the operator has not processed generation %d yet; this is the state of generation %d\n",
			s.Generation,
			s.Status.ObservedGeneration)
	}
	fmt.Fprint(t, "\nRING\tSTATE\tLAG\tSWITCHING\tDATA CENTERS\n")
	for _, r := range s.Status.Rings {
		on := "off"
		if r.DynamicSwitching.Enabled {
			on = "on"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Availability, formatMilliseconds(r.LagMs), on,
			strings.Join(ringMembers(s, r.Name),
				" "))
	}
	fmt.Fprintf(t, "\n%s\n", strings.Join(dataCenterColumns, "\t"))
	for _, d := range s.Status.DataCenters {
		if !d.Here {
			fmt.Fprintf(t, "%s\t%s\telsewhere\n", d.Name, d.Region)
			continue
		}
		fmt.Fprintln(t, strings.Join(dataCenterRow(&d), "\t"))
	}
	writeRows(t, groupColumns, groupRows(s))
	writeRows(t, exclusionColumns, exclusionRows(s))
	writeEdges(t, s)
	writeRows(t, unreadyPodColumns, unreadyPodRows(s, pods, now))
	writeConditions(t, s, now)
	return t.Flush()
}

var dataCenterColumns = []string{"DATA CENTER", "REGION", "COORDINATORS", "CACHES", "SHARDS", "LAG",
	"INCOMPLETE", "IMAGES"}

// dataCenterRow describes a data center of the cluster.
func dataCenterRow(d *v1alpha1.DataCenterStatus) []string {
	incomplete := "-"
	if d.IncompleteWrites != nil {
		incomplete = fmt.Sprint(*d.IncompleteWrites)
	}
	return []string{d.Name, d.Region, formatCount(d.Coordinators), formatCount(d.Caches), formatCount(d.Shards),
		formatMilliseconds(d.StabilityLagMs), incomplete, strings.Join(d.Images, " ")}
}

// writeEdges lists the edges, with the addresses by which other regions are to reach them and those that their Services
// have.
func writeEdges(w io.Writer, s *v1alpha1.CausalStore) {
	writeRows(w, edgeColumns, edgeRows(s))
}

var edgeColumns = []string{"EDGE", "PODS", "ADDRESS", "SERVICE"}

func edgeRows(s *v1alpha1.CausalStore) (rows table) {
	for _, d := range s.Status.DataCenters {
		if d.Edge == nil {
			continue
		}
		address := ""
		for _, dc := range s.Spec.DataCenters {
			if dc.Name == d.Name && dc.Edge != nil {
				address = dc.Edge.Address
			}
		}
		rows.row(d.Name, formatCount(d.Edge.Pods), orDash(address), orDash(d.Edge.Address))
	}
	return rows
}

// readiness is the status of condition Ready, or Unknown if no operator keeps it true.
func readiness(s *v1alpha1.CausalStore, now time.Time) string {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || describeStaleness(s, now) != "" {
		return string(metav1.ConditionUnknown)
	}
	return string(c.Status)
}

// describeReady renders condition Ready, and whether an operator still keeps it true.
func describeReady(s *v1alpha1.CausalStore, now time.Time) string {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "no operator has processed it; install an operator whose region is that of one of its data centers"
	}
	is := "NOT READY, " + c.Message
	if c.Status == metav1.ConditionTrue {
		is = "ready, " + c.Message
	}
	if stale := describeStaleness(s, now); stale != "" {
		return fmt.Sprintf("NOT KNOWN, %s; what follows is what was then: %s", stale, is)
	}
	return is
}

// ringMembers returns the data centers of a ring.
func ringMembers(s *v1alpha1.CausalStore, ring string) []string {
	for _, r := range s.Spec.Rings {
		if r.Name == ring {
			return r.DataCenters
		}
	}
	return nil
}

// formatCount renders ready of desired pods, and how many are up to date if not all are.
func formatCount(c v1alpha1.Count) string {
	text := fmt.Sprintf("%d/%d", c.Ready, c.Desired)
	if c.Updated < c.Desired {
		text += fmt.Sprintf(" (%d updated)", c.Updated)
	}
	return text
}

func formatMilliseconds(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return (time.Duration(*ms) * time.Millisecond).String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// unreadyPod is a pod that does not serve, and why.
type unreadyPod struct {
	pod    *corev1.Pod
	reason string
}

// unready lists the pods that are not ready, or whose node does not answer: the API server notices that late.
func (p storePods) unready(s *v1alpha1.CausalStore, now time.Time) (all []unreadyPod) {
	slices.SortFunc(p.parts, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range p.parts {
		pod := &p.parts[i]
		if node := p.nodes.problem(pod); node != "" {
			all = append(all, unreadyPod{pod, node})
		} else if !plan.Ready(pod) {
			all = append(all, unreadyPod{pod, p.downs.unreadyReason(pod, s, now)})
		}
	}
	return all
}

var unreadyPodColumns = []string{"POD NOT READY", "NODE", "AGE", "REASON"}

func unreadyPodRows(s *v1alpha1.CausalStore, pods storePods, now time.Time) (rows table) {
	for _, u := range pods.unready(s, now) {
		age := now.Sub(u.pod.CreationTimestamp.Time)
		rows.row(u.pod.Name, orDash(u.pod.Spec.NodeName), duration.HumanDuration(age), u.reason)
	}
	return rows
}

// writeConditions lists the conditions that are not as in a healthy, idle store.
func writeConditions(w io.Writer, s *v1alpha1.CausalStore, now time.Time) {
	writeRows(w, conditionColumns, conditionRows(s, now))
}

var conditionColumns = []string{"CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"}

func conditionRows(s *v1alpha1.CausalStore, now time.Time) (rows table) {
	for _, c := range s.Status.Conditions {
		if v1alpha1.HealthyStatus(c.Type) != c.Status || c.Reason == v1alpha1.ReasonPeersVersion {
			rows.row(c.Type, string(c.Status), duration.HumanDuration(now.Sub(c.LastTransitionTime.Time)),
				c.Reason, c.Message)
		}
	}
	return rows
}

// writeRows writes a section of a tabwriter's output; nothing if there are no rows.
func writeRows(w io.Writer, columns []string, rows table) {
	if len(rows) == 0 {
		return
	}
	for _, r := range slices.Concat(table{{""}, columns}, rows) {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
}

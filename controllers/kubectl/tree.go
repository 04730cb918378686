package kubectl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

func (c *cluster) topology(cmd *cobra.Command, name string) error {
	k, err := c.connect()
	if err != nil {
		return err
	}
	s, err := k.findStore(cmd.Context(), name)
	if err != nil {
		return err
	}
	in := topologyView{store: s, now: time.Now()}
	if err := k.readTopology(cmd.Context(), &in); err != nil {
		return err
	}
	return writeTopology(cmd.OutOrStdout(), in)
}

// readTopology reads the parts of a store, their zones and the round trips.
func (k *connection) readTopology(ctx context.Context, in *topologyView) (err error) {
	s := in.store
	if in.parts, err = k.partPods(ctx, s); err != nil {
		return err
	}
	if in.zoneOf, err = k.nodeZones(ctx, s); err != nil {
		return err
	}
	if in.scaleDowns, err = k.scaleDowns(ctx, s.Namespace, s.Name); err != nil {
		return err
	}
	in.trips, in.unmeasured = k.measureRoundTrips(ctx, in.parts)
	return nil
}

// topologyView is what writeTopology draws.
type topologyView struct {
	store *v1alpha1.CausalStore
	parts []corev1.Pod
	// zoneOf is the zone of each node; nil if the user may not list nodes.
	zoneOf     map[string]string
	scaleDowns scaleDowns
	trips      roundTrips
	now        time.Time
	// unmeasured is why some round trips are missing.
	unmeasured error
}

// treeNode is a line of a tree, with its columns and children.
type treeNode struct {
	columns  []string
	children []treeNode
}

// draw adds the children to a table, each line after prefix.
func (b treeNode) draw(to *table, prefix string) {
	for i, t := range b.children {
		connector, indent := "├── ", "│   "
		if i == len(b.children)-1 {
			connector, indent = "└── ", "    "
		}
		to.row(append([]string{prefix + connector + t.columns[0]}, t.columns[1:]...)...)
		t.draw(to, prefix+indent)
	}
}

// writeTopology draws the rings of a store with their data centers, zones and parts.
func writeTopology(w io.Writer, in topologyView) error {
	s := in.store
	fmt.Fprintf(w, "%s/%s: %s\n", s.Namespace, s.Name, describeReady(s, in.now))
	var tree table
	for i := range s.Spec.Rings {
		ring := in.ringNode(&s.Spec.Rings[i])
		tree.row()
		tree.row(ring.columns...)
		ring.draw(&tree, "")
	}
	if err := tree.write(w); err != nil {
		return err
	}
	var dataCenters []string
	for _, dc := range s.Spec.DataCenters {
		dataCenters = append(dataCenters, dc.Name)
	}
	if err := in.trips.write(w, dataCenters); err != nil || in.unmeasured == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nsome round trips are unknown: %v\n", in.unmeasured)
	return err
}

// ringNode draws a ring.
func (in *topologyView) ringNode(r *v1alpha1.Ring) treeNode {
	b := treeNode{columns: []string{"ring " + r.Name}}
	for _, status := range in.store.Status.Rings {
		if status.Name == r.Name {
			b.columns = append(b.columns, string(status.Availability))
			if status.LagMs != nil {
				b.columns = append(b.columns, formatMilliseconds(status.LagMs)+" behind")
			}
		}
	}
	for i := range in.store.Spec.DataCenters {
		if dc := &in.store.Spec.DataCenters[i]; slices.Contains(r.DataCenters, dc.Name) {
			b.children = append(b.children, in.dataCenterNode(dc))
		}
	}
	return b
}

// dataCenterNode draws a data center. One without pods in this cluster belongs to another region, or has not been
// created yet.
func (in *topologyView) dataCenterNode(dc *v1alpha1.DataCenter) treeNode {
	b := treeNode{columns: []string{dc.Name, "region " + dc.Region}}
	desired := []struct {
		component string
		n         int32
		name      string
	}{
		{plan.ComponentCoordinator, dc.Coordinators.Replicas * max(1, dc.Coordinators.Members), "coordinators"},
		{plan.ComponentCache, dc.Caches.Replicas, "caches"},
		{plan.ComponentShard, dc.Shards * max(1, in.store.Spec.Storage.Replicas), "shards"},
	}
	here := in.isHere(dc.Name)
	var counts []string
	for _, d := range desired {
		if !here {
			counts = append(counts, fmt.Sprintf("%d %s", d.n, d.name))
			continue
		}
		counts = append(counts, fmt.Sprintf("%d/%d %s", in.countReady(dc.Name, d.component), d.n, d.name))
	}
	if !here {
		b.columns = append(b.columns, "elsewhere: "+strings.Join(counts, ", "))
		return b
	}
	b.columns = append(b.columns, strings.Join(counts, ", "))
	zones := in.store.Spec.ZonesOf(dc)
	b.children = slices.Concat(in.groupNodes(dc.Name), in.zoneNodes(dc, sideFront, zones.Frontend),
		in.zoneNodes(dc, sideBack, zones.Backend))
	if slices.ContainsFunc(in.parts, func(p corev1.Pod) bool {
		return plan.IsOfEtcd(&p) && p.Labels[plan.LabelDataCenter] == dc.Name
	}) {
		elsewhere := slices.DeleteFunc(slices.Clone(in.store.Spec.EtcdZonesOf(dc)), func(z string) bool {
			return slices.Contains(zones.Frontend, z) || slices.Contains(zones.Backend, z)
		})
		b.children = append(b.children, in.zoneNodes(dc, sideEtcd, elsewhere)...)
	}
	return b
}

// groupNodes draws the groups of members that hold the logs of a data center.
func (in *topologyView) groupNodes(dc string) (all []treeNode) {
	for i := range in.store.Status.DataCenters {
		d := &in.store.Status.DataCenters[i]
		for j := range d.Groups {
			if g := &d.Groups[j]; d.Name == dc {
				columns := []string{fmt.Sprintf("group of %s %d", g.Part, g.Index), "primary: " + formatPrimary(g),
					fmt.Sprintf("epoch %d, members %s", g.Epoch, formatMembers(g))}
				if wrong := describeBehind(g); wrong != "" {
					columns[2] += "; " + wrong
				}
				all = append(all, treeNode{columns: columns})
			}
		}
	}
	return all
}

// The sides of a data center. An etcd has pods on both, and perhaps in zones of its own.
const (
	sideFront = "front"
	sideBack  = "back"
	sideEtcd  = "etcd"
)

// sideOf returns on which side of a data center a pod is drawn: by the zone of its node, where pods of its kind are in
// several.
func (in *topologyView) sideOf(dc *v1alpha1.DataCenter, p *corev1.Pod) string {
	zones, zone := in.store.Spec.ZonesOf(dc), in.zoneOf[p.Spec.NodeName]
	switch {
	case p.Labels[plan.LabelComponent] == plan.ComponentShard || slices.Contains(zones.Backend, zone):
		return sideBack
	case slices.Contains(zones.Frontend, zone):
		return sideFront
	case plan.IsOfEtcd(p) || slices.Contains(in.store.Spec.EtcdZonesOf(dc), zone):
		return sideEtcd
	case plan.Member(p) == 2: // it waits for a node, or its zone has changed
		return sideBack
	}
	return sideFront
}

// isHere reports whether a data center is in this cluster.
func (in *topologyView) isHere(dc string) bool {
	return slices.ContainsFunc(in.parts, func(p corev1.Pod) bool { return p.Labels[plan.LabelDataCenter] == dc }) ||
		slices.ContainsFunc(in.store.Status.DataCenters, func(d v1alpha1.DataCenterStatus) bool {
			return d.Name == dc && d.Here
		})
}

// countReady counts the ready pods of a component. Coordinators that are being removed do not count.
func (in *topologyView) countReady(dc, component string) (n int) {
	for i := range in.parts {
		if p := &in.parts[i]; p.Labels[plan.LabelDataCenter] == dc && p.Labels[plan.LabelComponent] == component &&
			plan.Ready(p) && !in.scaleDowns.includes(p) {
			n++
		}
	}
	return n
}

// zoneNodes draws the zones of one side of a data center with their pods. Pods that are in no zone yet, or whose zone
// is unknown, follow in a node of their own, and so do all pods of a store that uses no zones.
func (in *topologyView) zoneNodes(dc *v1alpha1.DataCenter, side string, names []string) (all []treeNode) {
	rest := treeNode{columns: []string{"not scheduled yet (" + side + ")"}}
	if in.store.Spec.SingleZone() {
		rest.columns[0] = fmt.Sprintf("any node (%s)", side)
	} else if in.zoneOf == nil {
		rest.columns[0] = fmt.Sprintf("zones %s (%s); listing nodes is forbidden", strings.Join(names, ", "), side)
	} else {
		for _, z := range names {
			all = append(all, treeNode{columns: []string{fmt.Sprintf("%s (%s)", z, side)}})
		}
	}
	parts := slices.Clone(in.parts)
	slices.SortFunc(parts, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range parts {
		p := &parts[i]
		if p.Labels[plan.LabelDataCenter] != dc.Name || in.sideOf(dc, p) != side {
			continue
		}
		to := &rest
		if z := slices.Index(names, in.zoneOf[p.Spec.NodeName]); z >= 0 && in.zoneOf != nil {
			to = &all[z]
		}
		to.children = append(to.children, treeNode{columns: []string{p.Name, partName(p), in.describeReadiness(p)}})
	}
	if len(rest.children) > 0 {
		all = append(all, rest)
	}
	return all
}

// partName names the kind of part that a pod runs.
func partName(p *corev1.Pod) string {
	if shard := p.Labels[plan.LabelShard]; shard != "" {
		return "shard " + shard
	}
	return p.Labels[plan.LabelComponent]
}

func (in *topologyView) describeReadiness(p *corev1.Pod) string {
	switch {
	case in.scaleDowns.includes(p) && p.DeletionTimestamp == nil:
		return in.scaleDowns.explain(p)
	case !plan.Ready(p):
		return "NOT READY: " + in.scaleDowns.unreadyReason(p, in.store, in.now)
	}
	return "ready on " + orDash(p.Spec.NodeName)
}

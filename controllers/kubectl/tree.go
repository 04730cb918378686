package kubectl

import (
	"fmt"
	"io"
	"slices"
	"strings"

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
	s, err := k.store(cmd.Context(), name)
	if err != nil {
		return err
	}
	in := picture{store: s}
	if in.parts, err = k.parts(cmd.Context(), s); err != nil {
		return err
	}
	if in.zoneOf, err = k.zones(cmd.Context(), s); err != nil {
		return err
	}
	if in.leaving, err = k.leaving(cmd.Context(), s.Namespace, s.Name); err != nil {
		return err
	}
	in.trips, in.unmeasured = k.roundTrips(cmd.Context(), in.parts)
	return writeTopology(cmd.OutOrStdout(), in)
}

// picture is what a topology is drawn from.
type picture struct {
	store *v1alpha1.CausalStore
	parts []corev1.Pod
	// zoneOf is the zone of each node, nil if nodes must not be looked at.
	zoneOf  map[string]string
	leaving leaving
	trips   trips
	// unmeasured is why round trips are missing.
	unmeasured error
}

// branch is a line of a tree, with columns, and what hangs on it.
type branch struct {
	columns []string
	twigs   []branch
}

// draw adds what hangs on a branch to a table; prefix is what stands before its lines.
func (b branch) draw(to *table, prefix string) {
	for i, t := range b.twigs {
		here, below := "├── ", "│   "
		if i == len(b.twigs)-1 {
			here, below = "└── ", "    "
		}
		to.row(append([]string{prefix + here + t.columns[0]}, t.columns[1:]...)...)
		t.draw(to, prefix+below)
	}
}

// writeTopology draws the rings of a store with their data centres, zones and parts.
func writeTopology(w io.Writer, in picture) error {
	s := in.store
	fmt.Fprintf(w, "%s/%s: %s\n", s.Namespace, s.Name, verdict(s))
	var tree table
	for i := range s.Spec.Rings {
		ring := in.ring(&s.Spec.Rings[i])
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
	_, err := fmt.Fprintf(w, "\nnot all round trips are known: %v\n", in.unmeasured)
	return err
}

func (in *picture) ring(r *v1alpha1.Ring) branch {
	b := branch{columns: []string{"ring " + r.Name}}
	for _, is := range in.store.Status.Rings {
		if is.Name == r.Name {
			b.columns = append(b.columns, string(is.Availability))
			if is.LagMs != nil {
				b.columns = append(b.columns, milliseconds(is.LagMs)+" behind")
			}
		}
	}
	for i := range in.store.Spec.DataCenters {
		if dc := &in.store.Spec.DataCenters[i]; slices.Contains(r.DataCenters, dc.Name) {
			b.twigs = append(b.twigs, in.dataCenter(dc))
		}
	}
	return b
}

// dataCenter: one without pods here is run by the operator of another region, or not yet.
func (in *picture) dataCenter(dc *v1alpha1.DataCenter) branch {
	b := branch{columns: []string{dc.Name, "region " + dc.Region}}
	desired := []struct {
		component string
		n         int32
		name      string
	}{
		{plan.ComponentCoordinator, dc.Coordinators.Replicas, "coordinators"}, {plan.ComponentCache, dc.Caches.Replicas, "caches"},
		{plan.ComponentShard, dc.Shards * max(1, in.store.Spec.Storage.Replicas), "shards"},
	}
	here := in.here(dc.Name)
	var counts []string
	for _, d := range desired {
		if !here {
			counts = append(counts, fmt.Sprintf("%d %s", d.n, d.name))
			continue
		}
		counts = append(counts, fmt.Sprintf("%d/%d %s", in.ready(dc.Name, d.component), d.n, d.name))
	}
	if !here {
		b.columns = append(b.columns, "elsewhere: "+strings.Join(counts, ", "))
		return b
	}
	b.columns = append(b.columns, strings.Join(counts, ", "))
	b.twigs = append(in.zones(dc, "front", dc.Zones.Frontend), in.zones(dc, "back", dc.Zones.Backend)...)
	return b
}

func (in *picture) here(dc string) bool {
	return slices.ContainsFunc(in.parts, func(p corev1.Pod) bool { return p.Labels[plan.LabelDataCenter] == dc }) ||
		slices.ContainsFunc(in.store.Status.DataCenters, func(d v1alpha1.DataCenterStatus) bool { return d.Name == dc && d.Here })
}

func (in *picture) ready(dc, component string) (n int) {
	for i := range in.parts {
		if p := &in.parts[i]; p.Labels[plan.LabelDataCenter] == dc && p.Labels[plan.LabelComponent] == component && plan.Ready(p) && !in.leaving.has(p) {
			n++
		}
	}
	return n
}

// zones are those of one side of a data centre, with the parts in them. A part that is in none yet, or of which that is not known,
// comes after them.
func (in *picture) zones(dc *v1alpha1.DataCenter, side string, names []string) (all []branch) {
	rest := branch{columns: []string{"in no zone yet (" + side + ")"}}
	if in.zoneOf == nil {
		rest.columns[0] = fmt.Sprintf("zones %s (%s); you may not list nodes", strings.Join(names, ", "), side)
	} else {
		for _, z := range names {
			all = append(all, branch{columns: []string{fmt.Sprintf("%s (%s)", z, side)}})
		}
	}
	parts := slices.Clone(in.parts)
	slices.SortFunc(parts, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range parts {
		p := &parts[i]
		if p.Labels[plan.LabelDataCenter] != dc.Name || (p.Labels[plan.LabelComponent] == plan.ComponentShard) != (side == "back") {
			continue
		}
		to := &rest
		if z := slices.Index(names, in.zoneOf[p.Spec.NodeName]); z >= 0 && in.zoneOf != nil {
			to = &all[z]
		}
		to.twigs = append(to.twigs, branch{columns: []string{p.Name, partName(p), in.readiness(p)}})
	}
	if len(rest.twigs) > 0 {
		all = append(all, rest)
	}
	return all
}

func partName(p *corev1.Pod) string {
	if shard := p.Labels[plan.LabelShard]; shard != "" {
		return "shard " + shard
	}
	return p.Labels[plan.LabelComponent]
}

func (in *picture) readiness(p *corev1.Pod) string {
	switch {
	case in.leaving.has(p) && p.DeletionTimestamp == nil:
		return in.leaving.says(p)
	case !plan.Ready(p):
		return "NOT READY: " + in.leaving.why(p)
	}
	return "ready on " + orDash(p.Spec.NodeName)
}

package kubectl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// regionTopology is what a cluster knows of its own data centers and of their links.
type regionTopology struct {
	view  topologyView
	peers peerReports
}

func topologyOfRegions(cmd *cobra.Command, clusters []*cluster, name string) error {
	v, err := findOneStore(cmd.Context(), clusters, name)
	if err != nil {
		return err
	}
	now := time.Now()
	all := map[string]*regionTopology{}
	for _, r := range v.known() {
		all[r.context] = &regionTopology{view: topologyView{store: r.store, now: now}}
	}
	eachContext(cmd.Context(), v.known(), func(ctx context.Context, r *regionStore) (err error) {
		to := all[r.context]
		if err = r.k.readTopology(ctx, &to.view); err != nil {
			return err
		}
		to.peers, err = r.k.readPeers(ctx, to.view.parts)
		return err
	})
	return writeRegionTopology(cmd.OutOrStdout(), v, all, now)
}

// writeRegionTopology draws the rings of a store with the data centers of all regions, and lists the links between
// regions.
func writeRegionTopology(w io.Writer, v *storeRegions, all map[string]*regionTopology, now time.Time) error {
	fmt.Fprintln(w, v.title(now))
	if err := v.contextTable(now).write(w); err != nil {
		return err
	}
	var tree table
	for _, ring := range v.rings() {
		node := v.ringNode(ring, all, now)
		tree.row()
		tree.row(node.columns...)
		node.draw(&tree, "")
	}
	trips, reports, notes := roundTrips{}, peerReports{}, v.notes()
	for _, r := range v.known() {
		of := all[r.context]
		for from, to := range of.view.trips {
			trips[from] = to
		}
		reports.add(of.peers)
		if of.view.unmeasured != nil {
			notes = append(notes, fmt.Sprintf("%s: some round trips are unknown: %s", r.context,
				oneLine(of.view.unmeasured)))
		}
	}
	if err := tree.write(w); err != nil {
		return err
	}
	if err := trips.write(w, v.dataCenterNames()); err != nil {
		return err
	}
	for _, t := range []table{v.linkTable(reports), v.edgeTable()} {
		if err := t.write(w); err != nil {
			return err
		}
	}
	if err := v.writeFaults(w); err != nil {
		return err
	}
	for i, line := range notes {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, line)
	}
	return nil
}

// ringNode draws a ring, with each data center as the cluster that runs it has it.
func (v *storeRegions) ringNode(ring v1alpha1.Ring, all map[string]*regionTopology, now time.Time) treeNode {
	is := v.ring(ring, now)
	b := treeNode{columns: []string{"ring " + ring.Name, string(is.availability), strings.Join(is.notes, "; ")}}
	if is.lagMs != nil {
		b.columns = []string{b.columns[0], b.columns[1], formatMilliseconds(is.lagMs) + " behind", b.columns[2]}
	}
	for _, dc := range v.dataCenters() {
		if slices.Contains(ring.DataCenters, dc.Name) {
			b.children = append(b.children, v.dataCenterNodes(&dc, all)...)
		}
	}
	return b
}

// dataCenterNodes draws a data center: once, unless several clusters run it.
func (v *storeRegions) dataCenterNodes(dc *v1alpha1.DataCenter, all map[string]*regionTopology) (nodes []treeNode) {
	for _, r := range v.runs(dc.Name) {
		of := dc
		for i := range r.store.Spec.DataCenters {
			if own := &r.store.Spec.DataCenters[i]; own.Name == dc.Name {
				of = own
			}
		}
		node := all[r.context].view.dataCenterNode(of)
		node.columns[1] += ", context " + r.context
		nodes = append(nodes, node)
	}
	if len(nodes) == 0 {
		nodes = append(nodes, treeNode{columns: []string{dc.Name, "region " + dc.Region, v.whereElse()}})
	}
	return nodes
}

// linkTable lists the links between regions.
func (v *storeRegions) linkTable(reports peerReports) table {
	all := table{{}, append(slices.Clone(linkColumns), "REMARK")}
	for _, l := range v.linksBetweenRegions(reports) {
		all.row(append(l.cells, l.remark)...)
	}
	return all.orNothing()
}

package kubectl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/spf13/cobra"
)

func statusOfRegions(cmd *cobra.Command, clusters []*cluster, name string) error {
	found, err := findStores(cmd.Context(), clusters, name)
	if err != nil {
		return err
	}
	for i, v := range found {
		pods := v.readPods(cmd.Context())
		if i > 0 {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := writeRegionStatus(cmd.OutOrStdout(), v, pods, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// readPods reads the pods of a store in the cluster of each context. The errors are those of the regions.
func (v *storeRegions) readPods(ctx context.Context) map[string]*storePods {
	pods := map[string]*storePods{}
	for _, r := range v.all {
		pods[r.context] = &storePods{}
	}
	eachContext(ctx, v.known(), func(ctx context.Context, r *regionStore) (err error) {
		*pods[r.context], err = r.k.readStorePods(ctx, r.store)
		return err
	})
	return pods
}

// writeRegionStatus writes the state of a store in all regions, with the pods of each context.
func writeRegionStatus(w io.Writer, v *storeRegions, pods map[string]*storePods, now time.Time) error {
	fmt.Fprintln(w, v.title(now))
	if err := v.contextTable(now).write(w); err != nil {
		return err
	}
	notes := v.notes()
	for _, r := range v.known() {
		if p := pods[r.context]; r.err == nil {
			for _, line := range compareWithPods(r.store, p.parts, now) {
				notes = append(notes, fmt.Sprintf("%s: the pods differ from this status: %s", r.context, line))
			}
		}
	}
	for i, line := range notes {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, line)
	}
	unready, conditions := section("CONTEXT", unreadyPodColumns), section("CONTEXT", conditionColumns)
	for _, r := range v.known() {
		unready.add(r.context, unreadyPodRows(r.store, *pods[r.context], now))
		conditions.add(r.context, conditionRows(r.store, now))
	}
	if err := v.writeFaults(w); err != nil {
		return err
	}
	for _, t := range []table{v.ringTable(now), v.dataCenterTable(), v.groupTable(), v.exclusionTable(), v.edgeTable(),
		unready.orNothing(), conditions.orNothing(), v.variationTable()} {
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}

// section is a table with a blank line, columns and one more column before them.
func section(first string, columns []string) table {
	return table{{}, append([]string{first}, columns...)}
}

// add adds rows with one more cell before them.
func (t *table) add(first string, rows table) {
	for _, r := range rows {
		t.row(append([]string{first}, r...)...)
	}
}

// orNothing returns a section, or nothing if it has no rows.
func (t table) orNothing() table {
	if len(t) <= 2 {
		return nil
	}
	return t
}

// writeFaults lists what must be the same in all manifests and is not.
func (v *storeRegions) writeFaults(w io.Writer) error {
	faults := v.faults()
	if len(faults) == 0 {
		return nil
	}
	if err := append(table{{}, {"MANIFESTS DIFFER", "CONTEXTS", "VALUE"}}, faults...).write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w,
		"Parts of these regions refuse each other. None of this can be changed in a store that runs: see the runbook "+
			"of CausalStorePeersDisconnected.")
	return err
}

// variationTable lists what else differs between the manifests.
func (v *storeRegions) variationTable() table {
	return append(table{{}, {"DIFFERENT, WHILE PARTS STILL CONNECT", "CONTEXTS", "VALUE"}},
		v.variations()...).orNothing()
}

// ringTable lists the rings over all regions.
func (v *storeRegions) ringTable(now time.Time) table {
	all := table{{}, {"RING", "STATE", "LAG", "SWITCHING", "DATA CENTERS", "MISSING"}}
	for _, r := range v.rings() {
		is := v.ring(r, now)
		all.row(r.Name, string(is.availability), formatMilliseconds(is.lagMs), is.switching,
			strings.Join(r.DataCenters, " "), strings.Join(is.notes, "; "))
	}
	return all
}

// dataCenterTable lists the data centers of all regions, each as the region that runs it reports it.
func (v *storeRegions) dataCenterTable() table {
	all := section("CONTEXT", dataCenterColumns)
	for _, dc := range v.dataCenters() {
		at := v.runs(dc.Name)
		if len(at) == 0 {
			all.row("-", dc.Name, dc.Region, v.whereElse())
		}
		for _, r := range at {
			i := slices.IndexFunc(r.store.Status.DataCenters, func(d v1alpha1.DataCenterStatus) bool {
				return d.Name == dc.Name
			})
			all.add(r.context, table{dataCenterRow(&r.store.Status.DataCenters[i])})
		}
	}
	return all
}

// groupTable lists the groups of all regions.
func (v *storeRegions) groupTable() table {
	all := section("CONTEXT", groupColumns)
	for _, r := range v.known() {
		all.add(r.context, groupRows(r.store))
	}
	return all.orNothing()
}

// edgeTable lists the edges of all regions.
func (v *storeRegions) edgeTable() table {
	all := section("CONTEXT", edgeColumns)
	for _, r := range v.known() {
		all.add(r.context, edgeRows(r.store))
	}
	return all.orNothing()
}

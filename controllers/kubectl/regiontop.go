package kubectl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/partmetrics"
)

// regionReadings are what the processes of a store in one cluster answer: twice, or once if before is nil.
type regionReadings struct {
	processes   []process
	before, now []reading
	peers       peerReports
}

func topOfRegions(cmd *cobra.Command, clusters []*cluster, name string, f topFlags) error {
	v, err := findOneStore(cmd.Context(), clusters, name)
	if err != nil {
		return err
	}
	all := map[string]*regionReadings{}
	for _, r := range v.known() {
		all[r.context] = &regionReadings{}
	}
	eachContext(cmd.Context(), v.known(), func(ctx context.Context, r *regionStore) (err error) {
		all[r.context].processes, err = r.k.listProcesses(ctx, r.store)
		return err
	})
	read := func(r *regionStore) (err error) {
		if to := all[r.context]; r.err == nil {
			to.before = to.now
			to.now, err = r.k.readAll(cmd.Context(), to.processes) // each process has a time limit of its own
		}
		return err
	}
	atOnce(v.known(), read)
	if !f.once {
		select {
		case <-time.After(f.interval):
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
		atOnce(v.known(), read)
	}
	eachContext(cmd.Context(), v.known(), func(ctx context.Context, r *regionStore) (err error) {
		if r.err != nil {
			return nil
		}
		parts, err := r.k.partPods(ctx, r.store)
		if err != nil {
			return err
		}
		all[r.context].peers, err = r.k.readPeers(ctx, parts)
		return err
	})
	return writeRegionTop(cmd.OutOrStdout(), f.output, v, all, f.once)
}

// writeRegionTop writes the work of a store's data centers in all regions, and what passes between regions.
func writeRegionTop(w io.Writer, o outputFlag, v *storeRegions, all map[string]*regionReadings, once bool) error {
	sum, answered, over := newSummary(), 0, time.Duration(0)
	reports := peerReports{}
	var unread table
	for _, r := range v.all {
		if r.store == nil || r.sameAs != "" {
			unread.row(r.context, v.describe(r, time.Time{}))
			continue
		}
		if r.err != nil {
			unread.row(r.context, describeContextError(r.err))
			continue
		}
		of := all[r.context]
		if !once && answered == 0 {
			over = period(of.before, of.now)
		}
		answered++
		sum.addRegion(r.context+": ", of.before, of.now)
		reports.add(of.peers)
	}
	if sum.answers == 0 {
		return fmt.Errorf("no process of %s/%s answered in any context: %s", v.namespace, v.name,
			firstFailure(unread, sum.failed))
	}
	if o.isJSON() {
		return sum.writeJSON(w, v.namespace, v.name, v.dataCenterNames(), over, unread)
	}
	fmt.Fprintf(w, "%s/%s: %s; %d of %d contexts read; %d of %d processes answered\n", v.namespace, v.name,
		formatPeriod(over), answered, len(v.all), sum.answers, sum.processes)
	loads := table{{}, append([]string{"REGION"}, loadColumns(once)...)}
	for _, dc := range v.dataCenters() {
		row := []string{dc.Region, dc.Name}
		switch l := sum.loads[dc.Name]; {
		case l != nil:
			row = append(row, l.row()...)
		case sum.asked[dc.Name]:
			row = append(row, "no answer")
		case len(v.runs(dc.Name)) > 0:
			row = append(row, "not known")
		default:
			row = append(row, v.whereElse())
		}
		loads.row(row...)
	}
	if len(sum.loads) > 1 {
		loads.row(append([]string{"all", ""}, sum.total(v.dataCenterNames()).row()...)...)
	}
	slices.SortFunc(sum.failed, slices.Compare)
	for _, t := range []table{loads, v.trafficTable(reports, sum.traffic, once),
		append(table{{}, {"NOT READ", "REASON"}}, unread...).orNothing(),
		append(table{{}, {"NO ANSWER FROM", "ERROR"}}, sum.failed...).orNothing()} {
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}

func firstFailure(tables ...table) string {
	for _, t := range tables {
		if len(t) > 0 {
			return strings.Join(t[0], ": ")
		}
	}
	return "no process runs"
}

// traffic is the number of bytes between the coordinators of a data center and the parts of another one.
type traffic struct{ sent, received float64 }

// The metric of traffic, and its labels.
const (
	metricPeerBytes = "causalstore_peer_bytes_total"
	labelDirection  = "direction"
)

// addTraffic adds what a process exchanges with other data centers between two readings, or since its start if before
// is nil.
func (s *summary) addTraffic(before *reading, now reading) {
	for _, m := range now.metrics[metricPeerBytes].GetMetric() {
		to, direction := partmetrics.Label(m, contract.LabelToDataCenter), partmetrics.Label(m, labelDirection)
		n := increase(before, now, metricPeerBytes, func(label func(string) string) bool {
			return label(contract.LabelToDataCenter) == to && label(labelDirection) == direction
		})
		pair := [2]string{now.process.dataCenter, to}
		sum := s.traffic[pair]
		if direction == "sent" {
			sum.sent += n
		} else {
			sum.received += n
		}
		s.traffic[pair] = sum
	}
}

// trafficTable lists the links between regions, with the bytes on them.
func (v *storeRegions) trafficTable(reports peerReports, bytes map[[2]string]traffic, once bool) table {
	per := "/S"
	if once {
		per = ""
	}
	all := table{{}, slices.Concat(linkColumns, []string{"SENT" + per, "RECEIVED" + per, "REMARK"})}
	for _, l := range v.linksBetweenRegions(reports) {
		sent, received := "-", "-"
		if n, ok := bytes[[2]string{l.from, l.to}]; ok {
			sent, received = formatBytes(n.sent), formatBytes(n.received)
		}
		all.row(slices.Concat(l.cells, []string{sent, received, l.remark})...)
	}
	return all.orNothing()
}

// formatBytes renders a number of bytes with about three digits, in powers of 1000.
func formatBytes(n float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if n < 1000 {
			return formatNumber(n) + unit
		}
		n /= 1000
	}
	return formatNumber(n) + "TB"
}

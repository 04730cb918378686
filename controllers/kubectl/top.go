package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/partmetrics"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

func (c *cluster) top(cmd *cobra.Command, name string, f topFlags) error {
	k, err := c.connect()
	if err != nil {
		return err
	}
	s, err := k.findStore(cmd.Context(), name)
	if err != nil {
		return err
	}
	all, err := k.listProcesses(cmd.Context(), s)
	if err != nil {
		return err
	}
	readings, err := k.readAll(cmd.Context(), all)
	if err != nil {
		return err
	}
	var before []reading
	if !f.once {
		select {
		case <-time.After(f.interval):
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
		before = readings
		if readings, err = k.readAll(cmd.Context(), all); err != nil {
			return err
		}
	}
	return writeTop(cmd.OutOrStdout(), f.output, s, before, readings)
}

// topFlags are the flags of top.
type topFlags struct {
	output   outputFlag
	once     bool
	interval time.Duration
}

func (f *topFlags) check() error {
	if f.interval <= 0 {
		return fmt.Errorf("--interval %s: use a time greater than 0, such as 5s, or --once", f.interval)
	}
	return f.output.check()
}

// listProcesses returns the processes of a store and of its apps' sidecars.
func (k *connection) listProcesses(ctx context.Context, s *v1alpha1.CausalStore) ([]process, error) {
	parts, err := k.partPods(ctx, s)
	if err != nil {
		return nil, err
	}
	apps, err := k.appPods(ctx, s)
	if err != nil {
		return nil, err
	}
	all := processesOf(parts, apps)
	if len(all) == 0 {
		return nil, fmt.Errorf("no pod of %s runs in this cluster; run: kubectl causal status %s",
			client.ObjectKeyFromObject(s), s.Name)
	}
	return all, nil
}

// The metrics that are shown.
const (
	metricCommands   = "causalstore_redis_command_duration_seconds"
	metricPuts       = "causalstore_sidecar_puts_total"
	metricGets       = "causalstore_sidecar_gets_total"
	metricBound      = "causalstore_sidecar_bound_gets_total"
	metricReads      = "causalstore_sidecar_reads_total"
	metricIncomplete = "causalstore_coordinator_incomplete_writes"
	metricStability  = "causalstore_coordinator_stability_lag_seconds"
	metricVisibility = "causalstore_sidecar_stability_lag_seconds"
)

// load is the work of a data center: totals since the start, or rates per second.
type load struct {
	commands, writes, gets, bound float64
	reads                         map[string]float64 // by source
	stability, visibility         *time.Duration     // the greatest of its coordinators; of its sidecars
	incomplete                    float64
}

func newLoad() *load { return &load{reads: map[string]float64{}} }

// sources lists the sources of reads in the order of the columns.
var sources = []session.Source{session.SourceOwn, session.SourceNear, session.SourceCache, session.SourceLocal,
	session.SourceRemote}

// addProcess adds the work of a process between two readings, or since its start if before is nil.
func (l *load) addProcess(before *reading, now reading) {
	l.commands += increase(before, now, metricCommands, nil)
	l.writes += increase(before, now, metricPuts, nil)
	l.gets += increase(before, now, metricGets, nil)
	l.bound += increase(before, now, metricBound, nil)
	for _, s := range sources {
		l.reads[s.String()] += increase(before, now, metricReads, func(label func(string) string) bool {
			return label("source") == s.String()
		})
	}
	l.incomplete += now.metrics.Sum(metricIncomplete, nil)
	l.stability = maxLag(l.stability, now.metrics, metricStability)
	l.visibility = maxLag(l.visibility, now.metrics, metricVisibility)
}

// increase returns by how much a metric has grown per second between two readings, or its value if before is nil.
func increase(before *reading, now reading, name string, keep func(func(string) string) bool) float64 {
	n := now.metrics.Sum(name, keep)
	if before == nil {
		return n
	}
	if previous := before.metrics.Sum(name, keep); previous <= n { // else the process has restarted
		n -= previous
	}
	return n / now.at.Sub(before.at).Seconds()
}

// maxLag returns the greater of a lag and the one that a process exports, if any.
func maxLag(lag *time.Duration, f partmetrics.Families, name string) *time.Duration {
	for _, m := range f[name].GetMetric() {
		if d := time.Duration(m.GetGauge().GetValue() * float64(time.Second)); lag == nil || d > *lag {
			lag = &d
		}
	}
	return lag
}

func (l *load) add(o *load) {
	l.commands, l.writes, l.gets, l.bound, l.incomplete = l.commands+o.commands, l.writes+o.writes, l.gets+o.gets,
		l.bound+o.bound,
		l.incomplete+o.incomplete
	for s, n := range o.reads {
		l.reads[s] += n
	}
	l.stability, l.visibility = maxDuration(l.stability, o.stability), maxDuration(l.visibility, o.visibility)
}

func maxDuration(a, b *time.Duration) *time.Duration {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// row returns the columns of the table.
func (l *load) row() []string {
	reads := 0.0
	for _, n := range l.reads {
		reads += n
	}
	row := []string{formatNumber(l.commands), formatNumber(reads), formatNumber(l.writes)}
	for _, s := range sources {
		row = append(row, formatShare(l.reads[s.String()], reads))
	}
	return append(row, formatShare(reads-l.reads[session.SourceRemote.String()], reads), formatShare(l.bound, l.gets),
		formatLag(l.stability), formatLag(l.visibility),
		formatNumber(l.incomplete))
}

func formatNumber(n float64) string {
	if n < 10 && n != float64(int(n)) {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func formatShare(part, of float64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*part/of)
}

func formatLag(d *time.Duration) string {
	if d == nil {
		return "-"
	}
	return formatRounded(*d)
}

// summary is the work of data centers, and what could not be read.
type summary struct {
	loads map[string]*load // by data center
	// asked has the data centers of which there are processes.
	asked map[string]bool
	// traffic is that from one data center to another one.
	traffic            map[[2]string]traffic
	failed             table
	answers, processes int
}

func newSummary() *summary {
	return &summary{loads: map[string]*load{}, asked: map[string]bool{}, traffic: map[[2]string]traffic{}}
}

// addRegion adds the work of a cluster between two lists of readings, or in all if before is nil. Processes that did
// not answer are listed with a prefix.
func (s *summary) addRegion(prefix string, before, now []reading) {
	for i, r := range now {
		var previous *reading
		if before != nil {
			previous = &before[i]
		}
		dc := r.process.dataCenter
		s.asked[dc] = true
		s.processes++
		if err := readError(r.err, previous); err != nil {
			s.failed = append(s.failed, []string{fmt.Sprintf("%s%s/%s:%d", prefix, r.process.namespace, r.process.pod,
				r.process.port), err.Error()})
			continue
		}
		if s.answers++; s.loads[dc] == nil {
			s.loads[dc] = newLoad()
		}
		s.loads[dc].addProcess(previous, r)
		s.addTraffic(previous, r)
	}
}

// total returns the work of some data centers.
func (s *summary) total(dataCenters []string) *load {
	all := newLoad()
	for _, dc := range dataCenters {
		if l := s.loads[dc]; l != nil {
			all.add(l)
		}
	}
	return all
}

// loadColumns names the columns of a data center and of load.row.
func loadColumns(once bool) []string {
	per := "/S"
	if once {
		per = ""
	}
	return []string{"DATA CENTER", "COMMANDS" + per, "READS" + per, "WRITES" + per, "OWN", "NEAR", "CACHE", "LOCAL",
		"REMOTE", "IN REGION", "RESTRICTED",
		"STABILITY LAG", "VISIBILITY LAG", "INCOMPLETE"}
}

// writeTop writes the work of a store's data centers: rates between two lists of readings, or totals if before is nil.
func writeTop(w io.Writer, o outputFlag, s *v1alpha1.CausalStore, before, now []reading) error {
	sum := newSummary()
	sum.addRegion("", before, now)
	if sum.answers == 0 {
		return fmt.Errorf("none of the %d processes of %s answered; the first error: %s", len(now), s.Name,
			strings.Join(sum.failed[0], ": "))
	}
	if o.isJSON() {
		return sum.writeJSON(w, s.Namespace, s.Name, namesOf(s.Spec.DataCenters), period(before, now), nil)
	}
	fmt.Fprintf(w, "%s/%s: %s; %d of %d processes answered\n", s.Namespace, s.Name, formatPeriod(period(before, now)),
		sum.answers, len(now))
	all := table{{}, loadColumns(before == nil)}
	for _, dc := range s.Spec.DataCenters {
		l := sum.loads[dc.Name]
		if l == nil {
			all.row(dc.Name, missingReason(sum.asked[dc.Name]))
			continue
		}
		all.row(append([]string{dc.Name}, l.row()...)...)
	}
	if len(sum.loads) > 1 {
		all.row(append([]string{"all"}, sum.total(namesOf(s.Spec.DataCenters)).row()...)...)
	}
	if err := all.write(w); err != nil || len(sum.failed) == 0 {
		return err
	}
	slices.SortFunc(sum.failed, slices.Compare)
	return slices.Insert(sum.failed, 0, nil, []string{"NO ANSWER FROM", "ERROR"}).write(w)
}

// missingReason returns why there are no numbers of a data center, by whether it has processes in the cluster.
func missingReason(asked bool) string {
	if asked {
		return "no answer"
	}
	return "elsewhere"
}

// readError returns the error that keeps a process from being counted.
func readError(now error, before *reading) error {
	if now == nil && before != nil && before.err != nil {
		return errors.New("answered only the second request")
	}
	return now
}

// formatPeriod renders the time that the numbers cover, 0 for all of it.
func formatPeriod(period time.Duration) string {
	if period == 0 {
		return "totals since each process started"
	}
	return fmt.Sprintf("over %s", period.Round(100*time.Millisecond))
}

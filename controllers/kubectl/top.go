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
	"github.com/causalstore/causalstore/sidecar/causal"
)

func (c *cluster) top(cmd *cobra.Command, name string, once bool, interval time.Duration) error {
	if interval <= 0 {
		return fmt.Errorf("--interval %s: give a time greater than 0, such as 5s, or --once", interval)
	}
	k, err := c.connect()
	if err != nil {
		return err
	}
	s, err := k.store(cmd.Context(), name)
	if err != nil {
		return err
	}
	all, err := k.processes(cmd.Context(), s)
	if err != nil {
		return err
	}
	readings, err := k.readAll(cmd.Context(), all)
	if err != nil {
		return err
	}
	var before []reading
	if !once {
		select {
		case <-time.After(interval):
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
		before = readings
		if readings, err = k.readAll(cmd.Context(), all); err != nil {
			return err
		}
	}
	return writeTop(cmd.OutOrStdout(), s, before, readings)
}

// processes of a store that show metrics.
func (k *connection) processes(ctx context.Context, s *v1alpha1.CausalStore) ([]process, error) {
	parts, err := k.parts(ctx, s)
	if err != nil {
		return nil, err
	}
	apps, err := k.apps(ctx, s)
	if err != nil {
		return nil, err
	}
	all := processesOf(parts, apps)
	if len(all) == 0 {
		return nil, fmt.Errorf("no pod of %s runs in this cluster; see: kubectl causal status %s",
			client.ObjectKeyFromObject(s), s.Name)
	}
	return all, nil
}

// What is read of the metrics.
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

// load is what a data centre does: numbers since the start, or a second.
type load struct {
	commands, writes, gets, bound float64
	reads                         map[string]float64 // by where the answer came from
	stability, visibility         *time.Duration     // the greatest of its coordinators, of its sidecars
	incomplete                    float64
}

func newLoad() *load { return &load{reads: map[string]float64{}} }

// sources of reads, in the order of the columns.
var sources = []causal.Source{causal.SourceOwn, causal.SourceCache, causal.SourceLocal, causal.SourceRemote}

// count adds what one process has counted between two readings; without an earlier one, since its start.
func (l *load) count(before *reading, now reading) {
	grown := func(name string, keep func(func(string) string) bool) float64 {
		n := now.metrics.sum(name, keep)
		if before == nil {
			return n
		}
		if was := before.metrics.sum(name, keep); was <= n { // else it has started anew
			n -= was
		}
		return n / now.at.Sub(before.at).Seconds()
	}
	l.commands += grown(metricCommands, nil)
	l.writes += grown(metricPuts, nil)
	l.gets += grown(metricGets, nil)
	l.bound += grown(metricBound, nil)
	for _, s := range sources {
		l.reads[s.String()] += grown(metricReads, func(label func(string) string) bool { return label("source") == s.String() })
	}
	l.incomplete += now.metrics.sum(metricIncomplete, nil)
	l.stability = later(l.stability, now.metrics, metricStability)
	l.visibility = later(l.visibility, now.metrics, metricVisibility)
}

// later is the greater of a lag and what a process shows, if it shows one.
func later(lag *time.Duration, f families, name string) *time.Duration {
	for _, m := range f[name].GetMetric() {
		if d := time.Duration(m.GetGauge().GetValue() * float64(time.Second)); lag == nil || d > *lag {
			lag = &d
		}
	}
	return lag
}

func (l *load) add(o *load) {
	l.commands, l.writes, l.gets, l.bound, l.incomplete = l.commands+o.commands, l.writes+o.writes, l.gets+o.gets, l.bound+o.bound,
		l.incomplete+o.incomplete
	for s, n := range o.reads {
		l.reads[s] += n
	}
	l.stability, l.visibility = greater(l.stability, o.stability), greater(l.visibility, o.visibility)
}

func greater(a, b *time.Duration) *time.Duration {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// columns of a row.
func (l *load) columns() []string {
	reads := 0.0
	for _, n := range l.reads {
		reads += n
	}
	row := []string{number(l.commands), number(reads), number(l.writes)}
	for _, s := range sources {
		row = append(row, share(l.reads[s.String()], reads))
	}
	return append(row, share(reads-l.reads[causal.SourceRemote.String()], reads), share(l.bound, l.gets),
		lagText(l.stability), lagText(l.visibility),
		number(l.incomplete))
}

func number(n float64) string {
	if n < 10 && n != float64(int(n)) {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func share(part, of float64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*part/of)
}

func lagText(d *time.Duration) string {
	if d == nil {
		return "-"
	}
	return roughly(*d)
}

// writeTop shows what the data centres of a store do. Without readings from before it shows totals.
func writeTop(w io.Writer, s *v1alpha1.CausalStore, before, now []reading) error {
	loads, silent := map[string]*load{}, table{}
	answers := 0
	for i, r := range now {
		var was *reading
		if before != nil {
			was = &before[i]
		}
		if err := firstError(r.err, was); err != nil {
			silent = append(silent, []string{fmt.Sprintf("%s/%s:%d", r.of.namespace, r.of.pod, r.of.port), err.Error()})
			continue
		}
		if answers++; loads[r.of.dataCenter] == nil {
			loads[r.of.dataCenter] = newLoad()
		}
		loads[r.of.dataCenter].count(was, r)
	}
	if answers == 0 {
		return fmt.Errorf("none of %d processes of %s has answered; the first: %s", len(now), s.Name, strings.Join(silent[0], ": "))
	}
	per := "/S"
	if before == nil {
		per = ""
	}
	fmt.Fprintf(w, "%s/%s: %s; %d of %d processes have answered\n", s.Namespace, s.Name, span(before, now), answers, len(now))
	all := table{{}, {"DATA CENTRE", "COMMANDS" + per, "READS" + per, "WRITES" + per, "OWN", "CACHE", "LOCAL", "REMOTE",
		"IN REGION", "RESTRICTED",
		"STABILITY LAG", "VISIBILITY LAG", "INCOMPLETE"}}
	total := newLoad()
	for _, dc := range s.Spec.DataCenters {
		l := loads[dc.Name]
		if l == nil {
			all.row(dc.Name, absent(dc.Name, now))
			continue
		}
		total.add(l)
		all.row(append([]string{dc.Name}, l.columns()...)...)
	}
	if len(loads) > 1 {
		all.row(append([]string{"all"}, total.columns()...)...)
	}
	if err := all.write(w); err != nil || len(silent) == 0 {
		return err
	}
	slices.SortFunc(silent, slices.Compare)
	return slices.Insert(silent, 0, nil, []string{"HAS NOT ANSWERED", "WHY"}).write(w)
}

// absent says why there is nothing of a data centre.
func absent(dc string, now []reading) string {
	if slices.ContainsFunc(now, func(r reading) bool { return r.of.dataCenter == dc }) {
		return "no answer"
	}
	return "elsewhere"
}

func firstError(now error, before *reading) error {
	if now == nil && before != nil && before.err != nil {
		return errors.New("it has answered the second time only")
	}
	return now
}

// span is the time that the numbers are about.
func span(before, now []reading) string {
	if before == nil {
		return "totals since each process has started"
	}
	return fmt.Sprintf("over %s", now[0].at.Sub(before[0].at).Round(100*time.Millisecond))
}

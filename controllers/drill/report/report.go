// Package report shows runs of drills: on a terminal, as Markdown, and as one HTML page without scripts or anything
// from elsewhere. All of it is made from the record of the run alone.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/causalstore/causalstore/controllers/drill/record"
)

// summary is the first line of a report.
func summary(r *record.Run) string {
	return fmt.Sprintf("%s: %s", strings.ToUpper(string(r.Outcome)), r.Reason)
}

// facts are what identifies a run.
func facts(r *record.Run) [][2]string {
	all := [][2]string{
		{"run", r.ID}, {"drill", r.Drill + ": " + r.Title},
		{"hit", fmt.Sprintf("%s (%s)", r.Hit, podCount(len(r.Pods)))},
		{"store", fmt.Sprintf("%s/%s, generation %d", r.Namespace, r.Store, r.Generation)},
		{"started", r.Started.UTC().Format(time.RFC3339)},
	}
	if !r.Ended.IsZero() {
		all = append(all, [2]string{"ended", fmt.Sprintf("%s, after %s", r.Ended.UTC().Format(time.RFC3339),
			r.Ended.Sub(r.Started).Round(100*time.Millisecond))})
	}
	for _, f := range [][2]string{{"by", r.User}, {"cluster", r.Cluster}, {"settings", r.Settings}} {
		if f[1] != "" {
			all = append(all, f)
		}
	}
	if len(r.Canaries) > 0 {
		all = append(all, [2]string{"canaries", strings.Join(r.Canaries, ", ")})
	}
	if r.NoSidecars != "" {
		all = append(all, [2]string{"no sidecars", r.NoSidecars})
	}
	if r.Paper != "" {
		all = append(all, [2]string{"Karma's paper says", r.Paper})
	}
	if r.Checked != "" {
		all = append(all, [2]string{"checked", r.Checked})
	}
	return append(all, [2]string{"version", r.Version})
}

func podCount(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// terms explain the words of a report to readers who do not know the store.
var terms = [][2]string{
	{"data center, ring",
		"Apps run in data centers. A ring is one whole copy of the data, spread over the data centers of the ring. " +
			"Every write goes to every ring."},
	{"causal consistency, causal+",
		"Who has seen a write sees nothing older than what that write was based on, in whatever data center, and all " +
			"data centers come to agree on each value. Checked says whether a program that knows every operation of " +
			"the canaries found an exception."},
	{"canary",
		"A client that the drill started in a data center. It reads and writes keys of its own at a steady rate; all " +
			"figures are of its operations."},
	{"through",
		"How a canary connects: front, by the Service of its data center; sidecar, by a sidecar in its own pod, as " +
			"apps of a labelled namespace do."},
	{"clients",
		"Hit: in a data center where the drill stopped or cut off something. Elsewhere: in another one. Stopped: the " +
			"faults stopped the canary itself, so its figures say nothing of the store."},
	{"failed",
		"Operations with an error, or without an answer in time. A write that failed may have happened anyway, " +
			"and is checked as such."},
	{"longest gap", "The longest time without an operation that succeeded."},
	{"complete",
		"A write is complete when every ring has it and no cache an older value. In time is half of the time-out of " +
			"an operation. Longest incomplete is the longest time without a write that became complete in time."},
	{"bound",
		"Who has read a write that is not complete reads from the rings that have it, until it is complete. This " +
			"keeps reads consistent, and can make them slower: they may go to a data center farther away."},
	{"Karma's paper",
		"T. Mahmood et al., Achieving Causal Consistency under Partial Replication for Geo-distributed Cloud " +
			"Storage, 2016, of which the store is an implementation. What it says is of a system in which a part " +
			"that is hit has others to take over."},
	{"not promised, not measured",
		"Not promised: measured, but the store does not claim it in this drill. Not measured: there was nothing to " +
			"judge by, or the run was aborted before the faults had lasted as long as planned and nothing was broken " +
			"until then; it proves nothing in either direction."},
}

// phases are those of a run that have measures, in their order.
func phases(r *record.Run) (names []string) {
	for _, p := range r.Phases {
		names = append(names, p.Name)
	}
	return names
}

// cells are a row of the table of measures.
func cells(m record.Measure) []string {
	where := "elsewhere"
	switch {
	case m.Stopped:
		where = "stopped"
	case m.Hit:
		where = "hit"
	}
	return []string{m.Phase, m.DataCenter, string(m.Through.OrFront()), where, fmt.Sprint(m.Operations),
		fmt.Sprint(m.Failed), fmt.Sprintf("%.1f", m.P50), fmt.Sprintf("%.1f", m.P99), fmt.Sprintf("%.0f", m.LongestGap),
		fmt.Sprintf("%d of %d", m.Complete, m.Completions), fmt.Sprintf("%.0f", m.LongestIncomplete),
		fmt.Sprintf("%.0f", m.LongestBound)}
}

var columns = []string{"phase", "data center", "through", "clients", "ops", "failed", "p50 ms", "p99 ms",
	"longest gap ms", "complete in time", "longest incomplete ms", "longest bound ms"}

// ordered are the measures by phase, then data center.
func ordered(r *record.Run) []record.Measure {
	all := slices.Clone(r.Measures)
	order := phases(r)
	slices.SortStableFunc(all, func(a, b record.Measure) int {
		return slices.Index(order, a.Phase) - slices.Index(order, b.Phase)
	})
	return all
}

// Text writes a report for a terminal.
func Text(w io.Writer, r *record.Run) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", summary(r))
	t := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	for _, f := range facts(r) {
		fmt.Fprintf(t, "%s\t%s\n", f[0], f[1])
	}
	fmt.Fprintln(t)
	_ = t.Flush() // a strings.Builder does not fail
	for _, p := range r.Promises {
		fmt.Fprintf(&b, "%-13s %s\n              expected: %s\n              observed: %s\n",
			strings.ToUpper(string(p.Result)), p.Text, p.Expected, p.Observed)
	}
	if len(r.Measures) > 0 {
		fmt.Fprintln(&b)
		t = tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
		fmt.Fprintln(t, strings.ToUpper(strings.Join(columns, "\t")))
		for _, m := range ordered(r) {
			fmt.Fprintln(t, strings.Join(cells(m), "\t"))
		}
		_ = t.Flush() // a strings.Builder does not fail
	}
	for _, list := range lists(r) {
		if len(list.lines) > 0 {
			fmt.Fprintf(&b, "\n%s\n", list.title)
			for _, l := range list.lines {
				fmt.Fprintf(&b, "  %s\n", l)
			}
		}
	}
	fmt.Fprint(&b, "\nWith -o markdown or -o html, the report explains its terms.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

type list struct {
	title string
	lines []string
}

// lists are what a report has besides tables.
func lists(r *record.Run) []list {
	var left, events []string
	for _, l := range r.Leftovers {
		state := "removed"
		if !l.Removed {
			state = "not removed; " + l.Remedy
		}
		left = append(left, fmt.Sprintf("%s: %s: %s", l.Object, l.What, state))
	}
	for _, e := range r.Events {
		events = append(events, fmt.Sprintf("%6.1fs  %s", e.At.Sub(r.Started).Seconds(), e.Text))
	}
	return []list{{"Violations", r.Violations}, {"Left behind by Chaos Mesh", left}, {"Notes", r.Notes},
		{"Pods that were hit", r.Pods}, {"Experiments", r.Experiments}, {"Events", events}}
}

// Markdown writes a report as Markdown.
func Markdown(w io.Writer, r *record.Run) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Drill %s of %s/%s\n\n**%s**\n\n| | |\n| --- | --- |\n", r.Drill, r.Namespace, r.Store,
		escape(summary(r)))
	for _, f := range facts(r) {
		fmt.Fprintf(&b, "| %s | %s |\n", f[0], escape(f[1]))
	}
	b.WriteString("\n## Promises\n\n| promise | expected | observed | result |\n| --- | --- | --- | --- |\n")
	for _, p := range r.Promises {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", escape(p.Text), escape(p.Expected), escape(p.Observed), p.Result)
	}
	if len(r.Measures) > 0 {
		fmt.Fprintf(&b, "\n## Figures\n\n| %s |\n|%s\n", strings.Join(columns, " | "),
			strings.Repeat(" --- |", len(columns)))
		for _, m := range ordered(r) {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells(m), " | "))
		}
	}
	for _, l := range lists(r) {
		if len(l.lines) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n", l.title)
			for _, line := range l.lines {
				fmt.Fprintf(&b, "* %s\n", escape(strings.TrimSpace(line)))
			}
		}
	}
	b.WriteString("\n## Terms\n\n| | |\n| --- | --- |\n")
	for _, of := range terms {
		fmt.Fprintf(&b, "| %s | %s |\n", of[0], of[1])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// escape keeps text from being markup.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`").Replace(s)
}

// Compare writes two runs of drills side by side, the earlier one first.
func Compare(w io.Writer, a, b *record.Run) error {
	if a.Started.After(b.Started) {
		a, b = b, a
	}
	var out strings.Builder
	if a.Drill != b.Drill {
		fmt.Fprintf(&out, "These are runs of different drills: their figures and promises need not be alike.\n\n")
	}
	t := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(t, "\t%s\t%s\n", a.ID, b.ID)
	fmt.Fprintf(t, "drill\t%s\t%s\nhit\t%s\t%s\noutcome\t%s\t%s\nversion\t%s\t%s\n", a.Drill, b.Drill, a.Hit, b.Hit,
		a.Outcome, b.Outcome, a.Version, b.Version)
	for _, p := range b.Promises {
		before := "-"
		if i := slices.IndexFunc(a.Promises, func(q record.Promise) bool { return q.Text == p.Text }); i >= 0 {
			before = string(a.Promises[i].Result)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", p.Text, before, p.Result)
	}
	for _, m := range ordered(b) {
		name := fmt.Sprintf("%s %s (%s)", m.Phase, m.DataCenter, m.Through.OrFront())
		old := a.Find(m.Phase, m.DataCenter, m.Through.OrFront())
		row := func(what string, value func(*record.Measure) float64, digits int) {
			before := "-"
			if old != nil {
				before = fmt.Sprintf("%.*f", digits, value(old))
			}
			fmt.Fprintf(t, "%s, %s\t%s\t%.*f\n", name, what, before, digits, value(&m))
		}
		row("failed %", func(m *record.Measure) float64 {
			return 100 * float64(m.Failed) / float64(max(m.Operations, 1))
		}, 1)
		row("p50 ms", func(m *record.Measure) float64 { return m.P50 }, 1)
		row("p99 ms", func(m *record.Measure) float64 { return m.P99 }, 1)
		row("longest gap ms", func(m *record.Measure) float64 { return m.LongestGap }, 0)
		row("longest bound ms", func(m *record.Measure) float64 { return m.LongestBound }, 0)
	}
	_ = t.Flush() // a strings.Builder does not fail
	_, err := io.WriteString(w, out.String())
	return err
}

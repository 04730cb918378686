package command

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/sidecar/command"
)

// exitError ends the program with a specific exit code.
type exitError struct {
	error
	code int
}

// ExitCode returns the exit code of the program.
func (e exitError) ExitCode() int { return e.code }

func (e exitError) Unwrap() error { return e.error }

// exitUnreadable is the exit code for unreadable histories.
const exitUnreadable = 2

// NewCheckCommand returns `causalstore check`.
func NewCheckCommand() *cobra.Command {
	var violations int
	promise := string(load.Causal)
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Check recorded histories for causal consistency",
		Long: `Reads histories, which are JSON lines of what clients did and saw, and checks
whether each is causally consistent, whether the replicas converged and whether a write was lost.
The FILE - is standard input. "causalstore load --record" writes histories, and so can any other
program. Each operation is one line,
  {"session":"s1","op":"put","key":"k","value":"v1","start":10,"end":25,"ok":true}
with times in nanoseconds, values that are unique per key, and optionally the version that the store assigned.

With --promise datacenter, it also checks whether the clients of each data center found one Redis there:
all operations name their data center ("dc") then, and all times are of one clock.

Exit codes: 0 if there are no violations, 1 if a history has violations, 2 if an input cannot be read.`,
		Example: `  causalstore check history.jsonl
  zcat history.jsonl.gz | causalstore check -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			if !slices.Contains(load.Promises, load.Promise(promise)) {
				return exitError{fmt.Errorf("--promise %q: use %s or %s", promise, load.Causal, load.DataCenter),
					exitUnreadable}
			}
			violated := false
			for _, file := range files {
				h, err := readHistory(file, cmd.InOrStdin())
				if err != nil {
					return exitError{err, exitUnreadable}
				}
				ok, err := judge(cmd.OutOrStdout(), file, h, load.Promise(promise), violations)
				if err != nil {
					return exitError{err, exitUnreadable}
				}
				violated = violated || !ok
			}
			if violated {
				return command.ErrSilent
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&violations, "violations", 20,
		"maximum number of violations to explain per history; the others are only counted")
	cmd.Flags().StringVar(&promise, "promise", promise, "what to check: causal, or datacenter, which is that and more")
	return cmd
}

// judge checks a history, and writes what was found.
func judge(out io.Writer, name string, h history.History, promise load.Promise, violations int) (ok bool, err error) {
	report := history.Check(h, history.Options{MaxViolations: violations, AddsUp: true})
	fmt.Fprintf(out, "%s: %s\n", name, report)
	if len(report.Violations) > 0 {
		writeAround(out, h, report.Violations[0])
	}
	if promise != load.DataCenter {
		return report.OK(), nil
	}
	inside, err := history.CheckDataCenters(h, history.DataCenterOptions{MaxViolations: violations, AddsUp: true})
	if err != nil {
		return false, fmt.Errorf("check %s: %w", name, err)
	}
	fmt.Fprintln(out, inside.String())
	return report.OK() && inside.OK(), nil
}

// aroundShown bounds the operations that writeAround shows.
const aroundShown = 100

// writeAround shows what the sessions of a violation have done with its keys, and what others have written of them, up
// to when it was seen.
func writeAround(out io.Writer, h history.History, v history.Violation) {
	keys, sessions, until := map[string]bool{}, map[string]bool{}, int64(0)
	for _, i := range v.Ops {
		sessions[h[i].Session] = true
		until = max(until, h[i].End)
		for _, key := range h[i].Keys() {
			keys[key] = true
		}
	}
	var around []*history.Op
	for i := range h {
		op := &h[i]
		if op.Start <= until && (sessions[op.Session] || op.MayWrite()) && slices.ContainsFunc(op.Keys(),
			func(key string) bool { return keys[key] }) {
			around = append(around, op)
		}
	}
	slices.SortStableFunc(around, func(a, b *history.Op) int { return cmp.Compare(a.End, b.End) })
	if more := len(around) - aroundShown; more > 0 {
		around = around[more:]
	}
	fmt.Fprintln(out, "  what its sessions have read, and all have written, of the keys of the first one; in ms:")
	for _, op := range around {
		fmt.Fprintf(out, "    %11.3f %11.3f  %-8s %-8s %s\n", float64(op.Start)/1e6, float64(op.End)/1e6, op.DC,
			cmp.Or(op.Source, "-"), op)
	}
}

func readHistory(file string, stdin io.Reader) (history.History, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		defer f.Close()
		in = f
	}
	h, err := history.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("read history %s: %w", file, err)
	}
	return h, nil
}

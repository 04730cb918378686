package command

import (
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

package command

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/sidecar/history"
)

// exitError ends the program with a code of its own.
type exitError struct {
	error
	code int
}

// ExitCode is the exit code of the program.
func (e exitError) ExitCode() int { return e.code }

func (e exitError) Unwrap() error { return e.error }

// exitUnreadable is the exit code for a history that cannot be read.
const exitUnreadable = 2

// NewCheckCommand returns `causalstore check`.
func NewCheckCommand() *cobra.Command {
	var violations int
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Check recorded histories for causal consistency",
		Long: `Reads histories, JSON lines of what clients did and saw, and decides whether each was causally consistent, whether the
replicas converged and whether a write was lost. A FILE of - is standard input. "causalstore load --record" writes
histories; any other program may: one operation is one line,
  {"session":"s1","op":"put","key":"k","value":"v1","start":10,"end":25,"ok":true}
with times in nanoseconds, values unique for each key, and optionally the version that the store gave.

Exit codes: 0 all is well, 1 some history has violations, 2 some input cannot be read.`,
		Example: `  causalstore check history.jsonl
  zcat history.jsonl.gz | causalstore check -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			violated := false
			for _, file := range files {
				h, err := readHistory(file, cmd.InOrStdin())
				if err != nil {
					return exitError{err, exitUnreadable}
				}
				report := history.Check(h, history.Options{MaxViolations: violations})
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", file, report)
				violated = violated || !report.OK()
			}
			if violated {
				return errSilent
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&violations, "violations", 20, "how many violations of a history are explained; the rest are counted")
	return cmd
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

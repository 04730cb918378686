package kubectl

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/controllers/drill"
	"github.com/causalstore/causalstore/controllers/drill/record"
)

// drillEntry is what `drill list -o json` prints of a drill. Names of fields do not change.
type drillEntry struct {
	Name  string `json:"name"`
	Does  string `json:"does"`
	Tests string `json:"tests"`
	// CanRun is yes, no, or force: only with --force. Reason says why not.
	CanRun string `json:"canRun"`
	Reason string `json:"reason,omitempty"`
	// LastRun is the outcome of the last run and when it began, in UTC; never if there is none.
	LastRun string `json:"lastRun"`
}

func (c *cluster) drillListCommand(f *drillFlags) *cobra.Command {
	var o outputFlag
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the drills: what each tests, whether this cluster can run it, and how the last run ended",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			ctx := cmd.Context()
			k, s, err := c.drillStore(ctx, f)
			if err != nil {
				return err
			}
			runs, err := k.drillRuns(ctx, s)
			if err != nil {
				return err
			}
			l, known, err := k.lookForDrill(ctx, s)
			if err != nil {
				return err
			}
			var all []drillEntry
			for _, d := range drill.Catalogue() {
				p, err := drill.LookAhead(ctx, k, l, &d, drill.Choice{}, known)
				if err != nil {
					return err
				}
				can, why := canRun(p)
				all = append(all, drillEntry{d.Name, d.Does, d.Tests, can, why, lastRun(runs, d.Name)})
			}
			if o.isJSON() {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			return writeDrills(cmd.OutOrStdout(), all)
		},
	}
	o.register(cmd)
	return cmd
}

// canRun says whether a drill can run here: yes, no, or force; and if not yes, why.
func canRun(p *drill.Preflight) (can, why string) {
	switch {
	case len(p.Refused) > 0:
		return "no", p.Refused[0]
	case len(p.Doubts) > 0:
		return "force", p.Doubts[0]
	}
	return "yes", ""
}

func lastRun(runs []*record.Run, name string) string {
	for _, r := range runs {
		if r.Drill == name {
			return fmt.Sprintf("%s, %s", r.Outcome, r.Started.UTC().Format("2006-01-02 15:04"))
		}
	}
	return "never"
}

// listWidth is the width of a terminal that nobody has changed, in columns.
const listWidth = 80

// writeDrills writes a line for each drill, and below it what it does and why it cannot run, within listWidth.
func writeDrills(w io.Writer, all []drillEntry) error {
	summary := table{{"NAME", "CAN RUN", "LAST RUN"}}
	for _, d := range all {
		can := d.CanRun
		if can == "force" {
			can = "with --force"
		}
		summary.row(d.Name, can, d.LastRun)
	}
	var b strings.Builder
	if err := summary.write(&b); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	b.Reset()
	fmt.Fprintln(&b, lines[0])
	for i, d := range all {
		fmt.Fprintln(&b, lines[i+1])
		for _, text := range []string{d.Does, "tests that " + d.Tests, d.Reason} {
			writeIndented(&b, text)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeIndented writes a text in lines of at most listWidth columns. A longer word has a line of its own.
func writeIndented(w io.Writer, text string) {
	const indent = "    "
	line := indent
	for _, word := range strings.Fields(text) {
		if line != indent && len(line)+1+len(word) > listWidth {
			fmt.Fprintln(w, line)
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	if line != indent {
		fmt.Fprintln(w, line)
	}
}

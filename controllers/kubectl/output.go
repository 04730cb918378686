package kubectl

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// outputFlag selects the form in which a command shows what it has read.
type outputFlag struct{ format string }

func (f *outputFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.format, "output", "o", "text", "text, for people, or json, for programs")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"},
		cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

func (f *outputFlag) check() error {
	if f.format != "text" && f.format != "json" {
		return fmt.Errorf("--output %q: use text or json", f.format)
	}
	return nil
}

func (f *outputFlag) isJSON() bool { return f.format == "json" }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

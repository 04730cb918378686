package command

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestACommandLineThatIsNotUnderstoodIsAnErrorThatSaysWhy(t *testing.T) {
	ran := ""
	tree := func() *cobra.Command {
		run := func(cmd *cobra.Command, _ []string) error { ran = cmd.Name(); return nil }
		group := &cobra.Command{Use: "group", Short: "A group"}
		group.AddCommand(&cobra.Command{Use: "show STORE [RUN]", Args: cobra.RangeArgs(1, 2), RunE: run},
			&cobra.Command{Use: "list", Args: cobra.NoArgs, RunE: run},
			&cobra.Command{Use: "check FILE...", Args: cobra.MinimumNArgs(1), RunE: run})
		wait := &cobra.Command{Use: "wait", RunE: run}
		wait.Flags().Duration("at-most", time.Minute, "how long")
		group.AddCommand(wait)
		both := &cobra.Command{Use: "both", Args: cobra.NoArgs, RunE: run}
		both.AddCommand(&cobra.Command{Use: "verify", Args: cobra.NoArgs, RunE: run})
		root := &cobra.Command{Use: "program", SilenceUsage: true, SilenceErrors: true}
		root.AddCommand(group, both)
		checkArguments(root)
		return root
	}
	for _, c := range []struct{ line, ran, err string }{
		{"grou", "", `program has no command "grou"; did you mean group?`},
		{"nothing-like-it", "", `program has no command "nothing-like-it"; program --help lists its commands`},
		{"group shwo x", "", `program group has no command "shwo"; did you mean show?`},
		{"group bogus", "", `program group has no command "bogus"; program group --help lists its commands`},
		{"group", "", ""},
		{"group show", "", "STORE is missing; use: program group show STORE [RUN]"},
		{"group show a", "show", ""},
		{"group show a b c", "", `unexpected argument "c"; use: program group show STORE [RUN]`},
		{"group list x", "", `unexpected argument "x"; use: program group list`},
		{"group check", "", "FILE is missing; use: program group check FILE..."},
		{"group check a b c", "check", ""},
		{"group wait --at-most -5s", "", "--at-most -5s: it must not be negative"},
		{"group wait --at-most 0", "wait", ""},
		{"both", "both", ""},
		{"both verify", "verify", ""},
		{"both verfy", "", `program both has no command "verfy"; did you mean verify?`},
	} {
		ran = ""
		root := tree()
		root.SetArgs(strings.Fields(c.line))
		root.SetOut(io.Discard)
		text := ""
		if err := root.Execute(); err != nil {
			text = err.Error()
		}
		if text != c.err || ran != c.ran {
			t.Errorf("%q: %q, ran %q; want %q, %q", c.line, text, ran, c.err, c.ran)
		}
	}
}

package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checkArguments makes cmd and its subcommands refuse what they do not know, and times below 0, and name what is
// missing. A command that has only subcommands shows its help if it is given none of them, and fails if it is given an
// unknown one.
func checkArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		checkArguments(sub)
	}
	if cmd.HasSubCommands() {
		cmd.Args = refuseUnknown
		if !cmd.Runnable() {
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
		return
	}
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := refuseNegative(cmd.Flags()); err != nil || check == nil {
			return err
		}
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		names := argumentNames(cmd)
		switch missing := requiredNames(names); {
		case len(args) < len(missing):
			return fmt.Errorf("%s is missing; use: %s", strings.Join(missing[len(args):], " and "), usage(cmd))
		case len(args) > len(names) && !strings.HasSuffix(cmd.Use, "..."):
			return fmt.Errorf("unexpected argument %q; use: %s", args[len(names)], usage(cmd))
		}
		return err
	}
}

// refuseNegative refuses a time below 0, for any flag: no command can wait for that.
func refuseNegative(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "duration" && strings.HasPrefix(f.Value.String(), "-") && err == nil {
			err = fmt.Errorf("--%s %s: it must not be negative", f.Name, f.Value)
		}
	})
	return err
}

// refuseUnknown is the check of a command that has subcommands: whatever is left on the command line is none of them.
func refuseUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
	}
	return errors.New(text + "; " + cmd.CommandPath() + " --help lists its commands")
}

// argumentNames returns the arguments in the usage line of a command, such as STORE and [RUN].
func argumentNames(cmd *cobra.Command) (names []string) {
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if word != "[flags]" && !strings.HasPrefix(word, "-") {
			names = append(names, word)
		}
	}
	return names
}

func requiredNames(names []string) (required []string) {
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			required = append(required, strings.TrimSuffix(name, "..."))
		}
	}
	return required
}

func usage(cmd *cobra.Command) string {
	return strings.TrimSpace(cmd.CommandPath() + strings.TrimPrefix(cmd.Use, cmd.Name()))
}

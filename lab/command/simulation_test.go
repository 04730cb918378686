package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/command"
	"github.com/spf13/cobra"
)

// execute runs a command and returns what it wrote.
func execute(t *testing.T, cmd *cobra.Command, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd.SetIn(strings.NewReader(stdin))
	return executeUntil(t.Context(), cmd, args...)
}

// executeUntil executes a command that runs until ctx ends.
func executeUntil(ctx context.Context, cmd *cobra.Command, args ...string) (string, error) {
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

func wantAll(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

func TestSimReportsItsRun(t *testing.T) {
	out, err := execute(t, NewSimCommand(), "", "--seeds", "4", "--profile", "mixed", "--workers", "2")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantAll(t, out, "4 seeds in", "per second", "operations", "faults: ", "no violation")
}

func TestSimShowsTheSeedAndAShortHistoryOfAViolation(t *testing.T) {
	out, err := execute(t, NewSimCommand(), "", "--seeds", "4", "--profile", "mixed", "--mutation", "own-unchecked")
	if !errors.Is(err, command.ErrSilent) {
		t.Fatalf("the exit must say that something was wrong, not %v", err)
	}
	wantAll(t, out, "seeds with violations", "repeat with: causalstore sim --profile mixed --seed ",
		"part of the history")
}

func TestSimRefusesUnknownNames(t *testing.T) {
	for _, args := range [][]string{{"--mutation", "nonsense"}, {"--profile", "nonsense"}} {
		_, err := execute(t, NewSimCommand(), "", args...)
		if err == nil || !strings.Contains(err.Error(), args[0]) || !strings.Contains(err.Error(), `"nonsense"`) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestSimShowsWhatASeedDoesToAKey(t *testing.T) {
	out, err := execute(t, NewSimCommand(), "", "--profile", "caches", "--seed", "4711", "--messages", "k1")
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, out, "seed 4711 of profile caches, key k1", "put-after dc0.coordinator -> dc1.middleman/0: k1=",
		"dc0.middleman: stored k1=", "no violation")
	for want, args := range map[string][]string{
		"its keys are: k0 k1":       {"--profile", "caches", "--seed", "4711", "--messages", "nosuch"},
		"give it with --seed":       {"--messages", "k1"},
		"simulates groups alone":    {"--profile", "groups", "--seed", "1", "--messages", "k1"},
		"--profile: ":               {"--profile", "nonsense", "--seed", "1", "--messages", "k1"},
		"none of the others can be": {"--seed", "1", "--from", "2"},
	} {
		if _, err := execute(t, NewSimCommand(), "", args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestSimListsProfilesAndFaults(t *testing.T) {
	out, err := execute(t, NewSimCommand(), "", "--list")
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, out, "mixed ", "caches ", "skip-deps ", "lease-from-receipt ")
}

const (
	soundHistory = `{"session":"a","op":"put","key":"k","value":"1","start":1,"end":2,"ok":true}
{"session":"a","op":"get","key":"k","value":"1","start":3,"end":4,"ok":true}
`
	staleHistory = `{"session":"a","op":"put","key":"k","value":"1","start":1,"end":2,"ok":true}
{"session":"a","op":"put","key":"k","value":"2","start":3,"end":4,"ok":true}
{"session":"a","op":"get","key":"k","value":"1","start":5,"end":6,"ok":true}
`
)

func TestCheckChecksFilesAndStandardInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.jsonl")
	if err := os.WriteFile(file, []byte(soundHistory), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, NewCheckCommand(), "", file)
	if err != nil {
		t.Errorf("a sound history was refused: %v", err)
	}
	wantAll(t, out, file+": 2 operations", "causal+")

	out, err = execute(t, NewCheckCommand(), staleHistory, file, "-")
	if !errors.Is(err, command.ErrSilent) {
		t.Errorf("a stale read was let pass: %v", err)
	}
	wantAll(t, out, "-: 3 operations", "read-your-writes")
}

func TestCheckReportsTheLineThatItCannotRead(t *testing.T) {
	for name, input := range map[string]string{
		"line 3": soundHistory + "{nonsense\n",
		"line 1": `{"session":"a","op":"fly"}` + "\n",
	} {
		_, err := execute(t, NewCheckCommand(), input, "-")
		var coded interface{ ExitCode() int }
		if !errors.As(err, &coded) || coded.ExitCode() != 2 || !strings.Contains(err.Error(), name) {
			t.Errorf("unreadable %s: %v", name, err)
		}
	}
	_, err := execute(t, NewCheckCommand(), "", filepath.Join(t.TempDir(), "absent"))
	var coded interface{ ExitCode() int }
	if !errors.As(err, &coded) || coded.ExitCode() != 2 {
		t.Errorf("an absent file: %v", err)
	}
}

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/topology"
)

func TestExampleInHelpIsAValidConfiguration(t *testing.T) {
	var yaml strings.Builder
	for line := range strings.Lines(configHelp) {
		if text, ok := strings.CutPrefix(line, "  "); ok {
			yaml.WriteString(text)
		}
	}
	path := filepath.Join(t.TempDir(), "causalstore.yaml")
	if err := os.WriteFile(path, []byte(yaml.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, part := range []topology.Part{topology.Coordinator, topology.Cache} {
		// the other parts need the secrets that the file names
		f := processFlags{dataCenter: "eu-west-1"}
		if _, err := (process.Source{Path: path, Override: func(c *contract.Config) {
			f.override(c, func(flag string) bool { return flag == "index" })
		}}).Load(part); err != nil {
			t.Errorf("%s: %v\n%s", part, err, yaml.String())
		}
	}
}

func TestFlagsOverrideTheFile(t *testing.T) {
	c := contract.Config{DataCenter: "a", Index: 3, Member: 2, DataDir: "/old",
		Listen: contract.Listen{HTTP: ":1", GRPC: ":2"}}
	f := processFlags{dataCenter: "b", http: ":9", index: 0, member: 3}
	f.override(&c, func(string) bool { return false })
	if c.DataCenter != "b" || c.Listen.HTTP != ":9" || c.Index != 3 || c.Member != 2 || c.DataDir != "/old" ||
		c.Listen.GRPC != ":2" {
		t.Errorf("got %+v", c)
	}
	f.override(&c, func(string) bool { return true })
	if c.Index != 0 || c.Member != 3 {
		t.Errorf("--index 0 and --member 3 left them at %d and %d", c.Index, c.Member)
	}
}

func TestMissingConfigurationIsReported(t *testing.T) {
	for _, part := range []string{"sidecar", "coordinator", "middleman", "cache"} {
		root := NewRoot()
		root.SetArgs([]string{part})
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "config") {
			t.Errorf("%s: %v", part, err)
		}
		root.SetArgs([]string{part, "--config", "/nowhere.yaml"})
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "/nowhere.yaml") {
			t.Errorf("%s: %v", part, err)
		}
	}
}

type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ExitCode returns the code.
func (e exitCode) ExitCode() int { return int(e) }

func TestExecuteReturnsTheExitCodeOfTheError(t *testing.T) {
	args := os.Args
	defer func() { os.Args = args }()
	os.Args = []string{"causalstore", "fail"}
	for want, err := range map[int]error{0: nil, 1: ErrSilent, 2: fmt.Errorf("wrapped: %w", exitCode(2))} {
		fail := &cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error { return err }}
		if got := Execute(t.Context(), fail); got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
}

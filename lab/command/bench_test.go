package command

import (
	"io"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/lab/bench"
)

func TestBenchHasASubcommandForEachExperiment(t *testing.T) {
	have := map[string]bool{}
	for _, sub := range NewBenchCommand().Commands() {
		have[sub.Name()] = true
		for _, flag := range []string{"quick", "json", "dir", "report"} {
			if sub.Flags().Lookup(flag) == nil {
				t.Errorf("%s has no --%s", sub.Name(), flag)
			}
		}
	}
	for _, e := range bench.Experiments() {
		if !have[e.Name] || e.Short == "" || e.Long == "" {
			t.Errorf("%s has no subcommand, or says nothing of itself", e.Name)
		}
	}
	if len(have) != len(bench.Experiments()) {
		t.Errorf("subcommands %v", have)
	}
}

func TestBenchRefusesInvalidFlagsBeforeItMeasures(t *testing.T) {
	for args, want := range map[string]string{
		"overhead --rounds 0":                                   "--rounds",
		"overhead --pipelines 1,0":                              "--pipelines",
		"overhead --members 1,2":                                "need --processes",
		"overhead --processes --members 9":                      "--members",
		"overhead --quick --processes --profiles p":             "give --profile",
		"overhead --processes --near-copies 1":                  "--near-copies 1",
		"overhead --session-scopes pod":                         "--processes",
		"overhead --processes --session-scopes x":               "--session-scopes",
		"overhead --processes --members 1 --session-scopes pod": "give one or the other",
		"overhead --cases del":                                  "--cases",
		"workloads --seconds 0":                                 "--seconds",
		"workloads --reads newest":                              "--reads",
		"redis-benchmark --commands get,del":                    "--commands",
		"redis-benchmark --connections 0":                       "--connections",
		"paper --sections all":                                  `--sections: "all"`,
		"paper --sections=":                                     "--sections is empty",
		"paper --rounds 51":                                     "--rounds",
		"paper --seconds 3600":                                  "--seconds",
		"paper --think=-1":                                      "--think",
		"paper --read-ratio 1.5":                                "--read-ratio",
		"memory --objects 0":                                    "--objects",
		"limits --attacks charm":                                "half-sent",
		"limits --idle=-1":                                      "--idle",
		"idle --settle=-1":                                      "--settle",
		"near-copies --holders 0":                               "--holders",
		"near-copies --writes 0":                                "--writes",
		"faults --data-center x":                                `--data-center: unknown data center "x"`,
		"faults --cases fire":                                   `--cases: "fire"`,
		"faults --rate 0":                                       "--rate",
		"faults --read-ratio 0.01":                              "--read-ratio",
		"faults --during 0s":                                    "--during",
		"faults --members 4":                                    "--members",
		"faults --session-scope none":                           "--session-scope",
		"regions --forms plain,tubes":                           "--forms",
		"regions --delays 2s":                                   "--delays",
		"regions --backlog-mb 151":                              "--backlog-mb",
		"regions --shortest-cut 9s --longest-cut 1s":            "--longest-cut",
		"regions --quick --window-mb 0.01":                      "--window-mb",
	} {
		cmd := NewBenchCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(strings.Fields(args))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error with %q, got %v", args, want, err)
		}
	}
}

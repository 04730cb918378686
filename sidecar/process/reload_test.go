package process

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/topology"
)

func TestAChangeIsAppliedOrReportedOrRefusedAsAWhole(t *testing.T) {
	old := mustLoad(t, good, topology.Coordinator)
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(good) }
	for name, c := range map[string]struct {
		text                       string
		topology, addresses, level bool
		restart                    []string
		refused                    string
	}{
		"nothing":        {text: good},
		"an address":     {text: replace("10.1.0.1", "10.1.0.9"), addresses: true},
		"the log level":  {text: good + "log: {level: debug}", level: true},
		"the log format": {text: good + "log: {format: json}", restart: []string{"log.format"}},
		"an address and a limit": {text: replace("10.1.0.1", "10.1.0.9", "64Mi", "65Mi"), addresses: true,
			restart: []string{"limits"}},
		"the own port": {text: replace("10.2.0.1:7401", "10.2.0.1:7499"), addresses: true,
			restart: []string{"listen"}},
		"a lower epoch": {text: replace("epoch: 3", "epoch: 2", "64Mi", "65Mi"),
			refused: "epoch 2 is lower than 3"},
		"another layout, same epoch": {text: replace("america", "north-america"), refused: "its epoch is still 3"},
		"a higher epoch and an address": {text: replace("epoch: 3", "epoch: 4", "10.1.0.1", "10.1.0.9"),
			topology: true, addresses: true},
		"a higher epoch, another layout": {text: replace("epoch: 3", "epoch: 4", "america", "north-america"),
			restart: []string{"topology (epoch 4, in use is 3)"}},
		"a coordinator that leaves": {text: replace("epoch: 3", "epoch: 4", "{name: us}",
			"{name: us, coordinatorsBefore: 2}", `["10.1.0.1:7400"]`, `["10.1.0.1:7400", "10.1.0.4:7400"]`),
			topology: true, addresses: true},
		"an exclusion without a majority": {text: replace("epoch: 3", "epoch: 4", "{name: us}",
			"{name: us, exclusions: 1}"), refused: "to exclude us leaves 1 of 2 rings"},
		"an exclusion of the tie-breaker": {text: replace("epoch: 3", "epoch: 4\n  tieBreaker: us", "{name: us}",
			"{name: us, exclusions: 1}"), refused: "to exclude us leaves 1 of 2 rings"},
		"an exclusion by the tie-breaker": {text: replace("epoch: 3", "epoch: 4\n  tieBreaker: eu", "{name: us}",
			"{name: us, exclusions: 1}"), topology: true},
		"an exclusion by force": {text: replace("epoch: 3", "epoch: 4", "{name: us}",
			"{name: us, exclusions: 1, forceExclusion: 1}"), topology: true},
		"an exclusion, and a change of rings": {text: replace("epoch: 3", "epoch: 4", "{name: us}",
			"{name: us, exclusions: 1}", "america", "north-america"), refused: "to exclude us"},
		"a tie-breaker, same epoch": {text: replace("epoch: 3", "epoch: 3\n  tieBreaker: us"),
			refused: "its epoch is still 3"},
		"latencies": {text: replace("epoch: 3", "epoch: 3\n  roundTripMs: {us: {eu: 80}}"),
			restart: []string{"topology.roundTripMs"}},
		"binding and session": {text: replace("static", "dynamic", "snapshot", "latest"),
			restart: []string{"session", "binding"}},
	} {
		got := compareSettings(old, mustLoad(t, c.text, topology.Coordinator))
		if c.refused != "" {
			if got.refused == nil || !strings.Contains(got.refused.Error(), c.refused) {
				t.Errorf("%s: want a refusal with %q, got %+v", name, c.refused, got)
			}
			continue
		}
		if got.refused != nil || got.topology != c.topology || got.addresses != c.addresses || got.level != c.level ||
			!slices.Equal(got.restart, c.restart) {
			t.Errorf("%s: got %+v, want %+v", name, got, c)
		}
	}
}

// volume is a folder with a configuration as Kubernetes mounts it: the file is a link through ..data, and an update
// replaces ..data.
type volume struct {
	t     *testing.T
	dir   string
	count int
}

func (v *volume) write(text string) {
	v.t.Helper()
	v.count++
	version := fmt.Sprintf("..version%d", v.count)
	for _, err := range []error{
		os.Mkdir(filepath.Join(v.dir, version), 0o700),
		os.WriteFile(filepath.Join(v.dir, version, "config.yaml"), []byte(text), 0o600),
		os.Symlink(version, filepath.Join(v.dir, "..data_tmp")),
		os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data")),
	} {
		if err != nil {
			v.t.Fatal(err)
		}
	}
}

func TestASwappedConfigMapIsReloadedAtOnce(t *testing.T) {
	v := &volume{t: t, dir: t.TempDir()}
	v.write(good)
	path := filepath.Join(v.dir, "config.yaml")
	if err := os.Symlink(filepath.Join("..data", "config.yaml"), path); err != nil {
		t.Fatal(err)
	}
	source := Source{Path: path}
	set, err := source.Load(topology.Coordinator)
	if err != nil {
		t.Fatal(err)
	}
	book, level := newAddressBook(set.addresses), &slog.LevelVar{}
	r := newReloader(set, source, book, level, func(*topology.Topology) error { return nil }, nil)
	defer r.watch(slog.New(slog.DiscardHandler))()

	first := topology.Node{Part: topology.Coordinator, Member: 1}
	v.write(strings.Replace(good, "10.1.0.1", "10.1.0.9", 1) + "log: {level: warn}")
	await(t, "the new address", func() bool {
		addr, _ := book.addressOf(first)
		return addr == "10.1.0.9:7400" && level.Level() == slog.LevelWarn
	})

	v.write("topology: nonsense")
	await(t, "a refused file", func() bool { _, problem := r.state(); return problem != nil })
	v.write(strings.Replace(good, "64Mi", "65Mi", 1))
	await(t, "a change that needs a restart", func() bool {
		pending, problem := r.state()
		return problem == nil && slices.Equal(pending, []string{"limits"})
	})
	if addr, _ := book.addressOf(first); addr != "10.1.0.1:7400" {
		t.Errorf("the address is %s", addr)
	}
	v.write(good)
	await(t, "no change that needs a restart", func() bool { pending, _ := r.state(); return len(pending) == 0 })
	if r.reloads[outcomeRefused] != 1 || r.reloads[outcomeRestart] != 1 || r.reloads[outcomeApplied] != 2 {
		t.Errorf("counted %v", r.reloads)
	}
}

// await polls a condition that sends no notification.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute) // the poll comes later
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

package edge_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	_ "github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/edge"
)

const inputFile = "input.yaml"

// goldenInputs returns the inputs of the golden files, by the name of their folder.
func goldenInputs(t *testing.T) map[string]edge.Input {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", "*", inputFile))
	if err != nil || len(found) == 0 {
		t.Fatalf("%v, %v", found, err)
	}
	all := map[string]edge.Input{}
	for _, file := range found {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var in edge.Input
		if err := yaml.UnmarshalStrict(b, &in); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(filepath.Dir(file))] = in
	}
	return all
}

func configured(t *testing.T, in edge.Input) map[string]string {
	t.Helper()
	files, err := edge.Configure(in)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// With -rewrite the golden files are written instead.
func TestConfigurationsMatchTheGoldenFiles(t *testing.T) {
	for name, in := range goldenInputs(t) {
		t.Run(name, func(t *testing.T) {
			got, dir := configured(t, in), filepath.Join("testdata", name)
			want := map[string]string{}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Name() == inputFile {
					continue
				}
				b, err := os.ReadFile(filepath.Join(dir, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				want[e.Name()] = string(b)
			}
			if flag.Lookup("rewrite").Value.String() == "true" { // the flag of datadriven
				rewrite(t, dir, want, got)
				return
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf(
					"the files differ from the golden files (-want +got); run with -rewrite if this is intended:\n%s",
					d)
			}
		})
	}
}

func rewrite(t *testing.T, dir string, old, files map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheOrderOfPartsAndPeersDoesNotMatter(t *testing.T) {
	for name, in := range goldenInputs(t) {
		want := configured(t, in)
		in.Parts, in.Peers = slices.Clone(in.Parts), slices.Clone(in.Peers)
		slices.Reverse(in.Parts)
		slices.Reverse(in.Peers)
		if d := cmp.Diff(want, configured(t, in)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestOnlyTheStoreAndTheDataCenterNeedARestart: Envoy reads all other files again.
func TestOnlyTheStoreAndTheDataCenterNeedARestart(t *testing.T) {
	bootstraps := map[string]bool{}
	for _, in := range goldenInputs(t) {
		bootstraps[configured(t, in)[edge.BootstrapFile]] = true
		in.Parts, in.Peers = nil, nil
		bootstraps[configured(t, in)[edge.BootstrapFile]] = true
	}
	if len(bootstraps) != 1 {
		t.Errorf("%d bootstrap files for one data center of one store, want 1", len(bootstraps))
	}
}

func TestInputsThatEnvoyCannotServeAreRefused(t *testing.T) {
	for about, change := range map[string]func(*edge.Input){
		"no store":                       func(in *edge.Input) { in.StoreID = "" },
		"a data center that is no label": func(in *edge.Input) { in.DataCenter = "us.east" },
		"a bundle that is no bundle":     func(in *edge.Input) { in.Bundle = "PEM" },
		"a bundle with rubbish inside": func(in *edge.Input) {
			in.Bundle = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
		},
		"a peer without bundle":                   func(in *edge.Input) { in.Peers[0].Bundle = "" },
		"a peer with a trust domain that is none": func(in *edge.Input) { in.Peers[0].TrustDomain = "EU" },
		"two bundles of one trust domain":         func(in *edge.Input) { in.Peers[0].TrustDomain = in.TrustDomain },
		"a peer without port":                     func(in *edge.Input) { in.Peers[0].Address = "edge.example.com" },
		"a peer that is the data center itself":   func(in *edge.Input) { in.Peers[0].DataCenter = in.DataCenter },
		"a peer twice":                            func(in *edge.Input) { in.Peers = append(in.Peers, in.Peers[0]) },
		"a part of another data center": func(in *edge.Input) {
			in.Parts[0].Name = "cache-0.eu-west-1." + in.StoreID
		},
		"a part that is all parts": func(in *edge.Input) { in.Parts[0].Name = "*." + in.DataCenter + "." + in.StoreID },
		"a part twice":             func(in *edge.Input) { in.Parts = append(in.Parts, in.Parts[0]) },
		"a part without host":      func(in *edge.Input) { in.Parts[0].Address = ":7400" },
	} {
		in := goldenInputs(t)["two-regions"]
		change(&in)
		if files, err := edge.Configure(in); err == nil {
			t.Errorf("%s: configured with %d files", about, len(files))
		}
	}
}

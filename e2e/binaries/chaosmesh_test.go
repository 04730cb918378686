package binaries

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestTheErrorWithoutChaosMeshSaysHowToGetIt(t *testing.T) {
	noPrograms(t)
	if _, err := FindChaosMesh(t.Context()); !errors.Is(err, ErrNoChaosMesh) || !strings.Contains(err.Error(), "make chaos-mesh") {
		t.Errorf("got %v", err)
	}
}

func TestProgramsOfAnotherVersionThanTheChartAreRefused(t *testing.T) {
	self, err := os.Executable() // contains no Chaos Mesh
	if err != nil {
		t.Fatal(err)
	}
	err = ChaosMesh{Controller: self, Daemon: self, Helper: self, Version: "v1.2.3"}.checkVersions(map[string]string{chaosMeshModule: "v1.2.3"})
	if err == nil || !strings.Contains(err.Error(), "built from version unknown") || !strings.Contains(err.Error(), "make chaos-mesh") {
		t.Errorf("got %v", err)
	}
}

func TestImagesOfChaosMeshAreNamedAfterTheCommit(t *testing.T) {
	if tag := (ChaosMesh{Version: "v0.9.1-0.20260902003049-47411975a8cb"}).Tag(); tag != "47411975a8cb" {
		t.Errorf("tag %s", tag)
	}
}

func TestTheVersionsOfChaosMeshArePinned(t *testing.T) {
	versions, err := pinnedVersions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{chaosMeshModule, chaosMeshAPIModule} {
		if !strings.HasPrefix(versions[path], "v0.") {
			t.Errorf("version of %s: %q", path, versions[path])
		}
	}
}

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
	err = ChaosMesh{Controller: self, Daemon: self, Helper: self, Version: "v0.9.1-0.20260902003049-47411975a8cb"}.checkVersions()
	if err == nil || !strings.Contains(err.Error(), "built from version unknown") || !strings.Contains(err.Error(), "make chaos-mesh") {
		t.Errorf("got %v", err)
	}
}

func TestImagesOfChaosMeshAreNamedAfterTheCommit(t *testing.T) {
	if tag := (ChaosMesh{Version: "v0.9.1-0.20260902003049-47411975a8cb"}).Tag(); tag != "47411975a8cb" {
		t.Errorf("tag %s", tag)
	}
}

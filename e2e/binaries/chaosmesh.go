package binaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// ErrNoChaosMesh is returned if Chaos Mesh is not in the cache.
var ErrNoChaosMesh = errors.New("no Chaos Mesh found; build it with `make chaos-mesh`")

const chaosMeshModule = "github.com/chaos-mesh/chaos-mesh"

// ChaosMesh are the programs of Chaos Mesh, and its Helm chart with the CRDs. All are of one version of its module.
type ChaosMesh struct {
	Controller, Daemon, Helper string
	// Chart is the directory of the chart, which may not be writable.
	Chart string
	// Version is that of the module.
	Version string
}

// Tag is a name for images of this version: the commit.
func (c ChaosMesh) Tag() string { return c.Version[strings.LastIndex(c.Version, "-")+1:] }

// programs maps the paths of programs to their packages.
func (c ChaosMesh) programs() map[string]string {
	return map[string]string{c.Controller: "chaos-controller-manager", c.Daemon: "chaos-daemon", c.Helper: "chaos-daemon-helper"}
}

// FindChaosMesh returns Chaos Mesh from the archive chaos.tar.xz of the cache, or what BuildChaosMesh has left there. The chart comes from
// the module, which it downloads if necessary.
func FindChaosMesh(ctx context.Context) (ChaosMesh, error) {
	dir, err := chaosMeshFolder(ctx)
	if err != nil {
		return ChaosMesh{}, err
	}
	c := chaosMeshIn(dir)
	for program := range c.programs() {
		if !exists(program) {
			return ChaosMesh{}, ErrNoChaosMesh
		}
	}
	if err := c.addChart(ctx); err != nil {
		return ChaosMesh{}, err
	}
	return c, c.checkVersions()
}

func chaosMeshIn(dir string) ChaosMesh {
	return ChaosMesh{Controller: filepath.Join(dir, "chaos-controller-manager"), Daemon: filepath.Join(dir, "chaos-daemon"), Helper: filepath.Join(dir, "cdh")}
}

// chaosMeshFolder returns the directory of the programs, which need not exist.
func chaosMeshFolder(ctx context.Context) (string, error) {
	home, err := cache()
	if err != nil {
		return "", err
	}
	if archive := filepath.Join(home, "chaos.tar.xz"); exists(archive) {
		dir, err := unpack(ctx, archive, "chaos")
		if err != nil {
			err = fmt.Errorf("unpack %s: %w", archive, err)
		}
		return dir, err
	}
	source, err := sourceFolder()
	if err != nil {
		return "", err
	}
	pins, err := os.ReadFile(filepath.Join(source, "chaosmesh", "go.mod"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(pins)
	return filepath.Join(home, "chaos-mesh", "built-"+hex.EncodeToString(sum[:6])), nil
}

// BuildChaosMesh builds Chaos Mesh from its Go module, unless it is in the cache. It takes about 15 CPU-minutes.
func BuildChaosMesh(ctx context.Context, progress io.Writer) (ChaosMesh, error) {
	c, err := FindChaosMesh(ctx)
	if !errors.Is(err, ErrNoChaosMesh) {
		return c, err
	}
	dir, err := chaosMeshFolder(ctx)
	if err != nil {
		return c, err
	}
	source, err := sourceFolder()
	if err != nil {
		return c, err
	}
	// The daemon changes clocks of processes with C code. The tags leave C code out of everything else.
	m := module{dir: "chaosmesh", tags: "netgo osusergo", cgo: true}
	for program, pkg := range chaosMeshIn(dir).programs() {
		if err := m.build(ctx, progress, source, program, chaosMeshModule+"/cmd/"+pkg); err != nil {
			return c, fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	return FindChaosMesh(ctx)
}

// addChart finds the chart in the pinned version of the module.
func (c *ChaosMesh) addChart(ctx context.Context) error {
	source, err := sourceFolder()
	if err != nil {
		return err
	}
	var out, problem bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", chaosMeshModule)
	cmd.Dir = filepath.Join(source, "chaosmesh")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("download the chart of Chaos Mesh: %w: %s%s", err, bytes.TrimSpace(problem.Bytes()), bytes.TrimSpace(out.Bytes()))
	}
	var found struct{ Dir, Version string }
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return fmt.Errorf("find the chart of Chaos Mesh: %w", err)
	}
	c.Chart, c.Version = filepath.Join(found.Dir, "helm", "chaos-mesh"), found.Version
	return nil
}

// checkVersions checks that the programs were built from the version that the chart is of. Other versions refuse updates of their own
// experiments, because they disagree with the CRDs about the fields.
func (c ChaosMesh) checkVersions() error {
	for program := range c.programs() {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		if got := versionOf(info, chaosMeshModule); got != c.Version {
			return fmt.Errorf("%s was built from version %s of Chaos Mesh, and the chart is of %s: remove the program, or the archive that it comes from, and run `make chaos-mesh`",
				program, got, c.Version)
		}
	}
	return nil
}

// versionOf returns the version of a module in a program.
func versionOf(info *debug.BuildInfo, path string) string {
	if info.Main.Path == path {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == path {
			return d.Version
		}
	}
	return "unknown"
}

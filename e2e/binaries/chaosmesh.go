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

// The modules of Chaos Mesh: its programs and its chart, and the Go types of its resources.
const (
	chaosMeshModule    = "github.com/chaos-mesh/chaos-mesh"
	chaosMeshAPIModule = chaosMeshModule + "/api"
)

// ChaosMesh are the programs of Chaos Mesh, and its Helm chart with CRDs of the Go types that are compiled into the programs.
type ChaosMesh struct {
	Controller, Daemon, Helper string
	// Chart is the directory of the chart.
	Chart string
	// Version is that of the module of the programs.
	Version string
}

// Tag is a name for images of this version: the commit.
func (c ChaosMesh) Tag() string { return c.Version[strings.LastIndex(c.Version, "-")+1:] }

// programs maps the paths of programs to their packages.
func (c ChaosMesh) programs() map[string]string {
	return map[string]string{c.Controller: "chaos-controller-manager", c.Daemon: "chaos-daemon", c.Helper: "chaos-daemon-helper"}
}

// FindChaosMesh returns the programs from the archive chaos.tar.xz of the cache, or those that BuildChaosMesh has left there, with the chart
// that it has left there.
func FindChaosMesh(ctx context.Context) (ChaosMesh, error) {
	c, err := locateChaosMesh(ctx)
	if err != nil {
		return ChaosMesh{}, err
	}
	for _, file := range []string{c.Controller, c.Daemon, c.Helper, c.Chart} {
		if !exists(file) {
			return ChaosMesh{}, ErrNoChaosMesh
		}
	}
	versions, err := pinnedVersions(ctx)
	if err != nil {
		return ChaosMesh{}, err
	}
	c.Version = versions[chaosMeshModule]
	return c, c.checkVersions(versions)
}

// locateChaosMesh returns where everything is, or will be built.
func locateChaosMesh(ctx context.Context) (ChaosMesh, error) {
	home, err := cache()
	if err != nil {
		return ChaosMesh{}, err
	}
	source, err := sourceFolder()
	if err != nil {
		return ChaosMesh{}, err
	}
	pins, err := os.ReadFile(filepath.Join(source, "chaosmesh", "go.mod"))
	if err != nil {
		return ChaosMesh{}, err
	}
	sum := sha256.Sum256(pins)
	dir := filepath.Join(home, "chaos-mesh", "built-"+hex.EncodeToString(sum[:6]))
	chart := filepath.Join(dir, "chart")
	if archive := filepath.Join(home, "chaos.tar.xz"); exists(archive) {
		if dir, err = unpack(ctx, archive, "chaos"); err != nil {
			return ChaosMesh{}, fmt.Errorf("unpack %s: %w", archive, err)
		}
	}
	return ChaosMesh{Chart: chart, Controller: filepath.Join(dir, "chaos-controller-manager"), Daemon: filepath.Join(dir, "chaos-daemon"),
		Helper: filepath.Join(dir, "cdh")}, nil
}

// BuildChaosMesh builds Chaos Mesh from its Go modules, unless it is in the cache. The programs take about 15 CPU-minutes.
func BuildChaosMesh(ctx context.Context, progress io.Writer) (ChaosMesh, error) {
	found, err := FindChaosMesh(ctx)
	if !errors.Is(err, ErrNoChaosMesh) {
		return found, err
	}
	c, err := locateChaosMesh(ctx)
	if err != nil {
		return c, err
	}
	source, err := sourceFolder()
	if err != nil {
		return c, err
	}
	// The daemon traces processes with C code. The tags leave C code out of everything else.
	m := module{dir: "chaosmesh", tags: "netgo osusergo", cgo: true}
	for program, pkg := range c.programs() {
		if err := m.build(ctx, progress, source, program, chaosMeshModule+"/cmd/"+pkg); err != nil {
			return c, fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	if err := c.makeChart(ctx, source); err != nil {
		return c, fmt.Errorf("make the chart of Chaos Mesh: %w", err)
	}
	return FindChaosMesh(ctx)
}

// makeChart copies the chart of the module, with CRDs that are generated from the Go types that the programs have. The two modules are not
// of the same commit, because the module proxy has no such pair, and the CRDs in the chart lack a field of the types. The API server would
// drop it, and the webhook, which sets it, would take each update of an experiment for a change of its spec, and refuse it.
func (c ChaosMesh) makeChart(ctx context.Context, source string) error {
	if exists(c.Chart) {
		return nil
	}
	pins := filepath.Join(source, "chaosmesh")
	text, err := goCommand(ctx, pins, "mod", "download", "-json", chaosMeshModule)
	if err != nil {
		return err
	}
	var from struct{ Dir string }
	if err := json.Unmarshal(text, &from); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.Chart), 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(c.Chart), ".chart-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	chart, generator := filepath.Join(scratch, "chart"), filepath.Join(scratch, "controller-gen")
	crds := filepath.Join(chart, "crds")
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(from.Dir, "helm", "chaos-mesh"))); err != nil {
		return err
	}
	if err := os.RemoveAll(crds); err != nil {
		return err
	}
	if _, err := goCommand(ctx, source, "build", "-o", generator, "sigs.k8s.io/controller-tools/cmd/controller-gen"); err != nil {
		return err
	}
	generate := exec.CommandContext(ctx, generator, "crd:ignoreUnexportedFields=true", "paths="+chaosMeshAPIModule+"/v1alpha1", "output:crd:dir="+crds)
	generate.Dir, generate.Env = pins, ownModule()
	if out, err := generate.CombinedOutput(); err != nil {
		return fmt.Errorf("controller-gen: %w: %s", err, bytes.TrimSpace(out))
	}
	if err := os.Rename(chart, c.Chart); err != nil && !exists(c.Chart) { // another process may have been faster
		return err
	}
	return nil
}

// ownModule returns the environment of commands in a directory with a module of its own.
func ownModule() []string { return append(os.Environ(), "GOWORK=off", "GOFLAGS=") }

// goCommand runs a command of Go in a directory and returns its output.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, ownModule()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// pinnedVersions returns the versions of the modules of Chaos Mesh.
func pinnedVersions(ctx context.Context) (map[string]string, error) {
	source, err := sourceFolder()
	if err != nil {
		return nil, err
	}
	out, err := goCommand(ctx, filepath.Join(source, "chaosmesh"), "list", "-m", "-f", "{{.Path}} {{if .Replace}}{{.Replace.Version}}{{else}}{{.Version}}{{end}}",
		chaosMeshModule, chaosMeshAPIModule)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		versions[path] = version
	}
	return versions, nil
}

// checkVersions checks that the programs were built from these versions of the modules.
func (c ChaosMesh) checkVersions(versions map[string]string) error {
	for program := range c.programs() {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		for path, want := range versions {
			if program == c.Helper && path == chaosMeshAPIModule {
				continue // it uses no resource
			}
			if got := versionOf(info, path); got != want {
				return fmt.Errorf("%s was built from version %s of %s, and the chart is of %s: remove the program, or the archive that it comes from, and run `make chaos-mesh`",
					program, got, path, want)
			}
		}
	}
	return nil
}

// versionOf returns the version of a module in a program.
func versionOf(info *debug.BuildInfo, path string) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == path {
			if m.Replace != nil {
				return m.Replace.Version
			}
			return m.Version
		}
	}
	return "unknown"
}

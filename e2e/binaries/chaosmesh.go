package binaries

import (
	"bytes"
	"cmp"
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
	"runtime"
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

// ChaosMesh are the programs of Chaos Mesh, and its Helm chart with CRDs of the Go types that are compiled into the
// programs.
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
	return map[string]string{c.Controller: "chaos-controller-manager", c.Daemon: "chaos-daemon",
		c.Helper: "chaos-daemon-helper"}
}

// FindChaosMesh returns the programs from the archive chaos.tar.xz of the cache, or those that BuildChaosMesh has left
// there, with the chart that it has left there.
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
	return ChaosMesh{Chart: chart, Controller: filepath.Join(dir, "chaos-controller-manager"),
		Daemon: filepath.Join(dir, "chaos-daemon"),
		Helper: filepath.Join(dir, "cdh")}, nil
}

// BuildChaosMesh builds Chaos Mesh from its Go modules, unless it is in the cache. The programs take about 15
// CPU-minutes.
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
		from := source
		if program == c.Daemon && !exists(c.Daemon) {
			scratch, err := sourceWithClocks(ctx, source)
			if err != nil {
				return c, fmt.Errorf("compile the code that replaces clocks: %w", err)
			}
			defer func() { _ = os.RemoveAll(scratch) }()
			from = scratch
		}
		if err := m.build(ctx, progress, from, program, chaosMeshModule+"/cmd/"+pkg); err != nil {
			return c, fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	if err := c.makeChart(ctx, source); err != nil {
		return c, fmt.Errorf("make the chart of Chaos Mesh: %w", err)
	}
	return FindChaosMesh(ctx)
}

// clockSources is the folder in the module with the C code that TimeChaos puts into processes. The daemon embeds it
// compiled, and the module has the sources only.
const clockSources = "pkg/time/fakeclock"

// sourceWithClocks returns a folder to build the daemon from: it pins a copy of the module with compiled clock code.
// Without a C compiler the daemon is built without it, and TimeChaos does not work.
func sourceWithClocks(ctx context.Context, source string) (scratch string, err error) {
	compiler, missing := exec.LookPath(cmp.Or(os.Getenv("CC"), "cc"))
	if scratch, err = os.MkdirTemp("", "causalstore-chaos-"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(scratch)
		}
	}()
	pins := filepath.Join(scratch, "chaosmesh")
	if err := os.CopyFS(pins, os.DirFS(filepath.Join(source, "chaosmesh"))); err != nil || missing != nil {
		return scratch, err
	}
	original, err := moduleFolder(ctx, pins)
	if err != nil {
		return "", err
	}
	module := filepath.Join(scratch, "module")
	if err := os.CopyFS(module, os.DirFS(original)); err != nil {
		return "", err
	}
	if err := compileClocks(ctx, compiler, filepath.Join(module, clockSources)); err != nil {
		return "", err
	}
	_, err = goCommand(ctx, pins, "mod", "edit", "-replace", chaosMeshModule+"="+module)
	return scratch, err
}

// compileClocks compiles every C file of a folder as the module's own Makefile does.
func compileClocks(ctx context.Context, compiler, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.c"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no C code", dir)
	}
	for _, file := range files {
		args := []string{"-c", file, "-fPIE", "-O2", "-o", strings.TrimSuffix(file, ".c") + ".o"}
		if runtime.GOARCH == "arm64" {
			args = append(args, "-mcmodel=tiny")
		}
		if out, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", filepath.Base(file), err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// moduleFolder returns where the module of the programs is.
func moduleFolder(ctx context.Context, pins string) (string, error) {
	text, err := goCommand(ctx, pins, "mod", "download", "-json", chaosMeshModule)
	if err != nil {
		return "", err
	}
	var from struct{ Dir string }
	err = json.Unmarshal(text, &from)
	return from.Dir, err
}

// makeChart copies the chart of the module, with CRDs that are generated from the Go types that the programs have. The
// two modules are not of the same commit, because the module proxy has no such pair, and the CRDs in the chart lack a
// field of the types. The API server would drop it, and the webhook, which sets it, would take each update of an
// experiment for a change of its spec, and refuse it.
func (c ChaosMesh) makeChart(ctx context.Context, source string) error {
	if exists(c.Chart) {
		return nil
	}
	pins := filepath.Join(source, "chaosmesh")
	module, err := moduleFolder(ctx, pins)
	if err != nil {
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
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(module, "helm", "chaos-mesh"))); err != nil {
		return err
	}
	if err := os.RemoveAll(crds); err != nil {
		return err
	}
	if _, err := goCommand(ctx, source, "build", "-o", generator,
		"sigs.k8s.io/controller-tools/cmd/controller-gen"); err != nil {
		return err
	}
	generate := exec.CommandContext(ctx, generator, "crd:ignoreUnexportedFields=true",
		"paths="+chaosMeshAPIModule+"/v1alpha1", "output:crd:dir="+crds)
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
	out, err := goCommand(ctx, filepath.Join(source, "chaosmesh"), "list", "-m", "-f",
		"{{.Path}} {{if .Replace}}{{.Replace.Version}}{{else}}{{.Version}}{{end}}",
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
				return fmt.Errorf(
					"%s was built from version %s of %s, and the chart is of %s: remove the program, or the archive "+
						"that it comes from, and run `make chaos-mesh`",
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
			if m.Replace != nil && m.Replace.Version != "(devel)" { // a copy in a folder has no version
				return m.Replace.Version
			}
			return m.Version
		}
	}
	return "unknown"
}

package binaries

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// programs creates a directory of programs that print their names.
func programs(t *testing.T, dir string, names ...string) string {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+name+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// noPrograms hides the programs of this machine from a test and returns its empty cache.
func noPrograms(t *testing.T) (cache string) {
	t.Helper()
	cache = t.TempDir()
	t.Setenv(EnvBinaries, "")
	t.Setenv(EnvAssets, "")
	t.Setenv(EnvCache, cache)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return cache
}

func TestANamedDirectoryIsUsedAndMissingProgramsAreNamed(t *testing.T) {
	noPrograms(t)
	dir := programs(t, t.TempDir(), "etcd", "hyperkube", "cni/bridge")
	t.Setenv(EnvBinaries, dir)
	f, err := Find(t.Context(), "etcd", "kube-apiserver", "kubelet", "cni/bridge")
	if err != nil {
		t.Fatal(err)
	}
	if path, err := f.Path("kubectl"); err != nil || path != filepath.Join(dir, "hyperkube") {
		t.Errorf("kubectl is %s (%v), want hyperkube", path, err)
	}
	_, err = Find(t.Context(), "etcd", "containerd", "helm")
	if err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), EnvBinaries+": no containerd") ||
		!strings.Contains(err.Error(), "no helm") {
		t.Errorf("missing programs: %v", err)
	}
}

func TestTheErrorWithoutProgramsSaysHowToGetThem(t *testing.T) {
	noPrograms(t)
	if _, err := Find(t.Context(), "etcd"); !errors.Is(err, ErrNone) ||
		!strings.Contains(err.Error(), "make kubernetes") {
		t.Errorf("got %v", err)
	}
}

func TestAnArchiveInTheCacheIsUnpackedOnceOutsideOfIt(t *testing.T) {
	cache := noPrograms(t)
	from := t.TempDir()
	programs(t, filepath.Join(from, "kube"), "etcd", "kube-apiserver")
	if said, err := exec.Command("tar", "-cJf", filepath.Join(cache, "kube.tar.xz"), "-C", from,
		"kube").CombinedOutput(); err != nil {
		t.Skipf("tar cannot make the archive: %v\n%s", err, said)
	}
	first, err := Find(t.Context(), "etcd", "kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(first.Dir, "mark")
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := Find(t.Context(), "etcd")
	if err != nil || again.Dir != first.Dir || !exists(mark) {
		t.Errorf("second call returned %s (%v), first one %s", again.Dir, err, first.Dir)
	}
	if kept, err := os.ReadDir(cache); err != nil || len(kept) != 1 {
		t.Errorf("the cache contains %v (%v), want only the archive", kept, err)
	}
}

func TestOnlyACompleteBuildIsFoundInTheCache(t *testing.T) {
	cache := noPrograms(t)
	dir, err := buildFolder()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(dir, cache) {
		t.Errorf("programs are built in %s, not in the cache %s", dir, cache)
	}
	programs(t, dir, "hyperkube")
	if _, err := Find(t.Context(), "etcd"); !errors.Is(err, ErrNone) {
		t.Errorf("an incomplete build was used (%v)", err)
	}
	if err := os.WriteFile(filepath.Join(dir, built), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Find(t.Context(), "etcd", "kubelet")
	if err != nil || f.Dir != dir {
		t.Errorf("found %s (%v), want %s", f.Dir, err, dir)
	}
}

func TestAProgramIsCalledByItsName(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hyperkube"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd, err := Folder{Dir: dir}.Command("kube-scheduler", "--help")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"kube-scheduler", "--help"}; !slices.Equal(cmd.Args, want) ||
		cmd.Path != filepath.Join(dir, "hyperkube") {
		t.Errorf("%s is called with arguments %q", cmd.Path, cmd.Args)
	}
}

func TestEveryProgramIsBuiltFromAModuleThatPinsItsVersion(t *testing.T) {
	made := map[string]bool{"etcd": true} // part of hyperkube
	for _, m := range modules {
		for name := range m.programs {
			made[name] = true
		}
		text, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if m.dir == "kubernetes" && !strings.Contains(string(text), "k8s.io/kubernetes v"+version+"\n") {
			t.Errorf("kubernetes/go.mod does not pin version v%s, which the programs report", version)
		}
	}
	for _, name := range All() {
		if !made[name] && (!slices.Contains(kubernetes, name) || !made["hyperkube"]) {
			t.Errorf("no module builds %s", name)
		}
	}
}

package processes_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/causalstore/causalstore/contract"
)

// smallVolume mounts a file system of a few megabytes.
func smallVolume(t *testing.T, mib int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all space of a volume; what it returns gives it back.
func fill(t *testing.T, dir string) (release func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	must(t, err)
	for size := 1 << 20; size > 0; {
		if n, err := f.Write(make([]byte, size)); err != nil && n == 0 {
			size /= 2
		}
	}
	must(t, f.Close())
	return func() { must(t, os.Remove(name)) }
}

// awaitNotReady waits until a process reports that it is not ready, and in a state.
func (d *deployment) awaitNotReady(t *testing.T, p *proc, state contract.State) {
	t.Helper()
	eventually(t, p.name+" to report "+string(state), func() error {
		status, _, err := p.get("/readyz")
		if err != nil {
			return err
		}
		r, err := p.readiness()
		if err == nil && (status != http.StatusServiceUnavailable || r.State != state) {
			err = fmt.Errorf("%d %+v", status, r)
		}
		return err
	})
}

// errorLines returns the number of errors in the log of a process.
func (p *proc) errorLines(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(p.log)
	must(t, err)
	return strings.Count(string(b), "level=ERROR")
}

func TestACoordinatorOnAFullDiskRefusesWritesSaysSoAndRestarts(t *testing.T) {
	dir := smallVolume(t, 24)
	d := deploy(t, nil)
	p := d.procs["a-coordinator"]
	d.kill(p.name)
	must(t, os.Remove(d.path(p.name, contract.AdminSocket)))
	must(t, os.CopyFS(dir, os.DirFS(d.path(p.name))))
	p.args = append(p.args, "--data-dir", dir)
	d.restart(p.name)
	a, b := d.client("a"), d.client("b")
	acknowledged := map[string]string{}
	set := func(n, kib int) error {
		key, value := fmt.Sprint("k", n), strings.Repeat(fmt.Sprint(n, " "), kib<<10/4)
		err := a.Set(t.Context(), key, value, 0).Err()
		if err == nil {
			acknowledged[key] = value
		}
		return err
	}
	for n := range 8 {
		must(t, set(n, 1024))
	}
	release := fill(t, dir)
	_ = set(8, 1024) // refused, sent to another coordinator, or unknown
	d.awaitNotReady(t, p, contract.StateLogFull)
	if v, ok := p.metric("causalstore_coordinator_log_errors_total{"); !ok || v < 1 {
		t.Errorf("causalstore_coordinator_log_errors_total: %v, %v", v, ok)
	}
	must(t, b.Set(t.Context(), "other", "1", 0).Err()) // the others serve
	if n := p.errorLines(t); n > 10 {
		t.Errorf("%d lines of the log are errors", n)
	}

	// The last segment holds more than there is space for.
	d.kill(p.name)
	d.start(p)
	eventually(t, "the coordinator to run again on the full disk", func() error {
		r, err := p.readiness()
		if err == nil && r.Phase != contract.PhaseRunning {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	eventually(t, "a write to meet the full disk", func() error {
		_ = set(10, 1024) // until sidecars use this coordinator again
		if r, err := p.readiness(); err != nil || r.State != contract.StateLogFull {
			return fmt.Errorf("%+v, %w", r, err)
		}
		return nil
	})
	release()
	d.awaitReady(p)
	eventually(t, "writes to be accepted", func() error { return set(9, 1) })
	for _, dc := range []string{"a", "c"} {
		c := d.client(dc)
		eventually(t, "the acknowledged writes in "+dc, func() error { return missing(t.Context(), c, acknowledged) })
	}
}

func TestAnEmbeddedStorageOnAFullDiskSaysSoAndContinuesWhenThereIsSpace(t *testing.T) {
	dir := smallVolume(t, 32)
	d := deploy(t, nil)
	p := d.procs["c-middleman"]
	d.kill(p.name)
	must(t, os.RemoveAll(d.path("c-middleman")))
	p.args = append(p.args, "--storage-dir", dir)
	d.restart(p.name)
	a, c := d.client("a"), d.client("c")
	must(t, a.Set(t.Context(), "before", "1", 0).Err())
	awaitValue(t, "c", c, "before", "1")
	release := fill(t, dir)
	acknowledged := map[string]string{"before": "1"}
	value := strings.Repeat("x", 200<<10)
	for n := range 40 { // more than the space that the storage has reserved
		key := fmt.Sprint("k", n)
		must(t, a.Set(t.Context(), key, value, 0).Err())
		acknowledged[key] = value
	}
	d.awaitNotReady(t, p, contract.StateStorageFull)
	eventually(t, "failures to be counted", func() error {
		if v, ok := p.metric("causalstore_middleman_storage_errors_total{"); !ok || v < 2 {
			return fmt.Errorf("%v, %v", v, ok)
		}
		return nil
	})
	if n := p.errorLines(t); n > 10 {
		t.Errorf("%d lines of the log are errors", n)
	}
	if got, err := c.Get(t.Context(), "before").Result(); err != nil || got != "1" {
		t.Errorf("a read while the disk is full: %q, %v", got, err)
	}
	// A restart waits for space, too.
	d.kill(p.name)
	d.start(p)
	d.awaitNotReady(t, p, contract.StateStorageFull)
	release()
	d.awaitReady(p)
	eventually(t, "the acknowledged writes in c", func() error { return missing(t.Context(), c, acknowledged) })
}

package processes_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
)

// damagedTables returns the tables that are kept of the damaged storage of a middleman.
func (d *deployment) damagedTables(t *testing.T, name string) []string {
	t.Helper()
	names, err := filepath.Glob(d.path(name, "damaged") + "/*.sst")
	must(t, err)
	return names
}

// The shards of two rings are damaged at different places, and the second one finds that only when the first one, which
// begins anew, copies from it. Each write is in one of them, so what is left of both is kept. What is left of one that
// was refilled is not.
func TestWhatIsLeftOfDamagedStoragesIsKeptUntilTheyAreRefilled(t *testing.T) {
	d := deploy(t, nil)
	acknowledged := fillKeys(t, d.client("a"), "x")
	toTables := func(name string) {
		for range 2 {
			d.kill(name)
			d.restart(name)
		}
		d.kill(name)
	}
	toTables("a-middleman")
	changeFile(t, lastFile(t, d.path("a-middleman")+"/*.sst"), flipMiddle)
	must(t, os.Truncate(d.procs["a-middleman"].log, 0))
	d.restartDamaged("a-middleman")
	eventually(t, "what was kept to be removed", func() error {
		if _, err := os.Stat(d.path("a-middleman", "damaged")); !os.IsNotExist(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	d.kill("c-middleman")
	eventually(t, "all keys in a", func() error { return missing(t.Context(), d.client("a"), acknowledged) })
	d.restart("c-middleman")

	toTables("a-middleman")
	toTables("c-middleman")
	changeFile(t, lastFile(t, d.path("a-middleman")+"/*.sst"), flipMiddle)
	blobs, err := filepath.Glob(d.path("c-middleman") + "/*.blob")
	must(t, err)
	for _, name := range blobs { // values that a start does not read
		changeFile(t, name, func(b []byte) []byte {
			for i := len(b) / 10; i < len(b)*9/10; i += len(b)/50 + 1 {
				b[i] ^= 1
			}
			return b
		})
	}
	for _, name := range []string{"a-middleman", "c-middleman"} {
		d.start(d.procs[name])
	}
	eventually(t, "both to say that nobody has the data", func() error {
		var problems []error
		for _, name := range []string{"a-middleman", "c-middleman"} {
			p := d.procs[name]
			select {
			case err := <-p.ended: // it has found damage
				t.Logf("%s ended: %v", name, err)
				d.start(p)
			default:
			}
			r, err := p.readiness()
			if err == nil && (r.State != contract.StateDataLost ||
				!strings.Contains(r.Reason, "nobody has it any more")) {
				err = fmt.Errorf("%s: %+v", name, r)
			}
			problems = append(problems, err)
		}
		return errors.Join(problems...)
	})
	for _, name := range []string{"a-middleman", "c-middleman"} {
		if len(d.damagedTables(t, name)) == 0 {
			t.Errorf("nothing is left of the tables of %s", name)
		}
		if log, err := os.ReadFile(d.procs[name].log); err != nil || bytes.Contains(log, []byte("goroutine ")) {
			t.Errorf("%s has dumped its goroutines, %v", name, err)
		}
	}
}

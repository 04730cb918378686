package processes_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
)

// fillTables writes keys until the tables of a storage have many blocks, and waits until they are in every ring.
func fillTables(t *testing.T, c *goredis.Client) map[string]string {
	t.Helper()
	acknowledged, pipe := map[string]string{}, c.Pipeline()
	for i := range 600 {
		key, value := fmt.Sprintf("k%03d", i), strings.Repeat(fmt.Sprint(i, " "), 300)
		pipe.Set(t.Context(), key, value, 0)
		acknowledged[key] = value
	}
	_, err := pipe.Exec(t.Context())
	must(t, err)
	awaitComplete(t, c)
	return acknowledged
}

// toTables stops a middleman when what was in the log of its storage is in a table.
func (d *deployment) toTables(name string) {
	for range 2 {
		d.kill(name)
		d.restart(name)
	}
	d.kill(name)
}

// flipAt flips a bit in the largest table of a middleman, at a part of it.
func (d *deployment) flipAt(t *testing.T, name string, part float64) {
	t.Helper()
	names, err := filepath.Glob(d.path(name) + "/*.sst")
	must(t, err)
	largest, size := "", int64(0)
	for _, table := range names {
		if info, err := os.Stat(table); err == nil && info.Size() > size {
			largest, size = table, info.Size()
		}
	}
	changeFile(t, largest, func(b []byte) []byte { b[int(float64(len(b))*part)] ^= 4; return b })
}

// awaitDamaged starts processes that end when they find damage, as what has started them would do, until all are as is
// wanted.
func (d *deployment) awaitDamaged(t *testing.T, what string, names []string, is func(contract.Readiness, []byte) bool) {
	t.Helper()
	for _, name := range names {
		must(t, os.Truncate(d.procs[name].log, 0))
		d.start(d.procs[name])
	}
	eventually(t, what, func() error {
		var problems []error
		for _, name := range names {
			p := d.procs[name]
			select {
			case err := <-p.ended:
				t.Logf("%s ended: %v", name, err)
				d.start(p)
			default:
			}
			r, err := p.readiness()
			log, logErr := os.ReadFile(p.log)
			if err = errors.Join(err, logErr); err == nil && !is(r, log) {
				err = fmt.Errorf("%s: %+v", name, r)
			}
			if bytes.Contains(log, []byte("goroutine ")) {
				t.Fatalf("%s has dumped its goroutines", name)
			}
			problems = append(problems, err)
		}
		return errors.Join(problems...)
	})
}

// allKeysIn checks that each ring has all keys by itself.
func (d *deployment) allKeysIn(t *testing.T, acknowledged map[string]string) {
	t.Helper()
	d.kill("c-middleman")
	eventually(t, "all keys in the ring of a and b", func() error {
		return missing(t.Context(), d.client("a"), acknowledged)
	})
	d.restart("c-middleman")
	d.kill("a-middleman")
	d.kill("b-middleman")
	eventually(t, "all keys in the ring of c", func() error {
		return missing(t.Context(), d.client("c"), acknowledged)
	})
}

// One bit is flipped in each of two rings, at different places: each has what the other one lacks.
func TestTwoRingsThatAreDamagedTogetherGetEverythingBack(t *testing.T) {
	d := deploy(t, nil)
	acknowledged := fillTables(t, d.client("a"))
	damaged := []string{"a-middleman", "c-middleman"}
	for i, name := range damaged {
		d.toTables(name)
		d.flipAt(t, name, 0.3+0.4*float64(i))
	}
	d.awaitDamaged(t, "both to have everything again", damaged, func(r contract.Readiness, log []byte) bool {
		return r.Ready && bytes.Contains(log, []byte("lacks keys of some ranges"))
	})
	for _, name := range damaged {
		eventually(t, "what was kept to be removed", func() error {
			if _, err := os.Stat(d.path(name, "damaged")); !os.IsNotExist(err) {
				return fmt.Errorf("it is there: %w", err)
			}
			return nil
		})
	}
	d.allKeysIn(t, acknowledged)
}

// Nothing tells what two damaged rings lack, so both keep what they have, over restarts too, until a person lets one of
// them go on.
func TestADamagedRingKeepsWhatItHasUntilAPersonLetsItGoOn(t *testing.T) {
	d := deploy(t, nil)
	acknowledged := fillTables(t, d.client("a"))
	damaged := []string{"a-middleman", "c-middleman"}
	for _, name := range damaged {
		d.toTables(name)
	}
	changeFile(t, lastFile(t, d.path("a-middleman")+"/MANIFEST-*"), cutMiddle)
	changeFile(t, lastFile(t, d.path("c-middleman")+"/MANIFEST-*"), cutMiddle)
	for range 2 {
		d.awaitDamaged(t, "both to wait", damaged, func(r contract.Readiness, _ []byte) bool {
			return r.State == contract.StateDataLost && strings.Contains(r.Reason, "keeps what is left of it")
		})
		for _, name := range damaged {
			d.kill(name)
		}
	}
	accept := filepath.Join(d.path("c-middleman"), "accept-loss")
	must(t, os.WriteFile(accept, nil, 0o600))
	d.awaitDamaged(t, "both to have everything again", damaged, func(r contract.Readiness, _ []byte) bool {
		return r.Ready
	})
	if _, err := os.Stat(accept); !os.IsNotExist(err) {
		t.Errorf("the file that accepts the loss: %v", err)
	}
	d.allKeysIn(t, acknowledged)
}

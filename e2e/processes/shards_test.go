package processes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/ports"
)

// writers are clients that each overwrite keys of their own again and again, followed by one key that depends on those.
type writers struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	last   []int // by writer: what all of its keys hold at least
	keys   int
}

func (d *deployment) write(t *testing.T, keys int) *writers {
	w := &writers{keys: keys}
	w.ctx, w.cancel = context.WithCancel(t.Context())
	for i, dc := range []string{"a", "b", "c"} {
		w.last = append(w.last, 0)
		c := d.client(dc)
		w.done.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for n := 1; w.ctx.Err() == nil; n++ {
				for k := range keys {
					<-tick.C
					if err := c.Set(context.Background(), fmt.Sprintf("%s-%d", dc, k), n, 0).Err(); err != nil {
						t.Errorf("%s writes: %v", dc, err)
						return
					}
				}
				w.last[i] = n
			}
		})
	}
	return w
}

// stop stops the writers and checks that every data center has all their writes.
func (w *writers) stop(t *testing.T, d *deployment) {
	t.Helper()
	w.cancel()
	w.done.Wait()
	for i, of := range []string{"a", "b", "c"} {
		if w.last[i] == 0 {
			t.Errorf("%s has not written all of its keys once", of)
		}
		for _, at := range []string{"a", "b", "c"} {
			c := d.client(at)
			for k := range w.keys {
				awaitValue(t, at, c, fmt.Sprintf("%s-%d", of, k), fmt.Sprint(w.last[i]))
			}
		}
	}
}

// setShards changes the number of shards of b in the configuration of all processes. The number before is 0 after the
// change.
func (d *deployment) setShards(n, before int) {
	d.t.Helper()
	d.config.Topology.Epoch++
	dc := &d.config.Topology.DataCenters[1]
	dc.Shards, dc.ShardsBefore = &n, nil
	if before > 0 {
		dc.ShardsBefore = &before
	}
	at := d.config.Addresses["b"]
	for len(at.Middlemen) < max(n, before) {
		at.Middlemen = append(at.Middlemen, ports.ForTest(d.t))
	}
	at.Middlemen = at.Middlemen[:max(n, before)]
	d.config.Addresses["b"] = at
	d.writeConfig()
}

// awaitShards waits until the middlemen of ring one report the wanted states of the resharding.
func (d *deployment) awaitShards(t *testing.T, want map[string]string) {
	t.Helper()
	for name, state := range want {
		eventually(t, name+" to be "+state, func() error {
			r, err := d.procs[name].readiness()
			if err == nil && (string(r.Shards) != state || r.Epoch != d.config.Topology.Epoch || !r.Ready) {
				err = fmt.Errorf("%+v", r)
			}
			return err
		})
	}
	for _, dc := range []string{"a", "b", "c"} {
		eventually(t, "the coordinator of "+dc+" to have heard", func() error {
			r, err := d.procs[dc+"-coordinator"].readiness()
			if err == nil && (r.RingsBefore != nil || r.Epoch != d.config.Topology.Epoch) {
				err = fmt.Errorf("%+v", r)
			}
			return err
		})
	}
}

func TestShardsAreAddedAndRemovedWhileClientsWrite(t *testing.T) {
	d := deploy(t, waitLong)
	joiner := func() {
		d.plan("b", "middleman")
		p := d.procs["b-middleman"]
		p.name, p.log = "b-middleman-1", d.path("b-middleman-1.log")
		p.args = append(p.args, "--index", "1", "--storage-dir", d.path("b-middleman-1"))
		d.procs["b-middleman-1"] = p
	}
	old := d.procs["b-middleman"]
	joiner()
	d.procs["b-middleman"] = old
	w := d.write(t, 40)
	for range 2 {
		d.setShards(2, 1)
		d.restart("b-middleman-1")
		d.awaitShards(t, map[string]string{"a-middleman": "done", "b-middleman": "done", "b-middleman-1": "done"})
		d.setShards(2, 0)
		d.awaitShards(t, map[string]string{"a-middleman": "none", "b-middleman": "none", "b-middleman-1": "none"})
		d.setShards(1, 2)
		d.awaitShards(t, map[string]string{"a-middleman": "done", "b-middleman": "done", "b-middleman-1": "gone"})
		d.kill("b-middleman-1")
		d.setShards(1, 0)
		d.awaitShards(t, map[string]string{"a-middleman": "none", "b-middleman": "none"})
	}
	w.stop(t, d)
	for name, p := range d.procs {
		if p.cmd == nil {
			continue
		}
		if r, err := p.readiness(); err != nil || r.Epoch != d.config.Topology.Epoch || r.RestartNeeded != nil ||
			r.ConfigProblem != "" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

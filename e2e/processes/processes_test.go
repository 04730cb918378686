package processes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/lab/ports"
)

func TestProcessesWithMutualTLSMakeOneCausalDeployment(t *testing.T) {
	certs := newCertificates(t)
	ca := certs.authority("eu", "eu.example.com")
	certs.issueAll(ca)
	certs.trust(ca)
	d := deployWith(t, certs, func(c *contract.Config) {
		c.Auth = &contract.Auth{UsersFile: usersFile(t, "user app on >secret ~* &* +@all")}
	})
	a, b, c := d.authenticated("a"), d.authenticated("b"), d.authenticated("c")

	t.Run("a client without the password is refused", func(t *testing.T) {
		if err := d.client("a").Get(t.Context(), "x").Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a write in one data center is read in the others", func(t *testing.T) {
		must(t, a.Set(t.Context(), "x", "1", 0).Err())
		for name, client := range map[string]*goredis.Client{"a": a, "b": b, "c": c} {
			awaitValue(t, name, client, "x", "1")
		}
	})
	t.Run("several keys are read as one state", func(t *testing.T) {
		must(t, a.MSet(t.Context(), "x", "2", "y", "2").Err())
		awaitValue(t, "c", c, "y", "2")
		// y was written after x: whoever has seen it sees x.
		got, err := c.MGet(t.Context(), "x", "y", "nothing").Result()
		must(t, err)
		if fmt.Sprint(got) != "[2 2 <nil>]" {
			t.Errorf("MGET gave %v", got)
		}
	})
	t.Run("a transaction is executed as one, and its keys are listed in other data centers", func(t *testing.T) {
		replies, err := a.TxPipelined(t.Context(), func(p goredis.Pipeliner) error {
			p.Set(t.Context(), "tx:1", 1, 0)
			p.Incr(t.Context(), "tx:1")
			p.Set(t.Context(), "tx:2", 1, 0)
			return nil
		})
		must(t, err)
		if n := replies[1].(*goredis.IntCmd).Val(); n != 2 {
			t.Errorf("INCR in the transaction gave %d", n)
		}
		awaitValue(t, "c", c, "tx:2", "1")
		for name, client := range map[string]*goredis.Client{"a": a, "c": c} {
			keys, err := client.Keys(t.Context(), "tx:*").Result()
			must(t, err)
			if slices.Sort(keys); !slices.Equal(keys, []string{"tx:1", "tx:2"}) {
				t.Errorf("KEYS in %s gave %q", name, keys)
			}
		}
	})
	t.Run("a connection that guesses passwords is closed", func(t *testing.T) {
		guesser := d.client("b").Conn()
		defer guesser.Close()
		for range 100 {
			err := guesser.Auth(t.Context(), "guess").Err()
			if err == nil {
				t.Fatal("a wrong password was accepted")
			}
			if !strings.HasPrefix(err.Error(), "WRONGPASS") {
				return
			}
		}
		t.Error("100 guesses were answered")
	})
	t.Run("a token takes a session to another data center", func(t *testing.T) {
		for i := range 20 {
			want := fmt.Sprint("v", i)
			must(t, a.Set(t.Context(), "moved", want, 0).Err())
			token, err := a.Do(t.Context(), "CAUSAL", "TOKEN").Text()
			must(t, err)
			must(t, c.Do(t.Context(), "CAUSAL", "RESUME", token).Err())
			if got, err := c.Get(t.Context(), "moved").Result(); err != nil || got != want {
				t.Fatalf("after RESUME: %q, %v; want %q", got, err, want)
			}
		}
	})
	t.Run("what the parts do can be measured", func(t *testing.T) {
		for name, series := range map[string][]string{
			"a-sidecar": {`causalstore_sidecar_puts_total{data_center="a",ring="one"}`,
				`causalstore_redis_command_duration_seconds_count{command="set"`,
				`causalstore_build_info{`},
			"c-sidecar": {`causalstore_sidecar_gets_total{data_center="c",ring="two"}`,
				`causalstore_sidecar_stability_lag_seconds{`},
			"a-coordinator": {`causalstore_coordinator_log_bytes{data_center="a",index="0",member="1",ring="one"}`,
				`causalstore_coordinator_ring_lag_seconds{data_center="a",index="0",member="1",ring="one",to_ring="two"}`},
			"c-middleman": {`causalstore_middleman_puts_total{`,
				`causalstore_transport_messages_received_total{data_center="c",index="0",kind="put-after",member="1",ring="two"}`, `causalstore_ready{`},
			"c-cache": {
				`causalstore_transport_links{data_center="c",direction="accepted",index="0",ring="two",state="up"}`,
				`causalstore_topology_epoch{`,
			},
		} {
			for _, s := range series {
				mayBeZero := strings.Contains(s, "_lag_seconds") // when everything is acknowledged
				if v, ok := d.procs[name].metric(s); !ok || v < 0 || v == 0 && !mayBeZero {
					t.Errorf("%s of %s: %v, %v", s, name, v, ok)
				}
			}
		}
	})
	t.Run("SIGTERM ends every process with 0", func(t *testing.T) {
		d.terminate(t, "sidecar", "coordinator", "middleman", "cache")
	})
}

func (d *deployment) authenticated(dc string) *goredis.Client {
	o := *d.client(dc).Options()
	o.Username, o.Password = "app", "secret"
	c := goredis.NewClient(&o)
	d.t.Cleanup(func() { c.Close() })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func awaitValue(t *testing.T, name string, c *goredis.Client, key, want string) {
	t.Helper()
	eventually(t, key+" in "+name, func() error {
		got, err := c.Get(t.Context(), key).Result()
		if err == nil && got != want {
			err = fmt.Errorf("got %q, want %q", got, want)
		}
		return err
	})
}

// terminate stops the processes, one kind after the other, and checks their exits.
func (d *deployment) terminate(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		began := time.Now()
		for _, dc := range []string{"a", "b", "c"} {
			must(t, d.procs[dc+"-"+kind].cmd.Process.Signal(syscall.SIGTERM))
		}
		for _, dc := range []string{"a", "b", "c"} {
			p := d.procs[dc+"-"+kind]
			select {
			case err := <-p.ended:
				if err != nil {
					t.Errorf("%s ended with %v", p.name, err)
				}
				p.cmd = nil
			case <-time.After(patience):
				t.Fatalf("%s did not end", p.name)
			}
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the %ss took %v to end", kind, took)
		}
	}
}

func TestKillsLoseNothingAcknowledgedAndBreakNoCausality(t *testing.T) {
	d := deploy(t, nil)
	writer := d.startWriter("a")
	recorded := d.startLoad(8 * time.Second)
	for _, victim := range []string{"a-coordinator", "b-middleman", "c-cache", "c-middleman", "a-coordinator"} {
		writer.progress(t, 20)
		d.kill(victim)
		d.restart(victim)
	}
	writer.progress(t, 50)
	acknowledged := writer.stop()
	for _, dc := range []string{"a", "b", "c"} {
		c := d.client(dc)
		eventually(t, fmt.Sprintf("%d acknowledged writes in %s", len(acknowledged), dc), func() error {
			return missing(t.Context(), c, acknowledged)
		})
	}
	result := <-recorded
	if result.err != nil {
		t.Fatal(result.err)
	}
	t.Logf("%d writes were acknowledged to the writer; %s%v", len(acknowledged), result.text, result.report)
	if err := result.report.Err(); err != nil {
		t.Error(err)
	}
	if result.ops < 100 { // how many there are is up to the machine
		t.Errorf("only %d operations succeeded", result.ops)
	}
	d.terminate(t, "sidecar", "coordinator", "middleman", "cache")
}

// missing returns an error that names an acknowledged write that a data center does not show.
func missing(ctx context.Context, c *goredis.Client, acknowledged map[string]string) error {
	for keys := range slices.Chunk(slices.Collect(maps.Keys(acknowledged)), 500) {
		got, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for _, key := range keys {
				p.Get(ctx, key)
			}
			return nil
		})
		for i, key := range keys {
			if len(got) != len(keys) {
				return fmt.Errorf("get %d keys: %w", len(keys), err)
			}
			is, err := got[i].(*goredis.StringCmd).Result()
			if err != nil {
				return fmt.Errorf("get %s: %w", key, err)
			}
			if want := acknowledged[key]; is != want {
				return fmt.Errorf("%s is %q; want %q", key, is, want)
			}
		}
	}
	return nil
}

// writer writes one key after the other and remembers the acknowledged writes.
type writer struct {
	count        atomic.Int64
	done         chan struct{}
	ended        sync.WaitGroup
	acknowledged map[string]string
}

func (d *deployment) startWriter(dc string) *writer {
	w := &writer{done: make(chan struct{}), acknowledged: map[string]string{}}
	c := d.client(dc)
	ctx := d.t.Context()
	w.ended.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-w.done:
				return
			case <-tick.C:
			}
			key, value := fmt.Sprint("w", i), fmt.Sprint("v", i)
			if c.Set(ctx, key, value, 0).Err() == nil {
				w.acknowledged[key] = value
				w.count.Add(1)
			}
		}
	})
	return w
}

// progress waits until n more writes are acknowledged.
func (w *writer) progress(t *testing.T, n int64) {
	t.Helper()
	from := w.count.Load()
	eventually(t, "writes to be acknowledged", func() error {
		if now := w.count.Load(); now < from+n {
			return fmt.Errorf("%d more of %d", now-from, n)
		}
		return nil
	})
}

func (w *writer) stop() map[string]string {
	close(w.done)
	w.ended.Wait()
	return w.acknowledged
}

// outcome is the result of a recorded load.
type outcome struct {
	ops    int64
	failed int64 // or with an unknown outcome
	text   string
	report history.Report
	err    error
}

// startLoad runs sessions in all data centers and checks their history.
func (d *deployment) startLoad(duration time.Duration) <-chan outcome {
	c := load.Config{Sessions: 6, Duration: duration, Rate: 200, Keys: 30, Theta: 0.9, ReadRatio: 0.5, MGetRatio: 0.1,
		DeleteRatio: 0.05,
		Timeout:     10 * time.Second, CaptureVersions: true, FinalReads: true, FinalTimeout: patience, Seed: 1}
	for _, dc := range []string{"a", "b", "c"} {
		c.Endpoints = append(c.Endpoints, load.Endpoint{Name: dc, Addr: d.procs[dc+"-sidecar"].redis})
	}
	var recorded bytes.Buffer
	c.Record = &recorded
	out := make(chan outcome, 1)
	ctx := d.t.Context()
	go func() {
		result, err := load.Run(ctx, c)
		h, readErr := history.ReadAll(&recorded)
		out <- outcome{ops: result.Ops, failed: result.Failed + result.Unknown, text: result.String(),
			report: history.Check(h, history.Options{AddsUp: true}), err: errors.Join(err, readErr)}
	}()
	return out
}

func TestTheConfigurationFileIsFollowedWhileTheProcessesRun(t *testing.T) {
	d := deploy(t, nil)
	a, c := d.client("a"), d.client("c")
	must(t, a.Set(t.Context(), "before", "1", 0).Err())
	awaitValue(t, "c", c, "before", "1")

	t.Run("a middleman that moves is found again", func(t *testing.T) {
		d.kill("c-middleman")
		moved := d.config.Addresses["c"]
		moved.Middlemen = []string{ports.ForTest(t)}
		d.config.Addresses["c"] = moved
		d.writeConfig()
		d.restart("c-middleman")
		must(t, a.Set(t.Context(), "after", "1", 0).Err())
		awaitValue(t, "c", c, "after", "1")
		eventually(t, "the write to be complete", func() error {
			n, err := a.Do(t.Context(), "CAUSAL", "WAIT", "all", 100).Int()
			if err == nil && n != 1 {
				err = errors.New("not yet")
			}
			return err
		})
	})
	t.Run("a topology of a lower epoch is refused", func(t *testing.T) {
		d.config.Topology.Epoch = 6
		d.writeConfig()
		d.awaitState(t, "refusal", func(r contract.Readiness) bool {
			return r.Ready && strings.Contains(r.ConfigProblem, "epoch 6 is lower than 7")
		})
		if v, ok := d.procs["a-cache"].metric(
			`causalstore_config_reloads_total{data_center="a",index="0",outcome="refused",ring="one"}`); !ok || v < 1 {
			t.Errorf("refused reloads: %v, %v", v, ok)
		}
	})
	t.Run("other latencies wait for a restart", func(t *testing.T) {
		d.config.Topology.Epoch = 8
		d.config.Topology.RoundTripMs = map[string]map[string]float64{"a": {"c": 33}}
		d.writeConfig()
		d.awaitState(t, "the need of a restart", func(r contract.Readiness) bool {
			return r.Ready && r.ConfigProblem == "" && len(r.RestartNeeded) == 1 &&
				strings.Contains(r.RestartNeeded[0], "epoch 8") && r.Epoch == 7
		})
		d.stop("a-coordinator")
		d.restart("a-coordinator")
		if r, err := d.procs["a-coordinator"].readiness(); err != nil || r.Epoch != 8 || len(r.RestartNeeded) != 0 {
			t.Errorf("after the restart: %+v, %v", r, err)
		}
	})
	t.Run("and a coordinator does not go back to a lower one", func(t *testing.T) {
		d.config.Topology.Epoch = 7
		d.writeConfig()
		d.kill("a-coordinator")
		d.start(d.procs["a-coordinator"])
		err := <-d.procs["a-coordinator"].ended
		d.procs["a-coordinator"].cmd = nil
		log, _ := os.ReadFile(d.procs["a-coordinator"].log)
		if err == nil || !strings.Contains(string(log), "last used with topology epoch 8") {
			t.Errorf("it ended with %v", err)
		}
	})
}

// awaitState waits until /readyz of every process satisfies ok.
func (d *deployment) awaitState(t *testing.T, what string, ok func(contract.Readiness) bool) {
	t.Helper()
	for _, p := range d.procs {
		eventually(t, what+" at "+p.name, func() error {
			r, err := p.readiness()
			if err == nil && !ok(r) {
				err = fmt.Errorf("%+v", r)
			}
			return err
		})
	}
}

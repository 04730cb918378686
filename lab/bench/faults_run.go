package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// faultRun measures one fault.
type faultRun struct {
	o        *FaultOptions
	topology *topology.Topology
	fault    faultCase
	plane    *local.Deployment
	watch    *faultWatch
	// released is FaultCase.Released.
	released *float64
	recovery recovery
}

// mgetShare is the part of all operations that are MGETs.
const mgetShare = 0.02

// faultClientTimeout is above the 5 s in which a sidecar answers every command, so that its answers are counted.
const faultClientTimeout = 20 * time.Second

// brokenHistoryError says that what clients saw was not causal, or that data centers do not agree.
type brokenHistoryError struct{ what, path string }

func (e *brokenHistoryError) Error() string {
	return fmt.Sprintf("%s; the history is in %s", e.what, e.path)
}

// measure runs the load, breaks and heals the deployment meanwhile, and checks what clients have seen.
func (r *faultRun) measure(ctx context.Context) (out *FaultCase, err error) {
	err = r.o.withDataDir(func(dir string) error {
		out, err = r.run(ctx, dir)
		return err
	})
	return out, err
}

func (r *faultRun) run(ctx context.Context, data string) (out *FaultCase, err error) {
	near := int(contract.Scope(r.o.Scope).NearBytes(true))
	r.plane, err = local.Start(ctx, local.Options{Topology: r.topology, Engine: "embedded", DataDir: data,
		Scope: r.o.Scope, Level: r.o.Level, Members: r.o.Members, NearBytes: near,
		Cache: true, WAN: true, Host: "127.0.0.1", Tune: r.o.Tune})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.plane.Close()) }()
	r.watch = newFaultWatch()
	var recorded bytes.Buffer
	loading, stop := context.WithCancel(ctx)
	defer stop()
	type outcome struct {
		result load.Result
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		o.result, o.err = load.Run(loading, r.load(&recorded))
		ended <- o
	}()
	failed := r.breakAndHeal(ctx)
	stop()
	done := <-ended
	if err := errors.Join(failed, done.err); err != nil {
		return nil, err
	}
	out = &FaultCase{Name: r.fault.name, Title: r.fault.title, Here: r.fault.here, Gone: r.fault.gone,
		Phases: r.watch.phases(r.groups())}
	out.Released, out.Heal = r.released, r.healTimes()
	return out, r.judge(out, &recorded, &done.result, r.o.Dir)
}

func (r *faultRun) load(recorded *bytes.Buffer) load.Config {
	c := load.Config{SessionNaming: load.ByConnection, Sessions: r.o.Connections * len(r.topology.DCs),
		Timeout: faultClientTimeout,
		Rate:    r.o.Rate, Arrivals: load.Poisson, Duration: time.Hour, Seed: 1, // it ends when the measurement does
		Workload: &load.Workload{Name: "faults", Operations: map[string]float64{"get": r.o.ReadRatio - mgetShare,
			"mget": mgetShare, "set": 1 - r.o.ReadRatio},
			Keys: load.Keys{Count: r.o.Keys}, MGet: load.MGetKeys{Min: 2, Max: 4},
			Values: load.Values{Bytes: r.o.ValueBytes}},
		Record: recorded, CaptureVersions: true, FinalReads: true, FinalTimeout: time.Minute, Observe: r.watch.observe}
	if r.o.Scope != node.ScopeConnection {
		c.SessionNaming, c.Sessions, c.ConnectionsPerSession = load.ByEndpoint, len(r.topology.DCs), r.o.Connections
	}
	for _, e := range r.plane.Endpoints() {
		c.Endpoints = append(c.Endpoints, load.Endpoint{Name: e.Name, Addr: e.RESP})
	}
	return c
}

// groups returns the data centers near the fault, and the others.
func (r *faultRun) groups() (g [2][]string) {
	for _, dc := range r.topology.DCs {
		if slices.Contains(r.fault.here, dc.Name) {
			g[0] = append(g[0], dc.Name)
		} else {
			g[1] = append(g[1], dc.Name)
		}
	}
	return g
}

// breakAndHeal goes through the phases.
func (r *faultRun) breakAndHeal(ctx context.Context) error {
	select {
	case <-r.watch.first:
	case <-time.After(time.Minute):
		return errors.New("no operation was answered within a minute")
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := sleep(ctx, r.o.Lead); err != nil {
		return err
	}
	r.watch.enter(phaseBefore)
	if err := sleep(ctx, r.o.Before); err != nil {
		return err
	}
	r.watch.enter(phaseDuring)
	if err := r.injectAll(ctx, r.fault.inject); err != nil {
		return err
	}
	if err := r.awaitRelease(ctx); err != nil {
		return err
	}
	r.watch.enter(phaseAfter)
	healed := r.watch.enteredAt(phaseAfter)
	repair := r.fault.repair
	if len(repair) == 0 {
		repair = []local.Fault{{Kind: "heal"}}
	}
	if err := r.injectAll(ctx, repair); err != nil {
		return err
	}
	if err := r.awaitNormal(ctx, healed); err != nil {
		return err
	}
	err := sleep(ctx, time.Until(healed.Add(r.o.After)))
	r.watch.enter(phaseEnd)
	return err
}

func (r *faultRun) injectAll(ctx context.Context, faults []local.Fault) error {
	for _, f := range faults {
		if err := r.plane.Inject(ctx, f); err != nil {
			return fmt.Errorf("inject %s: %w", f.Kind, err)
		}
	}
	return nil
}

// awaitRelease waits until the fault is to end, and notes meanwhile when no session was bound any more by a write from
// before it.
func (r *faultRun) awaitRelease(ctx context.Context) error {
	began := r.watch.enteredAt(phaseDuring)
	for time.Since(began) < r.o.During {
		if err := sleep(ctx, min(statePoll, r.o.During)); err != nil {
			return err
		}
		if r.released != nil {
			continue
		}
		if _, unbound := normality(r.plane.State(), began.UnixMilli(), ""); unbound {
			after := time.Since(began).Seconds()
			r.released = &after
		}
	}
	return nil
}

// judge checks the history of a case. It keeps one that is not as it must be.
func (r *faultRun) judge(out *FaultCase, recorded *bytes.Buffer, result *load.Result, dir string) error {
	written := recorded.Bytes()
	h, err := history.ReadAll(bytes.NewReader(written))
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	report := history.Check(h, history.Options{AddsUp: true})
	out.History, out.Violations = report.String(), report.Total
	what := ""
	switch {
	case !report.OK():
		what = report.String()
	case !result.Final.Settled():
		what = fmt.Sprintf("after all, data centers disagree on %d of %d keys, and are behind on %d",
			result.Final.Disagree, result.Final.Keys, result.Final.Behind)
	default:
		return nil
	}
	path := filepath.Join(dir, fmt.Sprintf("causalstore-history-%s-%d.jsonl", out.Name, time.Now().UnixMilli()))
	if err := os.WriteFile(path, written, 0o644); err != nil {
		return fmt.Errorf("keep the history (%s): %w", what, err)
	}
	return &brokenHistoryError{what, path}
}

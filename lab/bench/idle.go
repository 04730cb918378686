package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// IdleOptions describe for how long parts are left alone, and beside how many sidecars.
type IdleOptions struct {
	Setup
	// Length is how long each measurement lasts, and Settle how long a deployment is left alone before.
	Length, Settle time.Duration
	// Sidecars is how many sidecars without clients are then added to the first data center.
	Sidecars int
	// Level is that of all sessions.
	Level causal.Level
}

// FullIdle returns the options of a full run.
func FullIdle() *IdleOptions {
	return &IdleOptions{Length: time.Minute, Settle: 35 * time.Second, Sidecars: 50, Level: causal.Latest}
}

func (o *IdleOptions) experiment() *Experiment {
	return &Experiment{
		Name:  "idle",
		Short: "Measure what the parts cost while no client does anything",
		Long: `Runs three data centers in two rings, each part in its own process, and measures
the CPU time, the memory, the wake-ups and the messages of each part while no client does anything.
It does so again with more sidecars in the first data center. Requires Linux.`,
		quick:   "measure for 10 s instead of 60, with 5 sidecars more",
		quickly: map[string]string{"seconds": "10", "sidecars": "5"},
		setup:   &o.Setup, declare: o.declare, measure: measuring(o.Measure),
	}
}

func (o *IdleOptions) declare(f *flags) {
	f.in(time.Second, &o.Length, "seconds", "length of each measurement in seconds")
	f.in(time.Second, &o.Settle, "settle",
		"time without clients before a measurement, in seconds; leases of caches last 30 s after the last read")
	f.IntVar(&o.Sidecars, "sidecars", o.Sidecars, "number of sidecars that are added to the first data center")
	f.reads(&o.Level)
	f.StringVar(&o.Binary, "binary", "", "program to measure; default: this one")
	f.positive("seconds")
	f.notNegative("settle", "sidecars")
}

// Idle is what the parts of a deployment cost while no client does anything.
type Idle struct {
	Origin
	Reads   string  `json:"reads"`
	Seconds float64 `json:"seconds"`
	// Small is a deployment of three data centers in two rings, Crowded the first of them with more sidecars.
	Small    []IdlePart `json:"small"`
	Sidecars int        `json:"sidecars"`
	Crowded  []IdlePart `json:"crowded"`
}

// IdlePart is the mean over the parts of one kind.
type IdlePart struct {
	Part string `json:"part"`
	// CPUMs is the CPU time in milliseconds per second, user and system: thousandths of a core.
	CPUMs float64 `json:"cpuMsPerSecond"`
	// ResidentMiB is the resident memory at the end, and AnonymousMiB what of it is not mapped from files, as the
	// program is.
	ResidentMiB  float64 `json:"residentMiB"`
	AnonymousMiB float64 `json:"anonymousMiB"`
	// WakeUps are voluntary context switches, Sent and Received messages, all per second.
	WakeUps  float64 `json:"wakeUpsPerSecond"`
	Sent     float64 `json:"sentPerSecond"`
	Received float64 `json:"receivedPerSecond"`
}

// Measure starts the parts of three data centers as separate processes, lets one client write and read, and measures
// what the parts do while nobody asks them anything. Then it adds sidecars to the first data center and measures again.
func (o *IdleOptions) Measure(ctx context.Context) (*Idle, error) {
	m := &Idle{Origin: o.origin(), Reads: o.Level.String(), Seconds: o.Length.Seconds(), Sidecars: o.Sidecars}
	return m, o.withDataDir(func(dir string) error {
		f, err := startProcesses(ctx, o.Binary, dir, processSpec{topology: idleTopology(), level: o.Level})
		if err != nil {
			return err
		}
		return errors.Join(m.measure(ctx, o, f), f.stop())
	})
}

// The kinds of the sidecars; the kinds of other members are the names of their parts.
const (
	sidecarWithClient    = "sidecar with an idle client"
	sidecarWithoutClient = "sidecar without a client"
)

var idleDCs = []string{"a", "b", "c"}

func idleTopology() topology.File {
	t := topology.File{Epoch: 1, RoundTripMs: map[string]map[string]float64{"a": {"b": 8, "c": 20}, "b": {"c": 16}},
		Rings: []topology.FileRing{{Name: "one", DataCenters: idleDCs[:2]}, {Name: "two", DataCenters: idleDCs[2:]}}}
	for _, dc := range idleDCs {
		t.DataCenters = append(t.DataCenters, topology.FileDataCenter{Name: dc})
	}
	return t
}

func (m *Idle) measure(ctx context.Context, o *IdleOptions, f *processes) error {
	for _, p := range f.members {
		if p.part == "sidecar" {
			p.kind = sidecarWithoutClient
		}
	}
	if err := addSidecars(ctx, f, sidecarWithClient, 1); err != nil {
		return err
	}
	client, err := connectIdleClient(f)
	if err != nil {
		return err
	}
	defer client.Close()
	o.progress("three data centers, after %s: measuring for %s", o.Settle, o.Length)
	if m.Small, err = measureIdle(ctx, f, o, f.members); err != nil {
		return err
	}
	if err := addSidecars(ctx, f, sidecarWithoutClient, o.Sidecars); err != nil {
		return err
	}
	o.progress("%d sidecars more, after %s: measuring for %s", o.Sidecars, o.Settle, o.Length)
	var crowded []*member
	for _, p := range f.members {
		if p.dc == idleDCs[0] {
			crowded = append(crowded, p)
		}
	}
	m.Crowded, err = measureIdle(ctx, f, o, crowded)
	return err
}

// addSidecars adds sidecars of a kind to the first data center, and returns when they are ready.
func addSidecars(ctx context.Context, f *processes, kind string, n int) error {
	for range n {
		if err := f.add(ctx, "sidecar", kind, idleDCs[0], 0); err != nil {
			return err
		}
	}
	return f.awaitReady(ctx)
}

// connectIdleClient opens a connection that writes once, and stays open.
func connectIdleClient(f *processes) (*conn, error) {
	for _, p := range f.members {
		if p.kind != sidecarWithClient {
			continue
		}
		c, err := dial(p.redis)
		if err != nil {
			return nil, fmt.Errorf("connect to the %s: %w", p.kind, err)
		}
		if answer, err := c.ask("SET", "idle", "1"); err != nil || !isOK(answer) {
			return nil, errors.Join(fmt.Errorf("SET was answered %q, %w", answer, err), c.Close())
		}
		return c, nil
	}
	return nil, errors.New("no sidecar for the client")
}

// activity is what a process has done since its start.
type activity struct {
	cpu            time.Duration
	wakeUps        int64
	sent, received float64
}

func activityOf(ctx context.Context, f *processes, p *member) (a activity, err error) {
	for name, sum := range map[string]*float64{"causalstore_transport_messages_sent_total": &a.sent,
		"causalstore_transport_messages_received_total": &a.received} {
		if *sum, err = f.metric(ctx, p, name); err != nil {
			return a, err
		}
	}
	if a.wakeUps, err = voluntarySwitches(p.program.pid()); err != nil {
		return a, err
	}
	a.cpu, err = cpuTime(p.program.pid())
	return a, err
}

// measureIdle returns the means of the members by kind, in the order in which the kinds first come.
func measureIdle(ctx context.Context, f *processes, o *IdleOptions, members []*member) ([]IdlePart, error) {
	if err := sleep(ctx, o.Settle); err != nil {
		return nil, err
	}
	before := make([]activity, len(members))
	var err error
	for i, p := range members {
		if before[i], err = activityOf(ctx, f, p); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	if err := sleep(ctx, o.Length); err != nil {
		return nil, err
	}
	var parts []IdlePart
	counts, at := map[string]float64{}, map[string]int{}
	for i, p := range members {
		// before its metrics are asked for, which costs as much as seconds of idleness
		cpu, err := cpuTime(p.program.pid())
		if err != nil {
			return nil, err
		}
		seconds := time.Since(start).Seconds()
		wakeUps, err := voluntarySwitches(p.program.pid())
		if err != nil {
			return nil, err
		}
		resident, err := residentBytes(p.program.pid())
		if err != nil {
			return nil, err
		}
		anonymous, err := anonymousBytes(p.program.pid())
		if err != nil {
			return nil, err
		}
		after, err := activityOf(ctx, f, p)
		if err != nil {
			return nil, err
		}
		if counts[p.kind] == 0 {
			at[p.kind] = len(parts)
			parts = append(parts, IdlePart{Part: p.kind})
		}
		counts[p.kind]++
		sum := &parts[at[p.kind]]
		sum.CPUMs += float64((cpu - before[i].cpu).Milliseconds()) / seconds
		sum.WakeUps += float64(wakeUps-before[i].wakeUps) / seconds
		sum.Sent += (after.sent - before[i].sent) / seconds
		sum.Received += (after.received - before[i].received) / seconds
		sum.ResidentMiB += float64(resident) / (1 << 20)
		sum.AnonymousMiB += float64(anonymous) / (1 << 20)
	}
	for i := range parts {
		p, n := &parts[i], counts[parts[i].Part]
		for _, mean := range []*float64{&p.CPUMs, &p.WakeUps, &p.Sent, &p.Received, &p.ResidentMiB, &p.AnonymousMiB} {
			*mean /= n
		}
	}
	return parts, nil
}

// Report has the figures.
func (m *Idle) Report() *Report {
	parts := func(title string, parts []IdlePart) *table {
		t := &table{title: title, head: []string{"each", "CPU ms/s", "resident MiB", "anonymous MiB", "wake-ups/s",
			"sent/s", "received/s"}}
		for _, p := range parts {
			t.add(append([]string{p.Part}, strings.Fields(fmt.Sprintf("%.1f %.1f %.1f %.0f %.1f %.1f", p.CPUMs,
				p.ResidentMiB, p.AnonymousMiB, p.WakeUps, p.Sent, p.Received))...)...)
		}
		return t
	}
	return m.report("idle", "Idle parts, each in its own process, embedded storage",
		fmt.Sprintf("reads %s; %.0f s each", m.Reads, m.Seconds),
		tablesIn(parts("Three data centers in two rings, the mean of the parts of each kind", m.Small),
			parts(fmt.Sprintf("The first data center with %d sidecars more", m.Sidecars), m.Crowded))...)
}

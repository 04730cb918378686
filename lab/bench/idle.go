package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"text/tabwriter"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// IdleOptions describe for how long parts are left alone, and beside how many sidecars.
type IdleOptions struct {
	Binary string
	Dir    string
	// Length is how long each measurement lasts, and Settle how long a deployment is left alone before.
	Length, Settle time.Duration
	// Sidecars is how many sidecars without clients are then added to the first data center.
	Sidecars int
	// Level is that of all sessions.
	Level    causal.Level
	Progress io.Writer
}

// Idle is what the parts of a deployment cost while no client does anything.
type Idle struct {
	Machine string  `json:"machine"`
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

// MeasureIdle starts the parts of three data centers as separate processes, lets one client write and read, and
// measures what the parts do while nobody asks them anything. Then it adds sidecars to the first data center and
// measures again.
func MeasureIdle(ctx context.Context, o IdleOptions) (*Idle, error) {
	dir, err := makeDataDir(o.Dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	f, err := startProcesses(ctx, o.Binary, dir, processSpec{topology: idleTopology(), level: o.Level})
	if err != nil {
		return nil, err
	}
	m := &Idle{Machine: machine(), Reads: o.Level.String(), Seconds: o.Length.Seconds(), Sidecars: o.Sidecars}
	return m, errors.Join(m.measure(ctx, o, f), f.stop())
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

func (m *Idle) measure(ctx context.Context, o IdleOptions, f *processes) error {
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
	reportProgress(o.Progress, "three data centers, after %s: measuring for %s", o.Settle, o.Length)
	if m.Small, err = measureIdle(ctx, f, o, f.members); err != nil {
		return err
	}
	if err := addSidecars(ctx, f, sidecarWithoutClient, o.Sidecars); err != nil {
		return err
	}
	reportProgress(o.Progress, "%d sidecars more, after %s: measuring for %s", o.Sidecars, o.Settle, o.Length)
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

// connectIdleClient opens a connection that writes and reads once, and stays open.
func connectIdleClient(f *processes) (net.Conn, error) {
	for _, p := range f.members {
		if p.kind != sidecarWithClient {
			continue
		}
		c, err := net.Dial("tcp", p.redis)
		if err != nil {
			return nil, fmt.Errorf("connect to the %s: %w", p.kind, err)
		}
		if err := askOnce(c, "SET idle 1\r\n", "+OK\r\n"); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
	return nil, errors.New("no sidecar for the client")
}

// askOnce sends an inline command and checks the reply.
func askOnce(c net.Conn, command, want string) error {
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, command); err != nil {
		return fmt.Errorf("send %q: %w", command, err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		return fmt.Errorf("read the reply to %q: %w", command, err)
	}
	if string(got) != want {
		return fmt.Errorf("the reply to %q is %q", command, got)
	}
	return nil
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
func measureIdle(ctx context.Context, f *processes, o IdleOptions, members []*member) ([]IdlePart, error) {
	if err := wait(ctx, o.Settle); err != nil {
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
	if err := wait(ctx, o.Length); err != nil {
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

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Text prints the figures.
func (m *Idle) Text(out io.Writer) {
	fmt.Fprintf(out, "\nIdle parts, each in its own process, embedded storage, reads %s\n%s; %.0f s each\n", m.Reads,
		m.Machine, m.Seconds)
	print := func(title string, parts []IdlePart) {
		fmt.Fprintf(out, "\n%s\n", title)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "EACH\tCPU ms/s\tRESIDENT MiB\tANONYMOUS MiB\tWAKE-UPS/s\tSENT/s\tRECEIVED/s\t")
		for _, p := range parts {
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.0f\t%.1f\t%.1f\t\n", p.Part, p.CPUMs, p.ResidentMiB, p.AnonymousMiB,
				p.WakeUps, p.Sent, p.Received)
		}
		_ = w.Flush() // to a terminal
	}
	print("Three data centers in two rings, the mean of the parts of each kind:", m.Small)
	print(fmt.Sprintf("The first data center with %d sidecars more:", m.Sidecars), m.Crowded)
}

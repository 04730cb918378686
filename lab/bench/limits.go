package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// LimitsOptions say how hard the parts are attacked.
type LimitsOptions struct {
	Setup
	// Length is for how long each attack lasts, and Connections how many clients it has.
	Length      time.Duration
	Connections int
	// Idle is the number of idle connections whose memory is measured.
	Idle int
	// Keys is how many go through a cache of CacheBytes.
	Keys, CacheBytes int
	// Attacks names those to make; none: all.
	Attacks []string
}

// FullLimits returns the options of a full run.
func FullLimits() *LimitsOptions {
	return &LimitsOptions{Length: 10 * time.Second, Connections: 200, Idle: 10000, Keys: 1000000, CacheBytes: 64 << 20}
}

func (o *LimitsOptions) experiment() *Experiment {
	return &Experiment{
		Name:  "limits",
		Short: "Attack each part with what takes most memory, and compare it with the limits of the containers",
		Long: `Runs each part of one data center in its own process, with a stock redis-server
as its storage and the memory limits that the operator gives to containers. Measures what an idle
connection takes. Then clients try to make the parts take as much memory as they can, in a
deployment of its own for each way. Fails if a part takes more than its container may, or a client
that comes later is not served. Requires redis-server and Linux.

The attacks are ` + strings.Join(attackNames(), ", ") + ".",
		quick:   "3 s for each attack, a tenth of the keys and of the idle connections",
		quickly: map[string]string{"seconds": "3", "keys": "100000", "idle": "1000"},
		setup:   &o.Setup, declare: o.declare, measure: measuring(o.Measure),
	}
}

func (o *LimitsOptions) declare(f *flags) {
	f.in(time.Second, &o.Length, "seconds", "length of each attack in seconds")
	f.count(&o.Connections, "connections", "number of clients that attack")
	f.IntVar(&o.Idle, "idle", o.Idle,
		"number of idle connections; the limit of open files must be greater; 0: do not measure them")
	f.count(&o.Keys, "keys", "number of keys that go through the cache")
	f.count(&o.CacheBytes, "cache-bytes", "bound of that cache in bytes")
	f.StringSliceVar(&o.Attacks, "attacks", nil, "the attacks to make; default: all")
	f.positive("seconds")
	f.notNegative("idle")
	f.oneOf(attackNames(), "attacks")
}

// Limits is what the parts take under attack, beside the memory limits of their containers.
type Limits struct {
	Origin
	// LimitMiB holds the memory limits of the containers, by part.
	LimitMiB map[string]int64 `json:"limitMiB"`
	// IdleMiB is the memory of a sidecar without clients that is not mapped from files. With IdleConnections clients
	// more that have sent one command each, it grows by BytesPerConnection for each of them.
	IdleMiB            float64        `json:"idleMiB"`
	IdleConnections    int            `json:"idleConnections"`
	BytesPerConnection float64        `json:"bytesPerConnection"`
	IdleGoal           goal           `json:"idleGoal"`
	ConnectionGoal     goal           `json:"connectionGoal"`
	Attacks            []AttackResult `json:"attacks"`
}

// AttackResult is the outcome of one attack.
type AttackResult struct {
	Name string `json:"name"`
	// PeakMiB is the greatest resident memory of a process of each part, without what is mapped from files, as the
	// program is: the kernel can take that back.
	PeakMiB map[string]float64 `json:"peakMiB"`
	// Evicted is how many clients the sidecar has closed because all together took too much.
	Evicted float64 `json:"evicted"`
	// Errors counts the error replies by their first word.
	Errors map[string]int `json:"errors,omitempty"`
	// Problem is what a client met that came after the attack, or a part that ended; empty if all is well.
	Problem string `json:"problem,omitempty"`
}

// containerMiB are the memory limits that the operator gives to containers by default, in MiB. GOMEMLIMIT is nine
// tenths.
var containerMiB = map[string]int64{"sidecar": 256, "coordinator": 1024, "middleman": 512, "cache": 256}

// Measure attacks deployments whose parts have the memory limits of their containers, one after the other, and measures
// what the parts take.
func (o *LimitsOptions) Measure(ctx context.Context) (*Limits, error) {
	l := &Limits{Origin: o.origin(), LimitMiB: containerMiB, IdleGoal: goal{Most: 20}, ConnectionGoal: goal{Most: 8192}}
	return l, o.withDataDir(func(dir string) error {
		if o.Idle > 0 {
			o.progress("%d idle connections", o.Idle)
			if err := l.idle(ctx, o, filepath.Join(dir, "idle")); err != nil {
				return fmt.Errorf("idle connections: %w", err)
			}
		}
		for _, a := range allAttacks() {
			if len(o.Attacks) > 0 && !slices.Contains(o.Attacks, a.name) {
				continue
			}
			o.progress("%s: %s", a.name, a.what)
			r, err := a.measure(ctx, o, filepath.Join(dir, a.name))
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			l.Attacks = append(l.Attacks, *r)
		}
		return nil
	})
}

// limitedSpec is one data center whose parts have the memory limits of their containers.
func limitedSpec() processSpec {
	spec := processSpec{topology: oneDataCenter(), redis: true, memoryLimit: map[string]int64{}}
	for part, mib := range containerMiB {
		spec.memoryLimit[part] = mib << 20 / 10 * 9
	}
	return spec
}

// twoRings is two data centers, each a ring of its own.
func twoRings() topology.File {
	return topology.File{Epoch: 1, RoundTripMs: map[string]map[string]float64{"here": {"far": 10}},
		DataCenters: []topology.FileDataCenter{{Name: "here"}, {Name: "far"}},
		Rings: []topology.FileRing{{Name: "ring", DataCenters: []string{"here"}},
			{Name: "far", DataCenters: []string{"far"}}}}
}

// idle measures a sidecar without clients, and then with idle ones.
func (l *Limits) idle(ctx context.Context, o *LimitsOptions, dir string) error {
	p, err := startProcesses(ctx, o.Binary, dir, limitedSpec())
	if err != nil {
		return err
	}
	s := &siege{LimitsOptions: o, p: p}
	return errors.Join(l.measureConnections(ctx, s), s.close(), p.stop())
}

func (l *Limits) measureConnections(ctx context.Context, s *siege) error {
	pid := s.p.find("sidecar", hereDC).program.pid()
	settle := func() (float64, error) {
		// Buffers of the start are returned to the system after a while.
		if err := sleep(ctx, s.Length); err != nil {
			return 0, err
		}
		n, err := anonymousBytes(pid)
		return float64(n), err
	}
	before, err := settle()
	if err != nil {
		return err
	}
	for range s.Idle {
		c, err := s.dial()
		if err != nil {
			return err
		}
		if reply, err := c.ask("PING"); err != nil || reply.line != "+PONG" {
			return fmt.Errorf("PING was answered %q, %w", reply, err)
		}
	}
	after, err := settle()
	if err != nil {
		return err
	}
	l.IdleMiB, l.IdleConnections, l.BytesPerConnection = before/(1<<20), s.Idle, (after-before)/float64(s.Idle)
	return nil
}

// measure makes one attack on a deployment of its own.
func (a *attack) measure(ctx context.Context, o *LimitsOptions, dir string) (*AttackResult, error) {
	spec := limitedSpec()
	if a.spec != nil {
		a.spec(o, &spec)
	}
	p, err := startProcesses(ctx, o.Binary, dir, spec)
	if err != nil {
		return nil, err
	}
	s := &siege{LimitsOptions: o, p: p, errors: map[string]int{}}
	r := &AttackResult{Name: a.name, PeakMiB: map[string]float64{}, Errors: s.errors}
	err = a.attempt(ctx, s, r)
	return r, errors.Join(err, s.close(), p.stop())
}

// attempt makes the attack, and asks for service afterwards.
func (a *attack) attempt(ctx context.Context, s *siege, r *AttackResult) error {
	if a.prepare != nil {
		if err := a.prepare(ctx, s); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	for _, m := range s.p.members {
		if err := forgetPeak(m.program.pid()); err != nil {
			return err
		}
	}
	limit, cancel := context.WithTimeout(ctx, s.Length)
	defer cancel()
	if err := a.run(limit, s); err != nil {
		return err
	}
	for _, m := range s.p.members {
		peak, err := peakBytes(m.program.pid())
		if err != nil {
			r.Problem = fmt.Sprintf("the %s has ended: %s", m.kind, m.program.tail())
			return nil
		}
		r.PeakMiB[m.part] = max(r.PeakMiB[m.part], float64(peak)/(1<<20))
	}
	if err := errors.Join(s.close(), s.resume()); err != nil {
		return err
	}
	if err := s.serves(ctx); err != nil {
		r.Problem = err.Error()
		return nil
	}
	var err error
	r.Evicted, err = s.p.partMetric(ctx, "sidecar", "causalstore_redis_connections_evicted_total")
	return err
}

// Report has the figures beside the limits.
func (l *Limits) Report() *Report {
	t := &table{title: "Greatest memory in MiB", head: []string{"attack"}}
	for _, part := range partNames {
		t.head = append(t.head, fmt.Sprintf("%s (of %d)", part, l.LimitMiB[part]))
	}
	t.head = append(t.head, "clients closed", "within")
	var lines []string
	if l.IdleConnections > 0 {
		lines = append(lines,
			fmt.Sprintf("idle sidecar: %.1f MiB of its own; goal %s MiB: %s", l.IdleMiB, l.IdleGoal,
				l.IdleGoal.verdict(l.IdleMiB)),
			fmt.Sprintf("each of %d idle connections: %.0f bytes; goal %s: %s", l.IdleConnections, l.BytesPerConnection,
				l.ConnectionGoal, l.ConnectionGoal.verdict(l.BytesPerConnection)))
	}
	for _, a := range l.Attacks {
		row := []string{a.Name}
		for _, part := range partNames {
			row = append(row, fmt.Sprintf("%.0f", a.PeakMiB[part]))
		}
		t.add(append(row, fmt.Sprintf("%.0f", a.Evicted), fmt.Sprint(l.isWithin(a)))...)
		if len(a.Errors) > 0 {
			lines = append(lines, fmt.Sprintf("%s: error replies %v", a.Name, a.Errors))
		}
		if a.Problem != "" {
			lines = append(lines, fmt.Sprintf("%s: %s", a.Name, a.Problem))
		}
	}
	return l.report("limits", "Parts with the memory limits of their containers, each a process", "",
		chapter{title: t.title, tables: []*table{t}, lines: lines})
}

func (l *Limits) isWithin(a AttackResult) bool {
	for part, mib := range l.LimitMiB {
		if a.PeakMiB[part] > float64(mib) {
			return false
		}
	}
	return a.Problem == ""
}

// Verdict returns the attacks in which a part took more than its container may, or after which clients were not served.
func (l *Limits) Verdict() error {
	var errs []error
	for _, a := range l.Attacks {
		if !l.isWithin(a) {
			errs = append(errs, fmt.Errorf("%s: greatest resident MiB %v, limits %v %s", a.Name, a.PeakMiB, l.LimitMiB,
				a.Problem))
		}
	}
	return errors.Join(errs...)
}

// find returns the first member that runs a part of a data center.
func (p *processes) find(part, dc string) *member {
	i := slices.IndexFunc(p.members, func(m *member) bool { return m.part == part && m.dc == dc })
	return p.members[i]
}

// serves checks that a client that comes after the attack is served.
func (s *siege) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var last error
	for ctx.Err() == nil {
		if last = s.setAndGet(); last == nil {
			return nil
		}
		_ = sleep(ctx, 100*time.Millisecond) // the loop looks at ctx
	}
	return fmt.Errorf("not served 30 s after the attack: %w", last)
}

func (s *siege) setAndGet() error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	value := strconv.FormatInt(time.Now().UnixNano(), 10)
	if reply, err := c.ask("SET", "after", value); err != nil || !isOK(reply) {
		return fmt.Errorf("SET was answered %q, %w", reply, err)
	}
	if reply, err := c.ask("GET", "after"); err != nil || reply.value != value {
		return fmt.Errorf("GET was answered %q, %w", reply, err)
	}
	return nil
}

// dial opens a connection that lasts until the attack ends.
func (s *siege) dial() (*conn, error) {
	c, err := dial(s.p.sidecar(hereDC))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, c)
	return c, nil
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// FaultOptions describe what to break, and under which load.
type FaultOptions struct {
	Setup
	// Topology is a file; empty means the built-in one. DC is the data center that is hurt.
	Topology, DC string
	// Cases are names of faults; empty means all.
	Cases []string
	// Lead is how long caches are warmed before Before. After is the least time after the heal; it lasts until
	// everything is normal again, but at most Recovery.
	Lead, Before, During, After, Recovery time.Duration
	// Rate is the operations per second of all clients together. Connections are in each data center.
	Rate        float64
	Connections int
	ReadRatio   float64
	Keys        int
	ValueBytes  int
	// Scope is that of sessions. With ScopeDataCenter, they read at level Snapshot, whatever Level says.
	Scope node.Scope
	Level causal.Level
	// Members is how many members each coordinator and each shard has.
	Members int
	// Tune changes the machines, for tests.
	Tune local.Tune
}

// FullFaults returns the options of a full run.
func FullFaults() *FaultOptions {
	return &FaultOptions{DC: "eu-west-1", Lead: 5 * time.Second, Before: 5 * time.Second, During: 12 * time.Second,
		After: 8 * time.Second, Recovery: time.Minute, Rate: 800, Connections: 40, ReadRatio: 0.95, Keys: 500,
		ValueBytes: 100, Scope: node.ScopeConnection, Level: causal.Latest, Members: 1}
}

func (o *FaultOptions) experiment() *Experiment {
	return &Experiment{
		Name:  "faults",
		Short: "Measure what clients see while a part fails, and how long a heal takes",
		Long: `Runs a deployment of eight data centers on an emulated WAN for each fault, with
clients in every data center at a fixed rate. It injects the fault into one data center, heals it,
and prints for the clients there and elsewhere: operations that failed, latencies, the longest time
without a success, and how long after the heal everything was normal. It checks what all clients
have seen, and fails if that is not causal.

Faults: ` + strings.Join(faultNames, ", ") + `.`,
		Example: `  causalstore bench faults --quick
  causalstore bench faults --cases dc-dead,cut-all --data-center sa-east-1
  causalstore bench faults --report docs/benchmarks --json docs/benchmarks/faults.json`,
		quick:   "shorter phases: all faults in about three and a half minutes",
		quickly: map[string]string{"lead": "2s", "before": "2s", "during": "4s", "after": "3s"},
		setup:   &o.Setup, declare: o.declare, measure: measuring(o.Measure),
	}
}

func (o *FaultOptions) declare(f *flags) {
	f.StringSliceVar(&o.Cases, "cases", nil, "faults to measure (default all)")
	f.StringVar(&o.DC, "data-center", o.DC, "data center to break")
	f.DurationVar(&o.Lead, "lead", o.Lead, "how long clients work before anything is measured")
	f.DurationVar(&o.Before, "before", o.Before, "how long it is measured before each fault")
	f.DurationVar(&o.During, "during", o.During, "how long each fault lasts")
	f.DurationVar(&o.After, "after", o.After, "how long it is measured after each heal at least")
	f.Float64Var(&o.Rate, "rate", o.Rate, "operations per second of all clients together")
	f.count(&o.Connections, "connections", "clients in each data center")
	f.Float64Var(&o.ReadRatio, "read-ratio", o.ReadRatio, "share of reads; 2 % are MGET")
	f.count(&o.Keys, "keys", "number of keys")
	f.count(&o.ValueBytes, "value-bytes", "size of values in bytes")
	f.StringVar((*string)(&o.Scope), "session-scope", string(o.Scope),
		"scope of a session: Pod (all clients of a data center), Connection, or DataCenter "+
			"(as Pod, and reads are Snapshot)")
	f.IntVar(&o.Members, "members", o.Members, "members of each coordinator and of each shard")
	f.between(1, topology.MaxMembers, "members")
	f.reads(&o.Level)
	f.StringVar(&o.Topology, "topology", "", "topology file (default eight AWS regions in three rings)")
	f.positive("before", "during", "after", "rate")
	f.notNegative("lead")
	f.between(mgetShare, 1, "read-ratio")
	f.oneOf(faultNames, "cases")
	f.oneOf([]string{string(node.ScopePod), string(node.ScopeConnection), string(node.ScopeDataCenter)},
		"session-scope")
	f.must(func() error {
		if o.Scope == node.ScopeDataCenter {
			o.Level = causal.Snapshot
		}
		return nil
	})
}

// Faults is what clients saw while parts of a deployment failed.
type Faults struct {
	Origin
	DC          string       `json:"dataCenter"`
	DataCenters int          `json:"dataCenters"`
	Rings       int          `json:"rings"`
	Rate        float64      `json:"ratePerSecond"`
	Connections int          `json:"connectionsPerDataCenter"`
	ReadRatio   float64      `json:"readRatio"`
	Keys        int          `json:"keys"`
	ValueBytes  int          `json:"valueBytes"`
	Scope       string       `json:"sessionScope"`
	Snapshot    bool         `json:"snapshotReads"`
	Members     int          `json:"members"`
	During      float64      `json:"faultSeconds"`
	Cases       []*FaultCase `json:"cases"`
	TookSeconds float64      `json:"tookSeconds"`
	OthersCores float64      `json:"othersCores"`

	violations []error
}

// FaultCase is one fault.
type FaultCase struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Here are the data centers whose clients count as near the fault.
	Here []string `json:"here"`
	// Gone says that the data center that is hurt stays dead.
	Gone   bool         `json:"gone,omitempty"`
	Phases []FaultPhase `json:"phases"`
	// Released is how long after the begin of the fault no session was bound by a write from before it, in seconds; nil
	// if some were to its end.
	Released *float64   `json:"releasedSeconds"`
	Heal     *FaultHeal `json:"heal"`
	// History is the verdict of the checker.
	History    string `json:"history"`
	Violations int    `json:"violations"`
}

// FaultPhase is what some clients saw before, during or after the fault.
type FaultPhase struct {
	Phase   string   `json:"phase"`   // before, during or after
	Clients string   `json:"clients"` // here or elsewhere
	Seconds float64  `json:"seconds"`
	Reads   FaultOps `json:"reads"`
	Writes  FaultOps `json:"writes"`
	// Local is the share of GETs that were answered in the client's data center.
	Local float64 `json:"localReads"`
}

// FaultOps is how the operations ended that were due in a phase. Times are those of the successful ones.
type FaultOps struct {
	OK     int            `json:"ok"`
	Failed int            `json:"failed"`
	Errors map[string]int `json:"errors,omitempty"`
	P50Ms  float64        `json:"p50Ms"`
	P99Ms  float64        `json:"p99Ms"`
	MaxMs  float64        `json:"maxMs"`
	// GapSeconds is the longest part of the phase in which no operation succeeded in one of the data centers.
	GapSeconds float64 `json:"longestGapSeconds"`
}

// FaultHeal is how long after the begin of the heal everything was normal again, in seconds.
type FaultHeal struct {
	// LastError is when the last operation was due that failed; 0 if none failed.
	LastError float64 `json:"lastErrorSeconds"`
	// Complete is when all writes accepted before the heal were in every ring, Unbound when no session was bound by one
	// of them, Refilled when every shard had got back the data that it had lost, and Local when as many reads were
	// answered in the client's data center as before the fault. Of a data center that is gone, nothing counts but what
	// its sessions are bound by.
	Complete float64 `json:"completeSeconds"`
	Unbound  float64 `json:"unboundSeconds"`
	Refilled float64 `json:"refilledSeconds"`
	Local    float64 `json:"localSeconds"`
	// LookedUpKeys is how many keys the shards that had lost data have looked up in other rings, and CopiedBytes what
	// they have taken from there, in bytes of values: what was written since the loss, they have.
	LookedUpKeys uint64 `json:"lookedUpKeys"`
	CopiedBytes  uint64 `json:"copiedBytes"`
	// Normal is the greatest of these. If Recovered is not set, that was not reached; some of them are then the time
	// that was waited.
	Normal    float64 `json:"normalSeconds"`
	Recovered bool    `json:"recovered"`
}

// Measure breaks a deployment in one way after the other, each time a new one, and measures what its clients see.
func (o *FaultOptions) Measure(ctx context.Context) (*Faults, error) {
	t, err := paperTopology(o.Topology)
	if err != nil {
		return nil, err
	}
	if _, ok := t.ByName(o.DC); !ok {
		return nil, fmt.Errorf("--data-center: unknown data center %q", o.DC)
	}
	if len(t.DCs) < 2 {
		return nil, errors.New("--topology: there must be two data centers at least")
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	begun := time.Now()
	res := &Faults{Origin: o.origin(), DC: o.DC, DataCenters: len(t.DCs), Rings: len(t.Rings), Rate: o.Rate,
		Connections: o.Connections, ReadRatio: o.ReadRatio, Keys: o.Keys, ValueBytes: o.ValueBytes,
		Scope: strings.ToLower(string(o.Scope)), Snapshot: o.Level == causal.Snapshot, Members: o.Members,
		During: o.During.Seconds()}
	before, err := loadOf(nil)
	if err != nil {
		return nil, err
	}
	for _, c := range faultCases(t, o.DC, o.Members) {
		if len(o.Cases) > 0 && !slices.Contains(o.Cases, c.name) {
			continue
		}
		o.progress("%s", c.title)
		run := &faultRun{o: o, topology: t, fault: c}
		out, err := run.measure(ctx)
		var broken *brokenHistoryError
		if errors.As(err, &broken) {
			res.violations = append(res.violations, fmt.Errorf("%s: %w", c.name, broken))
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		res.Cases = append(res.Cases, out)
	}
	res.TookSeconds = time.Since(begun).Seconds()
	after, err := loadOf(nil)
	var others bystanders
	others.add(before, after)
	res.OthersCores = others.processors()
	return res, err
}

// Verdict returns the histories that are not causal, and where data centers do not agree in the end.
func (f *Faults) Verdict() error { return errors.Join(f.violations...) }

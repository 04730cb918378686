package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	Dir string
	// Topology is a file; empty means the built-in one. DC is the data center that is hurt.
	Topology, DC string
	// Cases are names of FaultNames; empty means all.
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
	Scope       node.Scope
	Level       causal.Level
	// Tune changes the machines, for tests.
	Tune     local.Tune
	Progress io.Writer
	Command  string
}

// FullFaults are the options of a complete run.
func FullFaults() FaultOptions {
	return FaultOptions{DC: "eu-west-1", Lead: 5 * time.Second, Before: 5 * time.Second, During: 12 * time.Second,
		After:    8 * time.Second,
		Recovery: time.Minute, Rate: 800, Connections: 40, ReadRatio: 0.95, Keys: 500, ValueBytes: 100,
		Scope: node.ScopeConnection}
}

// QuickFaults are the options of --quick.
func QuickFaults() FaultOptions {
	o := FullFaults()
	o.Lead, o.Before, o.During, o.After = 2*time.Second, 2*time.Second, 4*time.Second, 3*time.Second
	return o
}

func (o *FaultOptions) check(t *topology.Topology) error {
	if _, ok := t.ByName(o.DC); !ok {
		return fmt.Errorf("--data-center: unknown data center %q", o.DC)
	}
	for _, name := range o.Cases {
		if !slices.Contains(FaultNames(), name) {
			return fmt.Errorf("--cases: unknown fault %q; use %s", name, strings.Join(FaultNames(), ", "))
		}
	}
	if len(t.DCs) < 2 {
		return errors.New("--topology: there must be two data centers at least")
	}
	if o.Lead < 0 || o.Before <= 0 || o.During <= 0 || o.After <= 0 || o.Recovery < o.After {
		return errors.New("--during: the phases must be longer than 0")
	}
	if !(o.Rate > 0) || o.Connections < 1 || o.Keys < 1 || o.ValueBytes < 1 ||
		!(o.ReadRatio > mgetShare && o.ReadRatio < 1) {
		return fmt.Errorf(
			"--rate, --connections, --keys and --value-bytes must be positive, and --read-ratio between %g and 1",
			mgetShare)
	}
	return nil
}

// Faults is what clients saw while parts of a deployment failed.
type Faults struct {
	Machine     string       `json:"machine"`
	Commit      string       `json:"commit"`
	Command     string       `json:"command"`
	Date        string       `json:"date"`
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
	During      float64      `json:"faultSeconds"`
	Cases       []*FaultCase `json:"cases"`
	TookSeconds float64      `json:"tookSeconds"`
	OthersCores float64      `json:"othersCores"`
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

// MeasureFaults breaks a deployment in one way after the other, each time a new one, and measures what its clients see.
// A history that is not causal, and data centers that do not agree in the end, are errors; the result is valid beside
// them.
func MeasureFaults(ctx context.Context, o FaultOptions) (*Faults, error) {
	t := topology.Default()
	if o.Topology != "" {
		var err error
		if t, err = topology.Load(o.Topology); err != nil {
			return nil, err
		}
	}
	if err := o.check(t); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	res := &Faults{Machine: machine(), Commit: commit(), Command: o.Command, Date: begun.Format("2 January 2006"),
		DC: o.DC, DataCenters: len(t.DCs),
		Rings: len(t.Rings), Rate: o.Rate, Connections: o.Connections, ReadRatio: o.ReadRatio, Keys: o.Keys,
		ValueBytes: o.ValueBytes,
		Scope:      strings.ToLower(string(o.Scope)), Snapshot: o.Level == causal.Snapshot, During: o.During.Seconds()}
	busy, err := busyTime()
	if err != nil {
		return nil, err
	}
	mine := ownCPU()
	var violations []error
	for _, c := range faultCases(t, o.DC) {
		if len(o.Cases) > 0 && !slices.Contains(o.Cases, c.name) {
			continue
		}
		reportProgress(o.Progress, "%s", c.title)
		run := &faultRun{o: &o, topology: t, fault: c}
		out, err := run.measure(ctx, dir)
		var broken *brokenHistoryError
		if errors.As(err, &broken) {
			violations = append(violations, fmt.Errorf("%s: %w", c.name, broken))
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		res.Cases = append(res.Cases, out)
	}
	res.TookSeconds = time.Since(begun).Seconds()
	busyNow, err := busyTime()
	if err != nil {
		return nil, err
	}
	res.OthersCores = max(0, (busyNow-busy-(ownCPU()-mine)).Seconds()/res.TookSeconds)
	return res, errors.Join(violations...)
}

// WriteReport writes the tables as a page of Markdown into a directory, which it creates if necessary.
func (f *Faults) WriteReport(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "faults.md"), f.page(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

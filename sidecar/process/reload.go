package process

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// change is what a new version of the configuration means for a running process.
type change struct {
	// refused is why it must not be used at all, not even by a restart.
	refused error
	// restart are the fields whose changes wait for a restart.
	restart []string
	// topology, addresses and level are to be taken over now.
	topology, addresses, level bool
}

// compare decides what to do about next while old is in use. Numbers of parts may change while everything runs. Addresses
// belong to a topology, so nothing is taken over from a file whose topology has changed in any other way.
func compare(old, next *Settings) change {
	was, is := old.Topology, next.Topology
	switch {
	case is.Epoch < was.Epoch:
		return change{refused: fmt.Errorf("topology: epoch %d is lower than %d, which is in use; raise it above that", is.Epoch, was.Epoch)}
	case is.Epoch == was.Epoch && layout(is) != layout(was):
		return change{refused: fmt.Errorf("topology: it has changed, and its epoch is still %d; raise it", is.Epoch)}
	}
	c := change{restart: changedFields(old, next)}
	c.topology = is.Epoch > was.Epoch && onlyNumbers(was, is)
	if is.Epoch > was.Epoch && !c.topology {
		c.restart = append([]string{fmt.Sprintf("topology (epoch %d, in use is %d)", is.Epoch, was.Epoch)}, c.restart...)
		return c
	}
	if !reflect.DeepEqual(was.RTT, is.RTT) {
		c.restart = append(c.restart, "topology.roundTripMs")
	}
	c.addresses = !reflect.DeepEqual(old.directory, next.directory)
	c.level = old.LogLevel != next.LogLevel
	return c
}

// onlyNumbers reports whether two topologies differ in nothing but numbers of parts, and the epoch.
func onlyNumbers(a, b *topology.Topology) bool {
	same := func(x, y topology.DataCenter) bool {
		x.Shards, x.ShardsBefore, x.Caches = y.Shards, y.ShardsBefore, y.Caches
		x.Coordinators, x.CoordinatorsBefore = y.Coordinators, y.CoordinatorsBefore
		return x == y
	}
	return slices.EqualFunc(a.DCs, b.DCs, same) && reflect.DeepEqual(a.Rings, b.Rings) && reflect.DeepEqual(a.RTT, b.RTT)
}

// changedFields names the fields that differ and that are read at the start only.
func changedFields(old, next *Settings) []string {
	var changed []string
	a, b := reflect.ValueOf(old.Config), reflect.ValueOf(next.Config)
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		switch name {
		case "topology", "topologyFile", "addresses", "log":
			continue // compare looks at what they mean
		}
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			changed = append(changed, name)
		}
	}
	for _, f := range []struct {
		name     string
		was, now string
	}{
		{"log.format", old.Config.Log.Format, next.Config.Log.Format},
		{"content of tokenKeyFile", old.tokenKey, next.tokenKey},
		{"password of auth", old.clientPassword, next.clientPassword},
		{"password of storage.redis", old.storagePassword, next.storagePassword},
	} {
		if f.was != f.now {
			changed = append(changed, f.name)
		}
	}
	return changed
}

// reloader applies the configuration file to a running process.
type reloader struct {
	source Source
	book   *book
	level  *slog.LevelVar
	// topology makes the part use another one.
	topology func(*topology.Topology) error

	mu      sync.Mutex
	current *Settings // in use
	pending []string
	problem string
	reloads map[string]int // by outcome

	reloadsDesc, pendingDesc *prometheus.Desc
}

// The outcomes of a reload.
const (
	outcomeApplied = "applied"
	outcomeRestart = "restart-needed"
	outcomeRefused = "refused"
)

func newReloader(in *Settings, source Source, b *book, level *slog.LevelVar, setTopology func(*topology.Topology) error) *reloader {
	return &reloader{
		source: source, book: b, level: level, topology: setTopology, current: in,
		reloads: map[string]int{outcomeApplied: 0, outcomeRestart: 0, outcomeRefused: 0},
		reloadsDesc: prometheus.NewDesc("causalstore_config_reloads_total",
			"Changes of the configuration file: applied, waiting for a restart, or refused.", []string{"outcome"}, nil),
		pendingDesc: prometheus.NewDesc("causalstore_config_restart_needed",
			"Whether the configuration file has changes that wait for a restart (1) or not (0).", nil, nil),
	}
}

// reload reads the file and takes over what can be. It may be called at any time, also if nothing has changed.
func (r *reloader) reload(log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.source.Load(r.current.Self.Part)
	var c change
	if err == nil {
		c = compare(r.current, next)
		err = c.refused
	}
	if err == nil {
		err = r.apply(c, next, log)
	}
	if err != nil {
		if r.problem != err.Error() { // a file that stays wrong is reported once
			r.problem = err.Error()
			r.reloads[outcomeRefused]++
			log.Error("the configuration file is refused; going on with what was read before", "file", r.source.Path, "error", err)
		}
		return
	}
	r.problem = ""
	if was := strings.Join(r.pending, ", "); was != strings.Join(c.restart, ", ") {
		r.pending = c.restart
		if len(c.restart) > 0 {
			r.reloads[outcomeRestart]++
			log.Warn("the configuration file has changes that need a restart of this process", "file", r.source.Path, "fields", c.restart)
		}
	}
}

// apply takes over what can be. New addresses come before the topology that names the nodes there.
func (r *reloader) apply(c change, next *Settings, log *slog.Logger) error {
	if !c.topology && !c.addresses && !c.level {
		return nil
	}
	in := *r.current
	if c.topology {
		both := maps.Clone(in.directory)
		maps.Copy(both, next.directory)
		r.book.replace(both)
		if err := r.topology(next.Topology); err != nil {
			return fmt.Errorf("topology: epoch %d: %w", next.Topology.Epoch, err)
		}
		in.Topology, in.Config.Topology = next.Topology, next.Config.Topology
	}
	if c.addresses {
		in.Config.Addresses, in.directory = next.Config.Addresses, next.directory
		r.book.replace(in.directory)
	}
	if c.level {
		in.Config.Log.Level, in.LogLevel = next.Config.Log.Level, next.LogLevel
		r.level.Set(in.LogLevel)
	}
	r.current = &in
	r.reloads[outcomeApplied]++
	log.Info("the configuration file was applied", "file", r.source.Path, "topology", c.topology, "addresses", c.addresses,
		"level", c.level)
	return nil
}

// state returns what /readyz shows.
func (r *reloader) state() (pending []string, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending, r.problem
}

// Describe implements prometheus.Collector.
func (r *reloader) Describe(ch chan<- *prometheus.Desc) { ch <- r.reloadsDesc; ch <- r.pendingDesc }

// Collect implements prometheus.Collector.
func (r *reloader) Collect(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for outcome, n := range r.reloads {
		ch <- prometheus.MustNewConstMetric(r.reloadsDesc, prometheus.CounterValue, float64(n), outcome)
	}
	ch <- prometheus.MustNewConstMetric(r.pendingDesc, prometheus.GaugeValue, float64(min(1, len(r.pending))))
}

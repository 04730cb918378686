package process

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// change is what a new configuration file means for a running process.
type change struct {
	// refused is why the file must not be used at all, not even after a restart; nil if it may be.
	refused error
	// restart names the fields whose changes take effect after a restart.
	restart []string
	// topology, addresses, level and users say what changes now.
	topology, addresses, level, users bool
}

// compareSettings decides what to do about next while old is in use. Addresses belong to a topology, so nothing but the
// users is applied from a file whose topology has changed in a way that needs a restart (contract.AppliesLive).
func compareSettings(old, next *Settings) change {
	was, is := old.Topology, next.Topology
	switch {
	case is.Epoch < was.Epoch:
		return change{refused: fmt.Errorf("topology: epoch %d is lower than %d, which is in use; give a higher one",
			is.Epoch, was.Epoch)}
	case is.Epoch == was.Epoch && layoutDigest(is) != layoutDigest(was):
		return change{refused: fmt.Errorf("topology: it has changed, but its epoch is still %d; give a higher one",
			is.Epoch)}
	}
	if err := is.CheckExclusions(was.Exclusions()); err != nil {
		return change{refused: fmt.Errorf("topology: %w", err)}
	}
	c := change{restart: changedFields(old, next),
		users: hasUsers(old) && hasUsers(next) && !reflect.DeepEqual(old.users, next.users)}
	c.topology = is.Epoch > was.Epoch && contract.AppliesLive(was, is)
	if is.Epoch > was.Epoch && !c.topology {
		c.restart = append([]string{fmt.Sprintf("topology (epoch %d, in use is %d)", is.Epoch, was.Epoch)},
			c.restart...)
		return c
	}
	if !reflect.DeepEqual(was.RTT, is.RTT) {
		c.restart = append(c.restart, "topology.roundTripMs")
	}
	c.addresses = !reflect.DeepEqual(old.addresses, next.addresses)
	c.level = old.LogLevel != next.LogLevel
	return c
}

// hasUsers reports whether clients must be users. A change of that needs a restart.
func hasUsers(s *Settings) bool { return s.users != nil }

// changedFields names the fields that differ and that are read only at the start.
func changedFields(old, next *Settings) []string {
	var changed []string
	a, b := reflect.ValueOf(old.Config), reflect.ValueOf(next.Config)
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		switch name {
		case "topology", "topologyFile", "addresses", "log":
			continue // compareSettings compares what they mean
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
	book   *addressBook
	level  *slog.LevelVar
	// setTopology makes the part switch to another topology.
	setTopology func(*topology.Topology) error
	// setUsers replaces the users of Redis clients.
	setUsers func([]contract.User)

	mu      sync.Mutex
	current *Settings      // in use
	pending []string       // fields whose changes wait for a restart
	problem error          // why the present file is not used
	reloads map[string]int // by outcome

	reloadsDesc, pendingDesc *prometheus.Desc
}

// The outcomes of a reload.
const (
	outcomeApplied = "applied"
	outcomeRestart = "restart-needed"
	outcomeRefused = "refused"
)

func newReloader(in *Settings, source Source, b *addressBook, level *slog.LevelVar,
	setTopology func(*topology.Topology) error,
	setUsers func([]contract.User)) *reloader {
	return &reloader{
		source: source, book: b, level: level, setTopology: setTopology, setUsers: setUsers, current: in,
		reloads: map[string]int{outcomeApplied: 0, outcomeRestart: 0, outcomeRefused: 0},
		reloadsDesc: prometheus.NewDesc("causalstore_config_reloads_total",
			"Changes of the configuration file: applied, waiting for a restart, or refused.", []string{"outcome"}, nil),
		pendingDesc: prometheus.NewDesc("causalstore_config_restart_needed",
			"Whether the configuration file has changes that wait for a restart (1) or not (0).", nil, nil),
	}
}

// reload reads the file and applies what can change now. It may be called at any time, also if nothing has changed.
func (r *reloader) reload(log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.source.Load(r.current.Self.Part)
	var c change
	if err == nil {
		c = compareSettings(r.current, next)
		err = c.refused
	}
	if err == nil {
		err = r.apply(c, next, log)
	}
	if err != nil {
		if r.problem == nil || r.problem.Error() != err.Error() { // report a file that stays wrong once
			r.problem = err
			r.reloads[outcomeRefused]++
			log.Error("configuration file refused; the previous configuration stays in use", "file", r.source.Path,
				"error", err)
		}
		return
	}
	r.problem = nil
	if !slices.Equal(r.pending, c.restart) {
		r.pending = c.restart
		if len(c.restart) > 0 {
			r.reloads[outcomeRestart]++
			log.Warn("configuration file changed; restart this process to apply the change", "file", r.source.Path,
				"fields", c.restart)
		}
	}
}

// apply applies what can change now. New addresses come before the topology that names the nodes there.
func (r *reloader) apply(c change, next *Settings, log *slog.Logger) error {
	if !c.topology && !c.addresses && !c.level && !c.users {
		return nil
	}
	in := *r.current
	if c.topology {
		r.book.replace(in.addresses.with(next.addresses))
		if err := r.setTopology(next.Topology); err != nil {
			return fmt.Errorf("topology: epoch %d: %w", next.Topology.Epoch, err)
		}
		in.Topology, in.Config.Topology = next.Topology, next.Config.Topology
	}
	if c.addresses {
		in.Config.Addresses, in.addresses = next.Config.Addresses, next.addresses
		r.book.replace(in.addresses)
	}
	if c.level {
		in.Config.Log.Level, in.LogLevel = next.Config.Log.Level, next.LogLevel
		r.level.Set(in.LogLevel)
	}
	if c.users {
		in.users = next.users
		r.setUsers(in.users)
	}
	r.current = &in
	r.reloads[outcomeApplied]++
	log.Info("configuration file applied", "file", r.source.Path, "topology", c.topology, "addresses", c.addresses,
		"level", c.level, "users", c.users)
	return nil
}

// state returns the fields that wait for a restart, and why the present file is not used.
func (r *reloader) state() (pending []string, problem error) {
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

package load

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Upper bounds of a config.
const (
	mostConnections = 10_000
	mostPipeline    = 10_000
	mostRate        = 10_000_000
)

// connections is the total number of connections.
func (c *Config) connections() int { return c.Sessions * c.ConnectionsPerSession }

// withDefaults sets defaults and validates the rest.
func (c Config) withDefaults(now time.Time) (Config, error) {
	setDefault(&c.Sessions, 1)
	setDefault(&c.ConnectionsPerSession, 1)
	setDefault(&c.SessionNaming, ByConnection)
	setDefault(&c.Arrivals, Uniform)
	setDefault(&c.Pipeline, 1)
	setDefault(&c.Timeout, 5*time.Second)
	setDefault(&c.Protocol, 3)
	setDefault(&c.FinalTimeout, time.Minute)
	setDefault(&c.MaxBytes, 2<<30)
	setDefault(&c.Promise, Causal)
	c.Endpoints = slices.Clone(c.Endpoints)
	for i := range c.Endpoints {
		setDefault(&c.Endpoints[i].DataCenter, c.Endpoints[i].Name)
	}
	var workload error
	if c.Workload != nil {
		workload = c.applyWorkload()
	}
	if c.Promise == DataCenter {
		setDefault(&c.Keys, 4)
	}
	setDefault(&c.Keys, 1000)
	if c.Workload == nil || c.Record != nil {
		setDefault(&c.KeyPrefix, strconv.FormatInt(now.UnixMicro(), 36)+":")
	} else {
		setDefault(&c.KeyPrefix, "load:")
	}
	if c.MGetKeys == 0 {
		c.MGetKeys = min(4, c.Keys)
	}
	if err := errors.Join(workload, c.check()); err != nil {
		return c, fmt.Errorf("configure load: %w", err)
	}
	return c, nil
}

// applyWorkload copies the workload and applies the settings of the config that override it.
func (c *Config) applyWorkload() error {
	w := *c.Workload
	c.Workload = &w
	for _, o := range []struct{ ours, theirs *int }{{&c.Keys, &w.Keys.Count}, {&c.MaxKeys, &w.Keys.Max}} {
		if *o.ours != 0 {
			*o.theirs = *o.ours
		}
	}
	if c.Hot != (Hot{}) {
		w.Hot = c.Hot
	}
	if c.Burst != (Burst{}) {
		w.Burst = c.Burst
	}
	if err := w.complete(); err != nil {
		return fmt.Errorf("workload %s: %w", w.Name, err)
	}
	c.Keys, c.MaxKeys, c.Hot, c.Burst = w.Keys.Count, max(w.Keys.Max, w.Keys.Count), w.Hot, w.Burst
	return errors.Join(c.checkBytes(), c.checkRecordable())
}

// checkBytes refuses workloads that would fill the memory of the measured system.
func (c *Config) checkBytes() error {
	w := c.Workload
	bytes := float64(c.MaxKeys) * (float64(w.Keys.Bytes) + w.Values.mean())
	if bytes > float64(c.MaxBytes) {
		return fmt.Errorf(
			"workload %s: %d keys hold %.1f GiB, but only %.1f GiB are allowed: use fewer keys or raise the bound",
			w.Name, c.MaxKeys, bytes/(1<<30), float64(c.MaxBytes)/(1<<30))
	}
	return nil
}

// checkRecordable refuses to record operations that a history cannot express.
func (c *Config) checkRecordable() error {
	if c.Record == nil {
		return nil
	}
	for v, share := range c.Workload.shares {
		if share > 0 && !Verb(v).recordable() {
			return fmt.Errorf("workload %s: a history cannot express %v: run it without recording and checking",
				c.Workload.Name, Verb(v))
		}
	}
	if len(c.Workload.TTLs) > 0 {
		return fmt.Errorf(
			"workload %s: a history cannot express keys that expire: run it without recording and checking",
			c.Workload.Name)
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) check() error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(!slices.Contains(Promises, c.Promise), "promise %q: it must be one of %v", c.Promise, Promises)
	wrong(c.Promise == DataCenter && c.Workload != nil,
		"the promise %s has a mix of its own: leave out the workload", DataCenter)
	wrong(len(c.Endpoints) == 0, "no endpoint: give at least one")
	names := make(map[string]bool)
	for _, e := range c.Endpoints {
		wrong(e.Name == "" || e.Addr == "", "endpoint %q at %q: give a name and an address as host:port",
			e.Name, e.Addr)
		wrong(names[e.Name], "endpoint %q is given twice", e.Name)
		names[e.Name] = true
	}
	for _, n := range []struct {
		name        string
		value, most int
	}{{"sessions", c.Sessions, mostConnections}, {"connections per session", c.ConnectionsPerSession, mostConnections},
		{"connections", c.connections(), mostConnections}, {"pipeline", c.Pipeline, mostPipeline},
		{"keys", c.Keys, mostKeys},
		{"keys of an mget", c.MGetKeys, mostMGetKeys}} {
		wrong(n.value < 1, "%s: %d; it must be at least 1", n.name, n.value)
		wrong(n.value > n.most, "%s: %d; it must be at most %d", n.name, n.value, n.most)
	}
	wrong(c.MGetKeys > c.Keys, "%d keys per MGET, but only %d keys exist", c.MGetKeys, c.Keys)
	wrong(c.SessionNaming != ByConnection && c.SessionNaming != ByEndpoint, "session naming %q: it must be %q or %q",
		c.SessionNaming, ByConnection, ByEndpoint)
	wrong(c.Duration <= 0 && c.Ops <= 0, "the run is not bounded: give a duration or a number of operations")
	wrong(c.Duration < 0 || c.Ops < 0 || c.Timeout < 0 || c.FinalTimeout < 0,
		"the duration, the number of operations and the timeouts must not be negative")
	wrong(c.ValueBytes < 0 || c.ValueBytes > mostValueBytes, "value size of %d bytes: it must be between 0 and %d",
		c.ValueBytes, mostValueBytes)
	wrong(c.Protocol != 2 && c.Protocol != 3, "protocol RESP%d: it must be 2 or 3", c.Protocol)
	wrong(!(c.Theta >= 0 && c.Theta < 1), "theta %g: it must be at least 0 and below 1", c.Theta)
	for _, s := range []struct {
		name  string
		value float64
	}{{"private key share", c.PrivateKeyShare}, {"read ratio", c.ReadRatio}, {"mget ratio", c.MGetRatio},
		{"delete ratio", c.DeleteRatio},
		{"sum of the read, mget and delete ratios", c.ReadRatio + c.MGetRatio + c.DeleteRatio}} {
		wrong(!(s.value >= 0 && s.value <= 1+1e-9), "%s: %g is not between 0 and 1", s.name, s.value)
	}
	errs = append(errs, c.checkArrivals())
	if c.Workload == nil {
		wrong(c.LoadKeys != 0 || c.MaxKeys != 0,
			"the number of keys to preload and the maximum number of keys need a workload: give one")
		errs = append(errs, c.Hot.check(c.Keys))
	} else {
		wrong(c.LoadKeys < -1 || c.LoadKeys > c.Keys, "%d keys to preload, but only %d keys exist", c.LoadKeys, c.Keys)
	}
	return errors.Join(errs...)
}

func (c *Config) checkArrivals() error {
	switch {
	case !(c.Rate >= 0 && c.Rate <= mostRate):
		return fmt.Errorf("rate %g: it must be between 0 and %d per second", c.Rate, mostRate)
	case c.Arrivals != Uniform && c.Arrivals != Poisson:
		return fmt.Errorf("arrivals %q: they must be %q or %q", c.Arrivals, Uniform, Poisson)
	case c.Rate == 0 && c.Arrivals == Poisson:
		return errors.New("poisson arrivals need a rate: give one")
	case c.Rate == 0 && c.Burst != (Burst{}):
		return errors.New("bursts need a rate, the mean: give one")
	}
	return c.Burst.check()
}

package load

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestInvalidWorkloadFileIsRefusedWithAdvice(t *testing.T) {
	for _, c := range []struct{ yaml, says string }{
		{"", "the file is empty"},
		{"operations: {get: 1}\nkey: {count: 3}", `unknown field "key"`},
		{"operations: {get: 0.5}", "the shares add up to 0.5: they must add up to 1"},
		{"operations: {scan: 1}", `operation "scan": it must be one of [get mget set add insert rmw incr del]`},
		{"operations: {get: 1.5, set: -0.5}", "share 1.5 of get: it must be between 0 and 1"},
		{"keys: {count: 10}", "the shares add up to 0"},
		{"operations: {get: 1}\nkeys: {count: 2000000000}", "it must be between 1 and 100000000"},
		{"operations: {get: 1}\nkeys: {distribution: pareto}", "it must be uniform, zipfian, scrambled or latest"},
		{"operations: {get: 1}\nkeys: {exponent: 1}", "leave it out, or make it zipfian"},
		{"operations: {get: 1}\nkeys: {distribution: zipfian, exponent: -1}",
			"exponent -1: it must be between 0 and 20"},
		{"operations: {get: 1}\nkeys: {max: 20000}", "the workload has no inserts"},
		{"operations: {insert: 1}\nkeys: {count: 10, max: 9}", "max 9: it must be between the count of 10"},
		{"operations: {get: 1}\nmget: {max: 3}", "no share of mget"},
		{"operations: {mget: 1}\nmget: {min: 5, max: 3}", "mget with 5 to 3 keys"},
		{"operations: {mget: 1}\nkeys: {count: 3}\nmget: {max: 5}", "not more than the 3 existing keys"},
		{"operations: {set: 1}\nvalues: {bytes: 5, max: 6}", "only one of them"},
		{"operations: {set: 1}\nvalues: {min: 7, max: 6}", "min 7 is above max 6"},
		{"operations: {set: 1}\nvalues: {bytes: 99999999}", "sizes must be between 0 and 16777216"},
		{"operations: {set: 1}\nvalues: {sizes: [{bytes: 5, share: 0.4}]}", "sizes: the shares add up to 0.4"},
		{"operations: {set: 1}\nvalues: {sizes: [{bytes: 5}]}", "it must be above 0"},
		{"operations: {set: 1}\nttls: [{ttl: 60, share: 1}]", "write it like 500ms, 90s, 1h30m or 7d"},
		{"operations: {set: 1}\nttls: [{ttl: never, share: 1}]", "write it like 500ms, 90s, 1h30m or 7d"},
		{"operations: {set: 1}\nttls: [{ttl: 60s, share: 0.6}, {ttl: 1s, share: 0.6}]", "they must be at most 1"},
		{"operations: {set: 1}\nttls: [{ttl: 10us, share: 0.6}]", "at least 1ms"},
		{"operations: {get: 1}\nhot: {keys: 20000, share: 0.5}", "give 1 to 10000 keys"},
		{"operations: {get: 1}\nhot: {keys: 2}", "a share above 0"},
		{"operations: {get: 1}\nburst: {factor: 9, length: 1s, pause: 1s}", "at most 2"},
	} {
		path := filepath.Join(t.TempDir(), "w.yaml")
		if err := os.WriteFile(path, []byte(c.yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := NewWorkload(path); err == nil || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%q: wanted %q, got %v", c.yaml, c.says, err)
		}
	}
}

func TestUnknownWorkloadIsRefusedWithTheKnownOnes(t *testing.T) {
	for name, says := range map[string]string{
		"no/such.yaml": "ycsb-a to ycsb-f and twitter-1",
		"ycsb-g":       "ycsb-a, ycsb-b",
		"twitter-99":   "without 5, 43, 46 and 53",
		"twitter-x":    "twitter-1 to twitter-54",
	} {
		if _, err := NewWorkload(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigThatContradictsItsWorkloadIsRefused(t *testing.T) {
	base := Config{Endpoints: []Endpoint{{Name: "a", Addr: "b"}}, Ops: 1}
	set := func(change func(*Config)) Config {
		c := base
		change(&c)
		return c
	}
	workload := func(name string) *Workload { return builtIn(t, name) }
	for says, c := range map[string]Config{
		"a history cannot express incr": set(func(c *Config) {
			c.Workload, c.Record = workload("twitter-22"), io.Discard
		}),
		"a history cannot express keys that expire": set(func(c *Config) {
			c.Workload, c.Record = workload("twitter-4"), io.Discard
		}),
		"10.2 GiB, but only 2.0 GiB are allowed": set(func(c *Config) {
			c.Workload, c.Keys = workload("ycsb-a"),
				10_700_000
		}),
		"2000 keys to preload, but only 1000 keys exist": set(func(c *Config) {
			c.Workload, c.Keys, c.LoadKeys = workload("ycsb-a"), 1000, 2000
		}),
		"not more than the 50 existing keys": set(func(c *Config) {
			c.Workload, c.Keys = workload("ycsb-e"),
				50
		}),
		"the workload has no inserts": set(func(c *Config) {
			c.Workload, c.MaxKeys = workload("ycsb-a"),
				20_000
		}),
		"need a workload: give one":    set(func(c *Config) { c.LoadKeys = 5 }),
		"poisson arrivals need a rate": set(func(c *Config) { c.Arrivals = Poisson }),
		"bursts need a rate": set(func(c *Config) {
			c.Burst = Burst{Factor: 2, Length: 1, Pause: 2}
		}),
		`arrivals "often": they must be "uniform"`: set(func(c *Config) { c.Rate, c.Arrivals = 1, "often" }),
		"connections: 250000": set(func(c *Config) {
			c.Sessions, c.ConnectionsPerSession = 500,
				500
		}),
		"pipeline: 20000; it must be at most 10000": set(func(c *Config) { c.Pipeline = 20_000 }),
		"2000 hot keys": set(func(c *Config) { c.Hot = Hot{Keys: 2000, Share: 0.1} }),
		"rate 1e+09":    set(func(c *Config) { c.Rate = 1e9 }),
	} {
		if _, err := c.withDefaults(time.Now()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("wanted %q, got %v", says, err)
		}
	}
	if _, err := base.withDefaults(time.Now()); err != nil {
		t.Error(err)
	}
}

func TestParseDurationUnderstandsDays(t *testing.T) {
	for text, want := range map[string]time.Duration{"92.6d": 8000640 * time.Second, "90s": 90 * time.Second,
		"1h30m": 90 * time.Minute, "0.5d": 12 * time.Hour} {
		if d, err := ParseDuration(text); err != nil || time.Duration(d) != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "d", "7", "1dd", "NaNd", "99999999d"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, d)
		}
	}
}

package load

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Endpoint is a RESP server. Name is the data centre in the history; it must be unique.
type Endpoint struct {
	Name string
	Addr string // host:port
}

// Naming says what is one session in the history.
type Naming string

// The ways to name sessions.
const (
	// ByConnection: every connection is a session of its own, and ends with it.
	ByConnection Naming = "connection"
	// ByEndpoint: all connections to one endpoint are one session (scope Pod).
	ByEndpoint Naming = "endpoint"
)

// Config says what to do to whom. The zero values of the optional fields are replaced by the defaults named.
type Config struct {
	Endpoints []Endpoint
	// Sessions are spread round robin over the endpoints. Default 1.
	Sessions int
	// ConnectionsPerSession is for ByEndpoint. Default 1.
	ConnectionsPerSession int
	// SessionNaming defaults to ByConnection.
	SessionNaming Naming

	// Duration and Ops bound the run; at least one must be given.
	Duration time.Duration
	Ops      int64
	// Rate is operations a second of all connections together; 0 is the closed loop.
	Rate float64
	// Pipeline is how many operations a connection sends at once. Default 1.
	Pipeline int
	// Timeout bounds connecting and every round trip. Default 5 s.
	Timeout time.Duration
	// Protocol is the version of RESP, 2 or 3. Default 3.
	Protocol int

	// Keys is the number of keys that all share. Default 1000.
	Keys int
	// KeyPrefix stands before every key. The default is new for every run, since what an earlier run has
	// left would be values that nobody wrote.
	KeyPrefix string
	// Theta is the skew of YCSB's zipfian distribution, 0 (uniform) to below 1. YCSB's own is 0.99.
	Theta float64
	// PrivateKeyShare is the share of operations that go to keys which no other connection uses: Keys divided by the
	// number of connections for each, but at least 1.
	PrivateKeyShare float64
	// ReadRatio, MGetRatio and DeleteRatio are the shares of GET, MGET and DEL; the rest is SET.
	ReadRatio, MGetRatio, DeleteRatio float64
	// MGetKeys is the number of keys of an MGET. Default 4, at most Keys.
	MGetKeys int
	// ValueBytes pads values to that length. Default 0: as short as uniqueness allows.
	ValueBytes int
	// Seed makes the choice of operations repeatable.
	Seed uint64

	// Record takes the history as JSON lines; nil records nothing.
	Record io.Writer
	// CaptureVersions asks CAUSAL LAST after every operation, in the same pipeline. Endpoints that do not know the command
	// are not asked again.
	CaptureVersions bool
	// FinalReads reads every written key at every endpoint when all is done, until the endpoints agree.
	FinalReads bool
	// FinalTimeout bounds that. Default 60 s.
	FinalTimeout time.Duration
}

// withDefaults fills in what was left out and checks the rest.
func (c Config) withDefaults(now time.Time) (Config, error) {
	setDefault(&c.Sessions, 1)
	setDefault(&c.ConnectionsPerSession, 1)
	setDefault(&c.SessionNaming, ByConnection)
	setDefault(&c.Pipeline, 1)
	setDefault(&c.Timeout, 5*time.Second)
	setDefault(&c.Protocol, 3)
	setDefault(&c.Keys, 1000)
	setDefault(&c.KeyPrefix, strconv.FormatInt(now.UnixMicro(), 36)+":")
	setDefault(&c.FinalTimeout, time.Minute)
	if c.MGetKeys == 0 {
		c.MGetKeys = min(4, c.Keys)
	}
	return c, c.check()
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
	wrong(len(c.Endpoints) == 0, "no endpoint given: name at least one")
	names := make(map[string]bool)
	for _, e := range c.Endpoints {
		wrong(e.Name == "" || e.Addr == "", "endpoint %q at %q: give both a name and an address host:port", e.Name, e.Addr)
		wrong(names[e.Name], "endpoint %q is given twice", e.Name)
		names[e.Name] = true
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"sessions", c.Sessions}, {"connections per session", c.ConnectionsPerSession}, {"pipeline", c.Pipeline}, {"keys", c.Keys},
		{"keys of an mget", c.MGetKeys}} {
		wrong(n.value < 1, "%s: %d given; at least 1 is needed", n.name, n.value)
	}
	wrong(c.MGetKeys > c.Keys, "%d keys of an mget, but only %d keys", c.MGetKeys, c.Keys)
	wrong(c.SessionNaming != ByConnection && c.SessionNaming != ByEndpoint, "session naming %q: it must be %q or %q", c.SessionNaming, ByConnection, ByEndpoint)
	wrong(c.Duration <= 0 && c.Ops <= 0, "neither a duration nor a number of operations bounds the run: give one")
	wrong(c.Duration < 0 || c.Ops < 0 || c.Rate < 0 || c.Timeout < 0 || c.FinalTimeout < 0 || c.ValueBytes < 0,
		"duration, operations, rate, timeouts and value bytes cannot be negative")
	wrong(c.Protocol != 2 && c.Protocol != 3, "protocol RESP%d: it must be 2 or 3", c.Protocol)
	wrong(!(c.Theta >= 0 && c.Theta < 1), "theta %g: it must be at least 0 and below 1", c.Theta)
	for _, s := range []struct {
		name  string
		value float64
	}{{"private key share", c.PrivateKeyShare}, {"read ratio", c.ReadRatio}, {"mget ratio", c.MGetRatio}, {"delete ratio", c.DeleteRatio},
		{"sum of the read, mget and delete ratios", c.ReadRatio + c.MGetRatio + c.DeleteRatio}} {
		wrong(!(s.value >= 0 && s.value <= 1+1e-9), "%s: %g is not between 0 and 1", s.name, s.value)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configure load: %w", err)
	}
	return nil
}

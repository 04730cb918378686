package canary

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/load"
)

// Bounds of a canary. A front serves thousands of operations per second; a canary is meant not to be noticed.
const (
	MostKeys     = 256
	MostSessions = 8
	// MostRate is in operations per second, of all sessions of a canary together.
	MostRate = 100.0
	// mostHistory bounds the history that a canary keeps, in bytes: an hour at the default rate.
	mostHistory = 32 << 20
	// incarnationLength is in characters of 5 bits.
	incarnationLength = 4
)

// Config describes a canary. All fields but those that say otherwise are required.
type Config struct {
	// DataCenter names the data center that is used.
	DataCenter string
	// Name starts the names of the sessions, and tells the canaries of a run apart. Default: DataCenter.
	Name string
	// Addr is the host:port of a front, or of the sidecar in the canary's pod.
	Addr string
	// OneSession says that all connections to Addr are one session, as a sidecar's are if the scope of sessions is Pod.
	OneSession bool
	// User and Password are those of a client, TLS how to connect; all may be empty.
	User, Password string
	TLS            *tls.Config
	// Prefix starts all keys, Secret authenticates the values. They are the same for all canaries of a run, and new for
	// each run.
	Prefix string
	Secret []byte
	// Sessions, Keys and Rate are bounded by MostSessions, MostKeys and MostRate.
	Sessions, Keys int
	Rate           float64
	// Timeout bounds connecting and every reply.
	Timeout time.Duration
	// TTL is the time to live of the keys. It must be longer than the run: the checker does not know of expiry.
	TTL time.Duration
	// Seed makes the choice of operations repeatable.
	Seed uint64
}

func (c *Config) check() error {
	_, _, err := net.SplitHostPort(c.Addr)
	switch {
	case err != nil:
		return fmt.Errorf("address %q: %w; give host:port", c.Addr, err)
	case c.DataCenter == "" || c.Prefix == "" || len(c.Secret) == 0:
		return errors.New("a canary needs a data center, a prefix for keys and a secret")
	case c.Sessions < 1 || c.Sessions > MostSessions:
		return fmt.Errorf("%d sessions: a canary has 1 to %d", c.Sessions, MostSessions)
	case c.Keys < 1 || c.Keys > MostKeys:
		return fmt.Errorf("%d keys: a canary uses 1 to %d", c.Keys, MostKeys)
	case c.Rate <= 0 || c.Rate > MostRate:
		return fmt.Errorf("%g operations per second: a canary makes more than 0 and at most %g", c.Rate, MostRate)
	case c.Timeout <= 0 || c.TTL < time.Minute:
		return errors.New("a canary needs a timeout above 0 and a time to live of at least 1m")
	}
	return nil
}

// Canary is a set of sessions. It is safe for concurrent use.
type Canary struct {
	config Config
	// incarnation is the name of this canary, and nobody else's: one that starts again, in the same pod, has another.
	incarnation string
	// generation is that of the session, if all connections are one.
	generation atomic.Int64
	signer     signer
	stop       context.CancelFunc
	stopped    chan struct{}

	mu      sync.Mutex
	history []byte
	samples []Sample
	errors  map[string]int
	full    bool
	bound   map[string]bool // by the names of sessions
}

// Start starts a canary. It ends with ctx, or when Stop is called.
func Start(ctx context.Context, config Config) (*Canary, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	c := &Canary{config: config, incarnation: cmp.Or(config.Name, config.DataCenter) + "/" +
		strings.ToLower(crand.Text()[:incarnationLength]), signer: signer{config.Secret}, stop: stop,
		stopped: make(chan struct{}), errors: map[string]int{}, bound: map[string]bool{}}
	c.generation.Store(1)
	var running sync.WaitGroup
	for i := range config.Sessions {
		running.Go(func() { newSession(c, fmt.Sprintf("%s/s%d", c.incarnation, i+1), uint64(i)).work(ctx) })
	}
	running.Go(func() { newSession(c, c.incarnation+"/probe", uint64(config.Sessions)).probe(ctx) })
	go func() {
		running.Wait()
		close(c.stopped)
	}()
	return c, nil
}

// Stop ends the sessions after the operations that are under way, and waits for that.
func (c *Canary) Stop() {
	c.stop()
	<-c.stopped
}

// Report returns what the canary has seen since a position: everything, if the position is of an earlier incarnation.
func (c *Canary) Report(from Position) Report {
	stopped := false
	select {
	case <-c.stopped:
		stopped = true
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if from.Incarnation != "" && from.Incarnation != c.incarnation {
		from = Position{}
	}
	r := Report{DataCenter: c.config.DataCenter, Now: time.Now().UnixNano(),
		Next: Position{c.incarnation, len(c.history), len(c.samples)}, Stopped: stopped, Full: c.full,
		Errors: map[string]int{}}
	r.History = string(c.history[min(max(from.Bytes, 0), len(c.history)):])
	r.Samples = slices.Clone(c.samples[min(max(from.Samples, 0), len(c.samples)):])
	for kind, n := range c.errors {
		r.Errors[kind] = n
	}
	return r
}

// record adds an operation, unless a value of it was forged.
func (c *Canary) record(op *history.Op, err error) {
	forged := c.forged(op)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errors[load.ErrorKind(err)]++
	}
	if forged != "" {
		c.samples = append(c.samples, Sample{Kind: Forged, Start: op.Start, End: op.End, Text: forged})
		return
	}
	line, err := history.AppendJSON(c.history, op)
	if err != nil { // only text that is not UTF-8, of which the sessions make none
		c.samples = append(c.samples, Sample{Kind: Forged, Start: op.Start, End: op.End, Text: err.Error()})
		return
	}
	if c.history = append(line, '\n'); len(c.history) > mostHistory {
		c.full = true
		c.stop()
	}
}

// forged returns the key and value of an operation that no canary has written, or "".
func (c *Canary) forged(op *history.Op) string {
	reads := op.Reads
	if op.Kind == history.Get {
		reads = []history.Read{{Key: op.Key, Value: op.Value, Missing: op.Missing}}
	}
	for _, r := range reads {
		if op.OK && !r.Missing && !c.signer.valid(r.Key, r.Value) {
			return fmt.Sprintf("%s=%.64q", r.Key, r.Value)
		}
	}
	return ""
}

func (c *Canary) sample(s Sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.samples = append(c.samples, s)
}

// noteBound adds a sample if the sessions become bound, or cease to be.
func (c *Canary) noteBound(session string, bound bool, start, end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.bound) > 0
	if bound {
		c.bound[session] = true
	} else {
		delete(c.bound, session)
	}
	if now := len(c.bound) > 0; now != before {
		c.samples = append(c.samples, Sample{Kind: Bound, Start: start, End: end, OK: !now})
	}
}

func (c *Canary) key(i int) string { return fmt.Sprintf("%s:%d", c.config.Prefix, i) }

func newSession(c *Canary, name string, number uint64) *session {
	s := &session{canary: c, name: name, random: rand.New(rand.NewPCG(c.config.Seed, number)), generation: 1}
	s.open()
	return s
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/topology"
)

// Options control how the tour is presented.
type Options struct {
	Out io.Writer
	// Color enables terminal colors.
	Color bool
	// PerLetter is how long the reader gets for each letter; 0 prints without delay.
	PerLetter time.Duration
}

// Outcome counts the statements of the tour.
type Outcome struct {
	// Held and Unexpected count the statements that held, and those that did not.
	Held, Unexpected int
}

// tour is one run of the tour.
type tour struct {
	*page
	d       *local.Deployment
	topo    *topology.Topology
	clients map[string]*redis.Client // by data center
	outcome Outcome

	mu   sync.Mutex
	keys map[string]int // the last number used, by name
}

// patience bounds each wait of the tour.
const patience = 20 * time.Second

// Run shows a tour of a deployment of topology.Default. It returns an error only if ctx ends before the tour does;
// problems of the deployment are in the outcome.
func Run(ctx context.Context, d *local.Deployment, topo *topology.Topology, o Options) (Outcome, error) {
	t := &tour{page: &page{out: o.Out, color: o.Color, perLetter: o.PerLetter}, d: d, topo: topo,
		clients: map[string]*redis.Client{}, keys: map[string]int{}}
	for _, e := range d.Endpoints() {
		c := redis.NewClient(&redis.Options{
			Addr: e.RESP, ReadTimeout: patience + 5*time.Second, // CAUSAL WAIT may take long
			MaxRetries: -1, // a retry would distort the measured time
		})
		defer c.Close()
		t.clients[e.Name] = c
	}
	t.introduce(ctx)
	if err := t.warmUp(ctx); err != nil {
		t.verify(ctx, false, "", err.Error())
	}
	for i, chapter := range []struct {
		title string
		tell  func(context.Context) error
	}{
		{"A write is acknowledged locally, then propagates", t.write},
		{"In-flight writes can be read, and never un-read", t.inFlight},
		{"Whoever sees an effect sees its cause", t.order},
		{"Values that were read are cached nearby", t.cache},
		{"A data center is cut off", t.cut},
		{"A shard dies", t.crash},
		{"A session moves to another continent", t.token},
		{"With scope DataCenter, a data center is as one Redis", t.oneRedis},
	} {
		t.title(ctx, i+1, chapter.title)
		err := chapter.tell(ctx)
		if ctx.Err() != nil {
			return t.outcome, ctx.Err()
		}
		if err != nil {
			t.verify(ctx, false, "", "this step failed: "+err.Error())
		}
	}
	t.conclude(ctx)
	return t.outcome, nil
}

func (t *tour) introduce(ctx context.Context) {
	t.print(ctx, bold, "CausalStore: a short tour")
	fmt.Fprintln(t.out)
	t.say(ctx,
		`%s in %s, all on this machine, with the delays of a real WAN between them. Each ring holds one copy of the
		data, spread over its data centers. What follows is done by a stock Redis client.`,
		count(len(t.topo.DCs), "data center"), count(len(t.topo.Rings), "ring"))
	for _, r := range t.topo.Rings {
		var names []string
		for _, dc := range r.DCs {
			names = append(names, t.topo.DCs[dc].Name)
		}
		t.row(ctx, "%-16s %s", r.Name, strings.Join(names, ", "))
	}
}

// warmUp waits until every data center has measured its distances to the others, and so reads from the nearest copy.
func (t *tour) warmUp(ctx context.Context) error {
	start := time.Now()
	err := t.each("", func(dc string) error {
		return until(ctx, dc+" reads from the nearest copy", func() (bool, error) {
			key, err := t.key("warm-up") // a new key, which no cache has
			if err != nil {
				return false, err
			}
			nearest := t.rtt(dc, t.home(0, key))
			for _, r := range t.topo.Rings[1:] {
				nearest = min(nearest, t.rtt(dc, t.home(t.topo.RingOf(r.DCs[0]), key)))
			}
			r, err := t.get(ctx, dc, key)
			return r.took < nearest+nearest/4+10*time.Millisecond, err
		})
	})
	if err == nil {
		t.say(ctx, "After %s, every data center reads from the nearest copy.", took(time.Since(start)))
	}
	return err
}

func (t *tour) conclude(ctx context.Context) {
	fmt.Fprintln(t.out)
	if o := t.outcome; o.Unexpected == 0 {
		t.print(ctx, green, fmt.Sprintf("All of the %s held.", count(o.Held, "statement")))
	} else {
		t.print(ctx, red, fmt.Sprintf("%d of %s did not hold.", o.Unexpected, count(o.Held+o.Unexpected, "statement")))
	}
}

// verify prints one of two statements, and counts it.
func (t *tour) verify(ctx context.Context, holds bool, yes, no string) {
	if holds {
		t.outcome.Held++
		t.verdict(ctx, true, yes)
		return
	}
	t.outcome.Unexpected++
	t.verdict(ctx, false, no)
}

// key returns a new key that has a copy in each of the given data centers.
func (t *tour) key(name string, homes ...string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range 100_000 {
		t.keys[name]++
		key := fmt.Sprintf("%s:%d", name, t.keys[name])
		fits := true
		for _, home := range homes {
			fits = fits && t.home(t.topo.RingOf(t.dc(home)), key) == home
		}
		if fits {
			return key, nil
		}
	}
	return "", fmt.Errorf("found no key %s:* with copies in %s", name, strings.Join(homes, " and "))
}

// home is the data center that holds a key's copy in a ring.
func (t *tour) home(r topology.RingID, key string) string {
	return t.topo.DCs[t.topo.Owner(r, topology.SlotOf(key)).DC].Name
}

// dc returns a data center of topology.Default.
func (t *tour) dc(name string) topology.DC {
	dc, ok := t.topo.ByName(name)
	if !ok {
		panic("the topology of the tour has no data center " + name)
	}
	return dc
}

// rtt is the configured round-trip time between two data centers.
func (t *tour) rtt(a, b string) time.Duration {
	return time.Duration(t.topo.RTT[t.dc(a)][t.dc(b)] * float64(time.Millisecond))
}

// heal ends all faults, even after ctx has ended.
func (t *tour) heal(ctx context.Context) error {
	return t.d.Inject(context.WithoutCancel(ctx), local.Fault{Kind: "heal"})
}

// each calls f concurrently for every data center except those left out, and joins the errors.
func (t *tour) each(except string, f func(dc string) error) error {
	errs := make(chan error)
	n := 0
	for _, dc := range t.topo.DCs {
		if dc.Name != except {
			n++
			go func() {
				err := f(dc.Name)
				if err != nil {
					err = fmt.Errorf("%s: %w", dc.Name, err)
				}
				errs <- err
			}()
		}
	}
	var all error
	for range n {
		all = errors.Join(all, <-errs)
	}
	return all
}

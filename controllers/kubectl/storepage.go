package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/controllers/storepage"
)

const (
	// pageInterval is the time between two snapshots; the operator makes one as often.
	pageInterval = storepage.Interval
	// pageIdle is how long after the last request of a browser the operators are still asked.
	pageIdle = 30 * time.Second
	// pageTimeout bounds what is asked of one cluster for a snapshot, so that the others are shown in time, and maxPage
	// an answer. A cluster that failed is tried again after retryInterval.
	pageTimeout   = 4 * time.Second
	retryInterval = 10 * time.Second
	maxPage       = 16 << 20
)

// storePage shows a store as the operators of its regions do, in one page. It implements console.Source.
type storePage struct {
	namespace, name   string
	operatorNamespace string
	clusters          []*pageCluster
	now               func() time.Time

	mu sync.Mutex
}

// pageCluster is one of the clusters of the page.
type pageCluster struct {
	*regionStore
	operators []*pageOperator
	// layouts are those that operators have answered last, also if they do not answer now.
	layouts []console.Layout
	// failed is why the operators could not be found at failedAt.
	failed   error
	failedAt time.Time
}

// pageOperator is the operator of a region, to which a port is forwarded.
type pageOperator struct {
	operatorPod
	forward  *forward
	layout   console.Layout
	snapshot console.Snapshot
	// err is why its last answer is missing.
	err error
}

func newStorePage(v *storeRegions, operatorNamespace string) *storePage {
	p := &storePage{namespace: v.namespace, name: v.name, operatorNamespace: operatorNamespace, now: time.Now}
	for _, r := range v.known() {
		if r.err == nil {
			p.clusters = append(p.clusters, &pageCluster{regionStore: r})
		}
	}
	return p
}

func (p *storePage) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clusters {
		for _, o := range c.operators {
			o.forward.close()
		}
	}
}

// Layout implements console.Source. It fails if no operator has answered yet.
func (p *storePage) Layout(ctx context.Context) (console.Layout, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, known := p.layout()
	if !known {
		p.connectAll(ctx, contextTimeout)
		if l, known = p.layout(); !known {
			return console.Layout{}, p.failure()
		}
	}
	return l, nil
}

// layout returns what the operators have answered last.
func (p *storePage) layout() (console.Layout, bool) {
	var layouts []console.Layout
	var contexts []string
	for _, c := range p.clusters {
		layouts, contexts = append(layouts, c.layouts...), append(contexts, c.context)
	}
	if len(layouts) == 0 {
		return console.Layout{}, false
	}
	title := fmt.Sprintf("store %s/%s", p.namespace, p.name)
	if len(contexts) > 1 {
		title += ", contexts " + strings.Join(contexts, ", ")
	}
	l := console.MergeLayouts(title, layouts)
	l.FactsAgeMs += pageInterval.Milliseconds() // each snapshot of an operator is as old as that until it is asked for
	return l, true
}

// failure says why there is nothing to show.
func (p *storePage) failure() error {
	var texts []string
	for _, c := range p.clusters {
		if c.failed != nil {
			texts = append(texts, c.describe(p, c.failed))
		}
	}
	return errors.New(strings.Join(texts, "; "))
}

// describe adds the context to an error, if there are several.
func (c *pageCluster) describe(p *storePage, err error) string {
	if len(p.clusters) == 1 {
		return describeContextError(err)
	}
	return "context " + c.context + ": " + describeContextError(err)
}

// connectAll finds the operators that are missing, in all clusters at once.
func (p *storePage) connectAll(ctx context.Context, timeout time.Duration) {
	p.eachCluster(ctx, timeout, func(ctx context.Context, c *pageCluster) {
		if c.failed == nil && len(c.operators) > 0 || c.failed != nil && p.now().Sub(c.failedAt) < retryInterval {
			return
		}
		if c.failed = p.connect(ctx, c); c.failed != nil {
			c.failedAt = p.now()
		}
	})
}

func (p *storePage) eachCluster(ctx context.Context, timeout time.Duration, do func(context.Context, *pageCluster)) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var running sync.WaitGroup
	for _, c := range p.clusters {
		running.Go(func() { do(ctx, c) })
	}
	running.Wait()
}

// connect forwards a port to an operator of each region in a cluster to which there is none, and asks it for the
// layout.
func (p *storePage) connect(ctx context.Context, c *pageCluster) error {
	pods, err := c.k.findOperators(ctx, c.store, p.operatorNamespace)
	if err != nil {
		return err
	}
	var failed error
	for _, pod := range pods {
		if slices.ContainsFunc(c.operators, func(o *pageOperator) bool { return o.region == pod.region }) {
			continue
		}
		f, err := c.k.forward(ctx, pod)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		o := &pageOperator{operatorPod: pod, forward: f}
		if err := p.get(ctx, o, "console/layout", &o.layout); err != nil {
			f.close()
			failed = errors.Join(failed, err)
			continue
		}
		c.operators = append(c.operators, o)
	}
	c.noteLayouts()
	return failed
}

// noteLayouts keeps the layouts of the operators, unless one has not answered: what is shown does not change because of
// that.
func (c *pageCluster) noteLayouts() {
	var all []console.Layout
	for _, o := range c.operators {
		if o.err == nil {
			all = append(all, o.layout)
		}
	}
	if len(all) >= len(c.layouts) {
		c.layouts = all
	}
}

// Take implements console.Source. It asks all operators at once.
func (p *storePage) Take(ctx context.Context) console.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connectAll(ctx, pageTimeout)
	p.eachCluster(ctx, pageTimeout, func(ctx context.Context, c *pageCluster) {
		for _, o := range c.operators {
			if o.err = p.get(ctx, o, "console/snapshot", &o.snapshot); o.err == nil {
				o.err = p.get(ctx, o, "console/layout", &o.layout)
			}
		}
		c.noteLayouts()
	})
	return p.merge()
}

// merge makes one snapshot of the answers. Operators that have not answered are found and connected again by a later
// one.
func (p *storePage) merge() console.Snapshot {
	l, _ := p.layout()
	var snapshots []console.Snapshot
	problems := []console.Problem{}
	away := map[string]string{}
	for _, c := range p.clusters {
		for _, o := range c.operators {
			if o.err == nil {
				snapshots = append(snapshots, o.snapshot)
				continue
			}
			o.forward.close()
			c.failed, c.failedAt = o.err, p.now()
		}
		c.operators = slices.DeleteFunc(c.operators, func(o *pageOperator) bool { return o.err != nil })
		if c.failed == nil {
			continue
		}
		for _, dc := range c.store.Status.DataCenters {
			if dc.Here {
				away[dc.Region] = "Its region cannot be read: " + c.describe(p, c.failed)
			}
		}
		problems = append(problems, console.Problem{Severity: console.Critical, Runbook: "CausalStoreOperatorDown",
			Text: "No facts: " + c.describe(p, c.failed)})
	}
	s := console.Merge(l, p.now().UnixMilli(), snapshots, func(site console.LayoutSite) string {
		if why, ok := away[site.Region]; ok {
			return why
		}
		return "It runs in region " + site.Region +
			", whose operator was not asked. To see it here, give the context of its cluster too: kubectl causal " +
			"console --context ... --context ..."
	})
	s.Problems = append(s.Problems, problems...)
	console.SortProblems(s.Problems)
	return s
}

// get asks an operator for something of the store. A new value is decoded, because fields that are missing would keep
// what they had.
func (p *storePage) get(ctx context.Context, o *pageOperator, what string, into any) error {
	body, err := o.forward.get(ctx, storepage.Path(p.namespace, p.name)+what)
	if err != nil {
		return fmt.Errorf("operator %s/%s: %w", o.namespace, o.operatorPod.name, err)
	}
	switch into := into.(type) {
	case *console.Layout:
		*into = console.Layout{}
	case *console.Snapshot:
		*into = console.Snapshot{}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("operator %s/%s: read its answer: %w", o.namespace, o.operatorPod.name, err)
	}
	return nil
}

// get sends a request to the port that is forwarded.
func (f *forward) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.address+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := f.client.Do(request)
	if err != nil {
		return nil, f.explain(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	if err != nil {
		return nil, f.explain(err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(body[:min(len(body), 1000)])))
	}
	return body, nil
}

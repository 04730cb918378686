package kubectl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// contextFlags select one cluster or several.
type contextFlags struct{ contexts []string }

// register adds --context. It replaces that of other commands, which select one cluster.
func (f *contextFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.contexts, "context", nil,
		"context of the kubeconfig; give it once for each cluster; default: the current one")
}

// selected returns the clusters that the flags select, each context once.
func (c *cluster) selected(f *contextFlags) (all []*cluster) {
	contexts := f.contexts
	if len(contexts) == 0 {
		contexts = []string{c.context}
	}
	for i, name := range contexts {
		if !slices.Contains(contexts[:i], name) {
			of := *c
			of.context = name
			all = append(all, &of)
		}
	}
	return all
}

// completeStoreOf completes store names from the first cluster that the flags select.
func (c *cluster) completeStoreOf(f *contextFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return c.selected(f)[0].completeStore(cmd, args, prefix)
	}
}

// regionStore is what the cluster of one context has of a store.
type regionStore struct {
	context string
	k       *connection
	store   *v1alpha1.CausalStore // nil if the cluster does not have it, or cannot be read
	// sameAs is an earlier context that leads to the same cluster. Nothing is read or shown of this one then.
	sameAs string
	// err is why the store, or something of it, could not be read.
	err error
}

// fail keeps the first error.
func (r *regionStore) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// storeRegions is a store in the clusters of several contexts.
type storeRegions struct {
	namespace, name string
	all             []*regionStore
}

// known returns the regions whose store is known.
func (v *storeRegions) known() (all []*regionStore) {
	for _, r := range v.all {
		if r.store != nil && r.sameAs == "" {
			all = append(all, r)
		}
	}
	return all
}

// contextTimeout bounds each request to a cluster, and, with several contexts, how long a cluster has to answer what a
// command asks it before it shows something.
const contextTimeout = 20 * time.Second

// eachContext calls read for each region at once, with a bound in time, and keeps the errors.
func eachContext(ctx context.Context, regions []*regionStore, read func(context.Context, *regionStore) error) {
	atOnce(regions, func(r *regionStore) error {
		ctx, cancel := context.WithTimeout(ctx, contextTimeout)
		defer cancel()
		return read(ctx, r)
	})
}

// atOnce calls read for each region at once and keeps the errors.
func atOnce(regions []*regionStore, read func(*regionStore) error) {
	var running sync.WaitGroup
	for _, r := range regions {
		running.Go(func() {
			if err := read(r); err != nil {
				r.fail(err)
			}
		})
	}
	running.Wait()
}

// findStores returns the stores of a namespace, or only the named one, as all clusters have them. The namespace is the
// same in all: that of the flag, or of the first context. It fails if no cluster has one.
func findStores(ctx context.Context, clusters []*cluster, name string) ([]*storeRegions, error) {
	var namespace string
	contexts := make([]*regionStore, 0, len(clusters))
	for _, c := range clusters {
		r := &regionStore{context: c.context}
		if r.k, r.err = c.connect(); r.err == nil {
			if namespace == "" {
				namespace = r.k.namespace
			}
			r.k.namespace = namespace
		}
		contexts = append(contexts, r)
	}
	stores := make(map[*regionStore][]v1alpha1.CausalStore, len(contexts))
	var writing sync.Mutex
	eachContext(ctx, contexts, func(ctx context.Context, r *regionStore) error {
		if r.err != nil {
			return nil
		}
		all, err := r.k.allStores(ctx)
		writing.Lock()
		defer writing.Unlock()
		stores[r] = all
		return err
	})
	names := map[string]bool{}
	for _, all := range stores {
		for _, s := range storeNames(all) {
			names[s] = name == "" || s == name
		}
	}
	maps.DeleteFunc(names, func(_ string, is bool) bool { return !is })
	if len(names) == 0 {
		return nil, errNoStore(contexts, namespace, name)
	}
	var found []*storeRegions
	for _, n := range slices.Sorted(maps.Keys(names)) {
		found = append(found, newStoreRegions(namespace, n, contexts, stores))
	}
	return found, nil
}

// newStoreRegions returns one store of those that were listed.
func newStoreRegions(namespace, name string, contexts []*regionStore,
	stores map[*regionStore][]v1alpha1.CausalStore) *storeRegions {
	v := &storeRegions{namespace: namespace, name: name}
	for _, in := range contexts {
		r := &regionStore{context: in.context, k: in.k, err: in.err}
		for i := range stores[in] {
			if s := &stores[in][i]; s.Name == name {
				r.store = s
			}
		}
		for _, before := range v.known() {
			if r.store != nil && r.store.UID != "" && before.store.UID == r.store.UID {
				r.sameAs = before.context
			}
		}
		v.all = append(v.all, r)
	}
	return v
}

// findOneStore returns the named store as all clusters have it, or the only one of the namespace.
func findOneStore(ctx context.Context, clusters []*cluster, name string) (*storeRegions, error) {
	found, err := findStores(ctx, clusters, name)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		var names []string
		for _, v := range found {
			names = append(names, v.name)
		}
		return nil, errSeveralStores(found[0].namespace, names)
	}
	return found[0], nil
}

// errNoStore says why no cluster has a store.
func errNoStore(contexts []*regionStore, namespace, name string) error {
	var failed []string
	for _, r := range contexts {
		if r.err != nil {
			failed = append(failed, fmt.Sprintf("%s: %s", r.context, describeContextError(r.err)))
		}
	}
	if len(failed) == len(contexts) {
		return fmt.Errorf("none of the %d contexts can be read: %s", len(contexts), strings.Join(failed, "; "))
	}
	what := "CausalStore"
	if name != "" {
		what += " " + name
	}
	text := fmt.Sprintf("namespace %s has no %s in any of the %d contexts; %s", namespace, what, len(contexts),
		remedyNoStore)
	if len(failed) > 0 {
		text += "; not read: " + strings.Join(failed, "; ")
	}
	return errors.New(text)
}

// describeContextError renders why a cluster could not be read, in one line.
func describeContextError(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", contextTimeout)
	}
	return oneLine(err)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

package trust

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
)

// A new authority issues once every data center of every store of the region accepts it: those of other regions, as the region's parts
// hear from their links, and those of the region itself. A region that has no store in common with this one does not matter, and one
// that is away is waited for: what is there may come back with the bundle that it had.

// Waits returns what keeps an authority from issuing, of one store: the data centers that do not accept it, by the reports of the store's
// parts in this region. regions has the region of each data center, and unasked why a part could not be asked.
func Waits(root *x509.Certificate, regions map[string]string, reports map[string]contract.Readiness, unasked map[string]string) (waits []string) {
	digest := contract.FormatRoot(contract.RootDigest(root))
	const unheard, accepts, refuses = 0, 1, 2
	heard := map[string]int{}
	for _, part := range slices.Sorted(maps.Keys(reports)) {
		r := reports[part]
		if len(r.Acceptance) == 0 {
			waits = append(waits, fmt.Sprintf("part %s does not say what it accepts", part))
		}
		for _, a := range r.Acceptance {
			is := heard[a.DataCenter]
			switch {
			case slices.Contains(a.Roots, digest):
				if a.Links > 0 || r.DataCenter == a.DataCenter { // what was heard on links that are down shows nothing of those that are up
					is = max(is, accepts)
				}
			case a.Links > 0 || len(a.Roots) > 0:
				is = refuses
			}
			heard[a.DataCenter] = is
		}
	}
	for _, part := range slices.Sorted(maps.Keys(unasked)) {
		waits = append(waits, fmt.Sprintf("part %s cannot be asked: %s", part, unasked[part]))
	}
	states := map[string]int{}
	for dc, is := range heard {
		states[dc] = is
	}
	for dc := range regions {
		states[dc] = heard[dc]
	}
	for _, dc := range slices.Sorted(maps.Keys(states)) {
		where := "data centre " + dc
		if region := regions[dc]; region != "" {
			where += " of region " + region
		}
		switch states[dc] {
		case refuses:
			waits = append(waits, where+" does not accept it yet")
		case unheard:
			waits = append(waits, where+" has no link with the parts here")
		}
	}
	return waits
}

// acceptance is what was reported of one store.
type acceptance struct {
	root  string // its fingerprint
	waits []string
	at    time.Time
}

// maxAcceptanceAge is how old a report may be that an authority is accepted.
const maxAcceptanceAge = time.Minute

// Report tells the keeper what keeps the next authority from issuing, of one store.
func (k *Keeper) Report(store types.NamespacedName, next *Root, waits []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reported == nil {
		k.reported = map[types.NamespacedName]acceptance{}
	}
	k.reported[store] = acceptance{Fingerprint(next.Certificate()), waits, time.Now()}
}

// waiting returns what keeps an authority from issuing, of all stores of the region that this operator sees.
func (k *Keeper) waiting(ctx context.Context, next *Root) (waits []string, err error) {
	var stores v1alpha1.CausalStoreList
	if err := k.Client.List(ctx, &stores); err != nil {
		return nil, fmt.Errorf("list the stores whose parts must accept the new authority: %w", err)
	}
	present := map[types.NamespacedName]bool{}
	for i := range stores.Items {
		s := &stores.Items[i]
		if s.DeletionTimestamp != nil || !slices.ContainsFunc(s.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool { return dc.Region == k.Region }) {
			continue
		}
		name := client.ObjectKeyFromObject(s)
		present[name] = true
		r, ok := k.reported[name]
		if !ok || r.root != Fingerprint(next.Certificate()) || time.Since(r.at) > maxAcceptanceAge {
			waits = append(waits, fmt.Sprintf("store %s: its parts have not been asked yet", name))
		} else if len(r.waits) > 0 {
			waits = append(waits, fmt.Sprintf("store %s: %s", name, strings.Join(r.waits, "; ")))
		}
	}
	maps.DeleteFunc(k.reported, func(name types.NamespacedName, _ acceptance) bool { return !present[name] })
	slices.Sort(waits)
	return waits, nil
}

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
//
// An authority that issues may not be accepted as well: it was forced, or the one before it was lost. Links that are up then go on until
// their certificates expire, so that nothing but these reports shows it.

// opinion is what a data center is known to say of an authority.
type opinion int

const (
	unheard opinion = iota
	accepts
	refuses
)

// opinionsOf returns what data centers say of an authority, by the reports of parts.
func opinionsOf(root *x509.Certificate, reports map[string]contract.Readiness) map[string]opinion {
	digest := contract.FormatRoot(contract.RootDigest(root))
	all := map[string]opinion{}
	for _, r := range reports {
		for _, a := range r.Acceptance {
			is := all[a.DataCenter]
			switch {
			case slices.Contains(a.Roots, digest):
				if a.Links > 0 || r.DataCenter == a.DataCenter { // what was heard on links that are down shows nothing of those that are up
					is = max(is, accepts)
				}
			case a.Links > 0 || len(a.Roots) > 0:
				is = refuses
			}
			all[a.DataCenter] = is
		}
	}
	return all
}

// Waits returns what keeps an authority from issuing, of one store: the data centers that do not accept it, by the reports of the store's
// parts in this region. regions has the region of each data center, and unasked why a part could not be asked.
func Waits(root *x509.Certificate, regions map[string]string, reports map[string]contract.Readiness, unasked map[string]string) (waits []string) {
	for _, part := range slices.Sorted(maps.Keys(reports)) {
		if len(reports[part].Acceptance) == 0 {
			waits = append(waits, fmt.Sprintf("part %s does not say what it accepts", part))
		}
	}
	for _, part := range slices.Sorted(maps.Keys(unasked)) {
		waits = append(waits, fmt.Sprintf("part %s cannot be asked: %s", part, unasked[part]))
	}
	opinions := opinionsOf(root, reports)
	for dc := range regions {
		if _, known := opinions[dc]; !known {
			opinions[dc] = unheard
		}
	}
	for _, dc := range slices.Sorted(maps.Keys(opinions)) {
		switch opinions[dc] {
		case refuses:
			waits = append(waits, describe(dc, regions)+" does not accept it yet")
		case unheard:
			waits = append(waits, describe(dc, regions)+" has no link with the parts here")
		}
	}
	return waits
}

// RefusedBy returns the data centers of other regions that do not accept an authority which issues, by the reports of some parts of this
// region. Those here read its bundle from the operator itself.
func RefusedBy(root *x509.Certificate, region string, regions map[string]string, reports map[string]contract.Readiness) (refusing []string) {
	opinions := opinionsOf(root, reports)
	for _, dc := range slices.Sorted(maps.Keys(regions)) {
		if regions[dc] != region && opinions[dc] == refuses {
			refusing = append(refusing, describe(dc, regions))
		}
	}
	return refusing
}

func describe(dc string, regions map[string]string) string {
	if region := regions[dc]; region != "" {
		return "data center " + dc + " of region " + region
	}
	return "data center " + dc
}

// Report is what the parts of one store say of the authorities of the region.
type Report struct {
	// Issuing is the authority that issues, and RefusedBy the data centers that do not accept it.
	Issuing   *Root
	RefusedBy []string
	// Next is the next authority, if there is one, and Waits what keeps it from issuing.
	Next  *Root
	Waits []string

	at time.Time
}

// maxReportAge is how old a report may be to count.
const maxReportAge = time.Minute

// Report tells the keeper what the parts of a store say.
func (k *Keeper) Report(store types.NamespacedName, r Report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reported == nil {
		k.reported = map[types.NamespacedName]Report{}
	}
	r.at = time.Now()
	k.reported[store] = r
}

// forgetReports drops those that do not count any more, such as of stores that were deleted.
func (k *Keeper) forgetReports() {
	maps.DeleteFunc(k.reported, func(_ types.NamespacedName, r Report) bool { return time.Since(r.at) > maxReportAge })
}

// refusals returns which data centers do not accept the authority that issues, of all stores that were reported.
func (k *Keeper) refusals(issuing *Root) (all []string) {
	for name, r := range k.reported {
		if len(r.RefusedBy) > 0 && r.Issuing.Is(issuing) {
			all = append(all, fmt.Sprintf("store %s: %s", name, strings.Join(r.RefusedBy, "; ")))
		}
	}
	slices.Sort(all)
	return all
}

// waiting returns what keeps an authority from issuing, of all stores of the region that this operator sees.
func (k *Keeper) waiting(ctx context.Context, next *Root) (waits []string, err error) {
	var stores v1alpha1.CausalStoreList
	if err := k.Client.List(ctx, &stores); err != nil {
		return nil, fmt.Errorf("list the stores whose parts must accept the new authority: %w", err)
	}
	for i := range stores.Items {
		s := &stores.Items[i]
		if s.DeletionTimestamp != nil || !slices.ContainsFunc(s.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool { return dc.Region == k.Region }) {
			continue
		}
		name := client.ObjectKeyFromObject(s)
		r, ok := k.reported[name]
		if !ok || r.Next == nil || !r.Next.Is(next) {
			waits = append(waits, fmt.Sprintf("store %s: its parts have not been asked yet", name))
		} else if len(r.Waits) > 0 {
			waits = append(waits, fmt.Sprintf("store %s: %s", name, strings.Join(r.Waits, "; ")))
		}
	}
	slices.Sort(waits)
	return waits, nil
}

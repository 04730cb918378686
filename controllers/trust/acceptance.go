package trust

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

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
		if s.DeletionTimestamp != nil || !slices.ContainsFunc(s.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool {
			return dc.Region == k.Region
		}) {
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

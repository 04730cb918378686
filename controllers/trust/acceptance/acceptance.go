// Package acceptance decides from the reports of parts whether data centers accept an authority. It imports nothing of
// Kubernetes.
//
// A new authority issues once every data center of every store of the region accepts it: those of other regions, as the
// region's parts hear from their links, and those of the region itself. A region that has no store in common with this
// one does not matter, and one that is away is waited for: what is there may come back with the bundle that it had.
//
// An authority that issues may not be accepted as well: it was forced, or the one before it was lost. Links that are up
// then go on until their certificates expire, so that nothing but these reports shows it.
package acceptance

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"

	"github.com/causalstore/causalstore/contract"
)

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
				if a.Links > 0 || r.DataCenter == a.DataCenter {
					// what was heard on links that are down shows nothing of those that are up
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

// Waits returns what keeps an authority from issuing, of one store: the data centers that do not accept it, by the
// reports of the store's parts in this region. regions has the region of each data center, and unasked why a part could
// not be asked.
func Waits(root *x509.Certificate, regions map[string]string, reports map[string]contract.Readiness,
	unasked map[string]string) (waits []string) {
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

// RefusedBy returns the data centers of other regions that do not accept an authority which issues, by the reports of
// some parts of this region. Those here read its bundle from the operator itself.
func RefusedBy(root *x509.Certificate, region string, regions map[string]string,
	reports map[string]contract.Readiness) (refusing []string) {
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

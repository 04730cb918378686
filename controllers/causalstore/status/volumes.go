package status

import (
	"fmt"
	"strings"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// volumesKept holds if no claim of a part is being deleted.
func volumesKept(v *view) verdict {
	ending := plan.EndingClaims(v.Observed.Observed)
	if len(ending) == 0 {
		return yes(v1alpha1.ReasonClaimsKept, "no volume claim of a part here is being deleted")
	}
	var texts []string
	for i, c := range ending {
		if i == maxProblemsShown {
			texts = append(texts, fmt.Sprintf("and %d more", len(ending)-i))
			break
		}
		text := fmt.Sprintf("%s, of pod %s", c.Claim, c.Pod)
		if c.Node != "" {
			text += " on node " + c.Node
		}
		texts = append(texts, fmt.Sprintf("%s, since %s", text, c.Since.UTC().Format("2006-01-02 15:04 UTC")))
	}
	return no(v1alpha1.ReasonClaimTerminating,
		"claims that were deleted while a pod uses them: %s. The volume of each goes with its pod: delete none of "+
			"these pods, and drain none of these nodes; "+
			"see docs/disasters.md, A claim is being deleted", strings.Join(texts, "; "))
}

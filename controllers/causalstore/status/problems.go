package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// problems returns what parts that are not ready report, if they are in one of the states, by pod.
func (v *view) problems(states ...contract.State) []string {
	var all []string
	for i := range v.Pods {
		p := &v.Pods[i]
		if r, ok := v.Reports[p.Name]; ok && r.Err == nil && !plan.Ready(p) && slices.Contains(states, r.State) {
			all = append(all, fmt.Sprintf("%s: %s", p.Name, r.Reason))
		}
	}
	slices.Sort(all)
	return all
}

// explained adds to a message what parts report about disks, storages and other processes in their place.
func (v *view) explained(message string) string {
	all := v.problems(contract.StateDuplicateIdentity, contract.StateStorageFull, contract.StateStorageFailing, contract.StateLogFull)
	return strings.Join(append([]string{message}, all...), "; ")
}

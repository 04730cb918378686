package plan

import (
	"github.com/causalstore/causalstore/topology"
)

// noteReturned sets in next from which exclusions data centers are back, which the parts have to know to judge a
// further one. It is noted when another one is excluded, so that a data center that comes back changes no topology by
// itself.
func noteReturned(in Observed, last, next *topology.File) {
	raised := false
	for i := range next.DataCenters {
		d := &next.DataCenters[i]
		before := findDataCenter(last, d.Name)
		if before == nil {
			continue
		}
		raised = raised || d.Counts().Exclusions > before.Counts().Exclusions
		d.Returned = before.Returned
	}
	for i := range next.DataCenters {
		if d := &next.DataCenters[i]; raised {
			if n := min(int(in.Store.ReturnedFrom(d.Name)), d.Counts().Exclusions); n > d.Counts().Returned {
				d.Returned = &n
			}
		}
	}
}

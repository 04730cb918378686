package status

import (
	"fmt"
	"strings"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// shortfall is the parts of a data center of which not all serve.
type shortfall struct {
	dataCenter string
	parts      []shortPart
}

type shortPart struct {
	name  string
	count v1alpha1.Count
}

func shortfallOf(s v1alpha1.DataCenterStatus) shortfall {
	f := shortfall{dataCenter: s.Name}
	for _, p := range []shortPart{{"coordinators", s.Coordinators}, {"caches", s.Caches}, {"shards", s.Shards}} {
		if p.count.Ready < p.count.Desired {
			f.parts = append(f.parts, p)
		}
	}
	return f
}

func (f shortfall) any() bool { return len(f.parts) > 0 }

// total returns how many parts do not serve.
func (f shortfall) total() (n int32) {
	for _, p := range f.parts {
		n += p.count.Desired - p.count.Ready
	}
	return n
}

func (f shortfall) String() string {
	var texts []string
	for _, p := range f.parts {
		texts = append(texts, fmt.Sprintf("%d of %d %s", p.count.Ready, p.count.Desired, p.name))
	}
	return fmt.Sprintf("%s has %s", f.dataCenter, strings.Join(texts, ", "))
}

// describe lists shortfalls for people.
func describe(all []shortfall) string {
	var texts []string
	for _, f := range all {
		texts = append(texts, f.String())
	}
	return "ready: " + strings.Join(texts, "; ")
}

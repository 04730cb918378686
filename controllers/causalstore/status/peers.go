package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// peersConnected holds if every ring acknowledges the writes of this region, which shows that it can be reached. What is
// known to be wrong comes before what is unknown.
func peersConnected(v *view) verdict {
	silent, unprobed := v.probedElsewhere()
	notServing := v.ringsNotServing()
	switch {
	case len(v.Store.Spec.Rings) == 1:
		return yes(v1alpha1.ReasonOneRing, "there is only one ring")
	case len(v.behind) > 0:
		return no(v1alpha1.ReasonPeersBehind, "rings that do not acknowledge writes: %s; check their data centres and the network to them%s",
			strings.Join(v.behind, ", "), v.describeUnasked())
	case len(silent) > 0:
		return no(v1alpha1.ReasonPeersUnreachable, "data centres whose shards do not answer: %s; check them and the network to them%s",
			strings.Join(silent, ", "), v.describeUnasked())
	case len(notServing) > 0:
		return unknown(v1alpha1.ReasonPeersNotServing, "rings that do not serve all of their data now: %s%s", strings.Join(notServing, "; "), v.describeUnasked())
	case len(v.unasked) > 0:
		return unknown(v1alpha1.ReasonPeersUnasked, "coordinators whose lag is unknown: %s", strings.Join(v.unasked, ", "))
	case !v.measured:
		return unknown(v1alpha1.ReasonPeersUnknown, "no coordinator in this region has reported yet how far the rings are behind")
	case len(unprobed) > 0:
		return unknown(v1alpha1.ReasonPeersUnknown, "no first coordinator in this region has reported yet whether the shards of these data centres answer: %s",
			strings.Join(unprobed, ", "))
	}
	return yes(v1alpha1.ReasonPeersAcknowledge, "every ring acknowledges the writes of this region")
}

func (v *view) describeUnasked() string {
	if len(v.unasked) == 0 {
		return ""
	}
	return "; coordinators whose lag is unknown: " + strings.Join(v.unasked, ", ")
}

// probedElsewhere returns the data centers of other regions whose middlemen do not answer the first coordinators here, and
// those that none has probed. A ring lags only while it has writes to acknowledge, so without writes the lag does not tell
// that it cannot be reached. What is here is judged by its pods.
func (v *view) probedElsewhere() (silent, unprobed []string) {
	for _, dc := range v.dataCenters {
		if dc.Here {
			continue
		}
		probed, answers := false, true
		for _, m := range v.Measured {
			if is, ok := m.Answering[dc.Name]; ok {
				probed, answers = true, answers && is
			}
		}
		name := fmt.Sprintf("%s (ring %s)", dc.Name, v.ringOf(dc.Name))
		switch {
		case !probed:
			unprobed = append(unprobed, name)
		case !answers:
			silent = append(silent, name)
		}
	}
	return silent, unprobed
}

func (v *view) ringOf(dc string) string {
	for _, r := range v.Store.Spec.Rings {
		if slices.Contains(r.DataCenters, dc) {
			return r.Name
		}
	}
	return ""
}

// ringsNotServing returns the rings that cannot acknowledge every write now, as far as they are here. One that never served
// is among them.
func (v *view) ringsNotServing() (all []string) {
	for _, r := range v.rings {
		if r.Availability == v1alpha1.RingUnavailable {
			all = append(all, fmt.Sprintf("%s (%s)", r.Name, r.Message))
		}
	}
	return all
}

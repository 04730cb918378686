package plan

import (
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// Report is the report of a part on a change of the numbers of coordinators or shards, or on why it is not ready.
type Report struct {
	contract.Readiness
	// Err is why the part could not be asked; the rest is empty then.
	Err error
}

// currentReport returns the report of a pod's part. The decision allows to rely on it, if the part runs the recorded
// epoch.
func (in *Observed) currentReport(pod string) (Report, Decision) {
	r, ok := in.Reports[pod]
	behind := int64(r.Epoch) < in.Record.Epoch
	switch {
	case !ok:
		return r, deny(ReasonNotReported, "%s has not reported", pod)
	case r.Err != nil:
		return r, deny(ReasonUnreachable, "%s is unreachable: %v", pod, r.Err)
	case behind && r.ConfigProblem != "":
		return r, deny(ReasonConfigRejected, "%s runs epoch %d and rejects its configuration: %s", pod, r.Epoch,
			r.ConfigProblem)
	case behind:
		return r, deny(ReasonOldEpoch, "%s runs epoch %d, not yet epoch %d", pod, r.Epoch, in.Record.Epoch)
	}
	return r, allow()
}

// InvolvedPods returns the pods whose parts report on a change that the record has. In a change of shards these are all
// but the caches. In a change of coordinators they are those that leave, those that join, and the first one of their
// data center. If members are to change they are all of those parts.
func (in *Observed) InvolvedPods() map[string]bool {
	all := map[string]bool{}
	f, err := in.Record.LayoutFile()
	if err != nil || f == nil {
		return all
	}
	resharding := anyResharding(f.DataCenters)
	for i := range in.Pods {
		p := &in.Pods[i]
		switch p.Labels[LabelComponent] {
		case ComponentCoordinator:
			all[p.Name] = resharding || isLeaving(f, p) || decidesDepartures(f, p) || isJoining(in.Record, f, p) ||
				in.membersChange(f, p.Labels[LabelDataCenter], topology.Coordinator)
		case ComponentShard:
			all[p.Name] = resharding || isLeaving(f, p) ||
				in.membersChange(f, p.Labels[LabelDataCenter], topology.Middleman)
		}
	}
	return all
}

package plan

import (
	"slices"
	"strings"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/topology"
)

// layoutOf returns the topology that a spec asks for, without an epoch. Rings list their data centers in the order of
// the spec, so that a different order within a ring is no change.
func layoutOf(s *v1alpha1.CausalStoreSpec) topology.File {
	f := topology.File{TieBreaker: s.TieBreaker}
	count := func(n int32) *int { i := int(n); return &i }
	for _, dc := range s.DataCenters {
		d := topology.FileDataCenter{Name: dc.Name, Coordinators: count(dc.Coordinators.Replicas),
			Caches: count(dc.Caches.Replicas),
			Shards: count(dc.Shards)}
		if dc.Coordinators.Members > 1 {
			d.CoordinatorMembers = count(dc.Coordinators.Members)
		}
		if s.Storage.Replicas > 1 {
			d.ShardMembers = count(s.Storage.Replicas)
		}
		if dc.Exclusions > 0 {
			d.Exclusions = count(dc.Exclusions)
		}
		if dc.KeepsData > 0 {
			d.KeepsData = count(dc.KeepsData)
		}
		if dc.ForceExclusion > 0 {
			d.ForceExclusion = count(dc.ForceExclusion)
		}
		f.DataCenters = append(f.DataCenters, d)
	}
	for _, r := range s.Rings {
		ring := topology.FileRing{Name: r.Name}
		for _, dc := range s.DataCenters {
			if slices.Contains(r.DataCenters, dc.Name) {
				ring.DataCenters = append(ring.DataCenters, dc.Name)
			}
		}
		f.Rings = append(f.Rings, ring)
	}
	return f
}

// advanceLayout sets the numbers of coordinators, shards and their members in next, which is the layout that the spec
// asks for, to those that the parts are to run now. Changes happen one after the other: while one is in progress the
// layout holds the numbers from before it, and no other starts. Exclusions wait for nothing. Coordinators change before
// members, of whichever part, and these before shards.
func advanceLayout(in Observed, last, next *topology.File) (CoordinatorScaling, Resharding) {
	requested := topology.File{DataCenters: slices.Clone(next.DataCenters)}
	for i := range next.DataCenters {
		dc := &next.DataCenters[i]
		if before := findDataCenter(last, dc.Name); before != nil {
			dc.Coordinators, dc.CoordinatorsBefore = before.Coordinators, before.CoordinatorsBefore
			dc.CoordinatorMembers, dc.CoordinatorMembersBefore = before.CoordinatorMembers,
				before.CoordinatorMembersBefore
			dc.Shards, dc.ShardsBefore = before.Shards, before.ShardsBefore
			dc.ShardMembers, dc.ShardMembersBefore = before.ShardMembers, before.ShardMembersBefore
		}
	}
	var scaling CoordinatorScaling
	var resharding Resharding
	switch {
	case scalingDown(in, next) || membersLeave(in, next) || anyResharding(next.DataCenters):
		scaling.Blockers, scaling.Members.Blockers = finishScaleDown(in, next), finishMembersLeave(in, next)
		resharding.Blockers = finishResharding(in, next)
	case coordinatorsDiffer(next, &requested):
		if scaling.Start = decideStart(in, next); scaling.Start.Allowed {
			startScaling(next, &requested)
		}
	case membersDiffer(next, &requested):
		if scaling.Members.Start = decideMembersStart(in, next, &requested); scaling.Members.Start.Allowed {
			startMembers(in, next, &requested)
		}
	case shardsDiffer(next, &requested):
		if resharding.Start = decideStart(in, next); resharding.Start.Allowed {
			resharding.Start = checkGroups(in, next, topology.Middleman)
		}
		if resharding.Start.Allowed {
			startResharding(next, &requested)
		}
	}
	scaling.describe(in, next, &requested)
	scaling.Members.describe(in, next, &requested)
	resharding.describe(in, next, &requested)
	return scaling, resharding
}

// decideStart decides whether a change of coordinators or shards may start: every part of this region must run, no pod
// may have to restart, and whatever left in an earlier change must be gone. Coordinators that the spec no longer asks
// for are not waited for.
func decideStart(in Observed, f *topology.File) Decision {
	if _, rollout := planRestarts(in, f, false); rollout.Next.Denied() {
		return rollout.Next
	} else if rollout.Outdated > 0 {
		return deny(ReasonRestartsPending, "%s must restart first", podCount(rollout.Outdated))
	}
	for _, check := range []func(Observed, *topology.File) Decision{checkStatefulSets, checkPods, checkClaims} {
		if d := check(in, f); !d.Allowed {
			return d
		}
	}
	return checkPodCounts(in)
}

// checkStatefulSets denies if the StatefulSets do not have the numbers of the layout yet.
func checkStatefulSets(in Observed, f *topology.File) Decision {
	for i := range f.DataCenters {
		dc := f.DataCenters[i].Counts()
		if !in.IsLocal(dc.Name) {
			continue
		}
		for m := range dc.Members(topology.Coordinator) {
			name, want := coordinatorsName(in.Store.Name, dc.Name, m+1), int32(dc.RunningCoordinators())
			if s := findStatefulSet(in.StatefulSets, name); s == nil || s.Spec.Replicas == nil ||
				*s.Spec.Replicas != want {
				return deny(ReasonStatefulSetNotScaled, "StatefulSet %s does not have %d replicas yet", name, want)
			}
		}
		missing := ""
		eachMember(dc, topology.Middleman, func(j, member int) {
			if name := shardName(in.Store.Name, dc.Name, j, member); missing == "" &&
				findStatefulSet(in.StatefulSets, name) == nil {
				missing = name
			}
		})
		if missing != "" {
			return deny(ReasonStatefulSetMissing, "StatefulSet %s does not exist yet", missing)
		}
	}
	return allow()
}

// checkPods denies while a pod is not ready, or a coordinator or a member that has left still has its pod.
func checkPods(in Observed, f *topology.File) Decision {
	for i := range in.Pods {
		p := &in.Pods[i]
		switch {
		case isLeaving(f, p):
			return deny(ReasonPodNotGone, "pod %s has left and still exists", p.Name)
		case !isSurplus(in, f, p) && (!Ready(p) || p.DeletionTimestamp != nil):
			return deny(ReasonPodNotReady, "pod %s is not ready", p.Name)
		}
	}
	return allow()
}

// checkClaims denies while a claim is being deleted: a new part of its name would get the old volume.
func checkClaims(in Observed, _ *topology.File) Decision {
	for i := range in.Claims {
		if c := &in.Claims[i]; c.DeletionTimestamp != nil {
			return deny(ReasonClaimTerminating, "claim %s is being deleted", c.Name)
		}
	}
	return allow()
}

// describeRequested says what is requested and has not started, and why.
func describeRequested(what string, changes, requested []string, start Decision) (texts []string) {
	switch {
	case len(requested) > 0 && len(changes) > 0:
		texts = append(texts, "requested next: "+strings.Join(requested, ", "))
	case len(requested) > 0:
		texts = append(texts, what+" will change: "+strings.Join(requested, ", "))
	}
	if start.Denied() {
		texts = append(texts, "waiting: "+start.Message)
	}
	return texts
}

// IsLocal reports whether a data center is in the region of this operator.
func (in *Observed) IsLocal(name string) bool {
	return slices.ContainsFunc(in.Store.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool {
		return dc.Name == name && dc.Region == in.Region
	})
}

func findDataCenter(f *topology.File, name string) *topology.FileDataCenter {
	i := slices.IndexFunc(f.DataCenters, func(dc topology.FileDataCenter) bool { return dc.Name == name })
	if i < 0 {
		return nil
	}
	return &f.DataCenters[i]
}

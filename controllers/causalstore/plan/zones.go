package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/topology"
)

// VolumeZones returns the zones in which a volume can be used: of the zone labels that its node affinity names, or else
// of the nodes that it selects. It returns nil if the volume can be used anywhere, or if that is unknown.
func VolumeZones(affinity *corev1.VolumeNodeAffinity, zoneLabel string, nodes map[string]map[string]string) []string {
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	var zones []string
	for _, term := range affinity.Required.NodeSelectorTerms {
		named := slices.IndexFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == zoneLabel && e.Operator == corev1.NodeSelectorOpIn
		})
		if named >= 0 {
			zones = append(zones, term.MatchExpressions[named].Values...)
			continue
		}
		for _, labels := range nodes {
			if zone := labels[zoneLabel]; zone != "" && selects(term, labels) {
				zones = append(zones, zone)
			}
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// selects reports whether a term selects a node. Volumes are bound to nodes by values of labels; a term with anything
// else counts as selecting every node.
func selects(term corev1.NodeSelectorTerm, labels map[string]string) bool {
	for _, e := range term.MatchExpressions {
		if e.Operator == corev1.NodeSelectorOpIn && !slices.Contains(e.Values, labels[e.Key]) {
			return false
		}
	}
	return true
}

// MisplacedVolumes returns why zones of the spec cannot be used: a part that the spec asks for has its volume in
// another zone, and would wait for ever. A part that leaves, or whose claim is being deleted, does not count.
func MisplacedVolumes(in Observed) (why []string) {
	for i := range in.Claims {
		c := &in.Claims[i]
		field, zones := neededZones(in, c)
		at := in.VolumeZones[c.Name]
		if field == "" || len(at) == 0 || slices.ContainsFunc(at, func(z string) bool {
			return slices.Contains(zones, z)
		}) {
			continue
		}
		why = append(why, fmt.Sprintf(
			"spec.dataCenters: %s of %s must keep %s, because the volume of claim %s can be used only there and "+
				"volumes cannot move; add the zone again (a part whose data is given up gets a new volume once its "+
				"claim is deleted)",
			field, c.Labels[LabelDataCenter], strings.Join(at, " or "), c.Name))
	}
	slices.Sort(why)
	return why
}

// neededZones returns the field with the zones that the volume of a claim must be in, and its value, or "" if no part
// that the spec asks for uses the claim, or any zone will do.
func neededZones(in Observed, c *corev1.PersistentVolumeClaim) (field string, zones []string) {
	if in.Store.Spec.SingleZone() || c.DeletionTimestamp != nil || !IsClaimOfStore(in.Store.Name, c) {
		return "", nil
	}
	for i := range in.Store.Spec.DataCenters {
		dc := &in.Store.Spec.DataCenters[i]
		if dc.Name != c.Labels[LabelDataCenter] {
			continue
		}
		if shard, ok := c.Labels[LabelShard]; ok {
			if n, err := strconv.ParseInt(shard, 10, 32); err == nil && int32(n) < dc.Shards &&
				Member(c) <= WantedMembers(&in.Store.Spec, dc, topology.Middleman) {
				return "zones.backend", dc.Zones.Backend
			}
			return "", nil
		}
		if IsOfEtcd(c) {
			if in.HasEtcd(dc) {
				return "etcd.zones", in.Store.Spec.EtcdZonesOf(dc)
			}
			return "", nil
		}
		index := c.Name[strings.LastIndex(c.Name, "-")+1:]
		m := Member(c)
		if n, err := strconv.ParseInt(index, 10, 32); err != nil || int32(n) >= dc.Coordinators.Replicas ||
			m > WantedMembers(&in.Store.Spec, dc, topology.Coordinator) {
			return "", nil
		}
		return []string{"zones.frontend", "zones.backend",
				"the zones of third members (those of etcd.zones that are in neither of zones, or else " +
					"zones.frontend)"}[m-1],
			in.Store.Spec.MemberZonesOf(dc, m)
	}
	return "", nil
}

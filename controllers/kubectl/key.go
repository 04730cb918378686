package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func (c *cluster) explainKey(cmd *cobra.Command, key, store, from string) error {
	k, err := c.connect()
	if err != nil {
		return err
	}
	s, err := k.findStore(cmd.Context(), store)
	if err != nil {
		return err
	}
	in := keyView{store: s, key: key, from: from}
	if in.configuration, err = k.configuration(cmd.Context(), s); err != nil {
		return err
	}
	if in.parts, err = k.partPods(cmd.Context(), s); err != nil {
		return err
	}
	if from != "" {
		in.trips, in.unmeasured = k.measureRoundTrips(cmd.Context(), in.parts)
	}
	return writeKey(cmd.OutOrStdout(), in)
}

// configuration reads the configuration of the store's parts.
func (k *connection) configuration(ctx context.Context, s *v1alpha1.CausalStore) (*plan.PublishedTopology, error) {
	var maps corev1.ConfigMapList
	if err := k.List(ctx, &maps, client.InNamespace(s.Namespace),
		client.MatchingLabels(plan.Labels(s.Name))); err != nil {
		return nil, fmt.Errorf("list the ConfigMaps of %s: %w", s.Name, err)
	}
	t, err := plan.ReadPublishedTopology(maps.Items)
	if err == nil && t == nil {
		err = fmt.Errorf(
			"this cluster has no ConfigMap with the topology of %s: either none of its data centers is in this "+
				"cluster, or the operator has not created it yet; run: kubectl causal status %s",
			s.Name, s.Name)
	}
	return t, err
}

// keyView is what writeKey renders.
type keyView struct {
	store         *v1alpha1.CausalStore
	configuration *plan.PublishedTopology
	parts         []corev1.Pod
	key           string
	// from is the data center that reads; may be empty.
	from       string
	trips      roundTrips
	unmeasured error
}

// writeKey writes which shard of each ring owns a key.
func writeKey(w io.Writer, in keyView) error {
	t := in.configuration.Topology
	slot := topology.SlotOf(in.key)
	nearest, err := in.nearestRing(slot)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s/%s, epoch %d\n", in.store.Namespace, in.store.Name, t.Epoch)
	if h := topology.HashedPart(in.key); h != in.key {
		fmt.Fprintf(w, "key %q is in slot %d of %d, determined by its tag %q: all keys with this tag share the slot\n",
			in.key, slot,
			topology.Slots, h)
	} else {
		fmt.Fprintf(w, "key %q is in slot %d of %d\n", in.key, slot, topology.Slots)
	}
	owners := table{{}, {"RING", "DATA CENTER", "REGION", "SHARD", "POD"}}
	if in.from != "" {
		owners[1] = append(owners[1], "FROM "+strings.ToUpper(in.from))
	}
	before, moving := t.WithOldMaps(t.Resharding()), []string{}
	for r := range t.Rings {
		id := topology.RingID(r)
		row := in.ownerRow(t.Rings[r].Name, t.Owner(id, slot))
		if in.from != "" {
			row = append(row, in.trips.format(in.from, row[1]))
			if id == nearest {
				row[len(row)-1] = strings.TrimPrefix(row[len(row)-1]+", nearest", "-, ")
			}
		}
		owners.row(row...)
		if previous := before.Owner(id, slot); previous != t.Owner(id, slot) {
			owners.row(in.ownerRow("  previous", previous)...)
			moving = append(moving, t.Rings[r].Name)
		}
	}
	if len(moving) > 0 {
		fmt.Fprintf(w, "resharding is in progress in %s: the previous shard owns the key until the ring has switched\n",
			strings.Join(moving, ", "))
	}
	if err := owners.write(w); err != nil || in.from == "" || len(in.trips[in.from]) > 0 {
		return err
	}
	_, err = fmt.Fprintf(w, "\nround trips from %s are unknown: %v\n", in.from, in.unmeasuredReason())
	return err
}

// ownerRow returns the row of a ring and the shard that owns the key.
func (in *keyView) ownerRow(ring string, n topology.Node) []string {
	dc := in.configuration.Topology.DCs[n.DC].Name
	return []string{ring, dc, in.regionOf(dc), strconv.FormatUint(n.Index, 10), in.podsOf(dc, n.Index)}
}

// nearestRing returns the ring that a sidecar in data center from would read from, chosen by the code of the sidecar.
// Without round trips it is known only if the data center itself owns the key.
func (in *keyView) nearestRing(slot topology.Slot) (topology.RingID, error) {
	t := in.configuration.Topology
	if in.from == "" {
		return topology.NoRing, nil
	}
	from, ok := t.ByName(in.from)
	if !ok {
		var names []string
		for _, dc := range t.DCs {
			names = append(names, dc.Name)
		}
		return topology.NoRing, fmt.Errorf("--from %s: %s has no such data center; use one of %s", in.from,
			in.store.Name,
			strings.Join(names, ", "))
	}
	known := in.trips[in.from]
	if len(known) == 0 {
		if own := t.RingOf(from); t.Owner(own, slot).DC == from {
			return own, nil
		}
		return topology.NoRing, nil
	}
	var probed causal.Latencies
	for i, dc := range t.DCs {
		is := causal.RoundTrip{Ms: t.RTT[from][i], ExpectedMs: t.RTT[from][i]}
		if d, ok := known[dc.Name]; ok {
			is.Ms = float64(d) / 1e6 // negative, as in trips, means no answer
		}
		probed.RoundTrips = append(probed.RoundTrips, is)
	}
	routes := causal.NewRoutes(t, from)
	routes.Update(probed)
	ring, _ := routes.Nearest(causal.Now{}, slot, t.AllRings())
	return ring, nil
}

// unmeasuredReason returns why the round trips from data center from are unknown.
func (in *keyView) unmeasuredReason() error {
	if in.unmeasured != nil {
		return in.unmeasured
	}
	return errors.New(
		"its first coordinator is in another cluster, or has not probed yet; run the command in the cluster " +
			"of its region")
}

func (in *keyView) regionOf(dc string) string {
	for _, d := range in.store.Spec.DataCenters {
		if d.Name == dc {
			return d.Region
		}
	}
	return "-"
}

// podsOf names the pods of a shard and whether they are ready, or that of a shard in another cluster, and the edge that
// leads there.
func (in *keyView) podsOf(dc string, shard uint64) string {
	var all []string
	for i := range in.parts {
		p := &in.parts[i]
		if p.Labels[plan.LabelDataCenter] != dc || p.Labels[plan.LabelShard] != strconv.FormatUint(shard, 10) {
			continue
		}
		if text := p.Name; plan.Ready(p) {
			all = append(all, text+" (ready)")
		} else {
			all = append(all, text+" (NOT READY)")
		}
	}
	slices.Sort(all)
	if len(all) > 0 {
		return strings.Join(all, " ")
	}
	members := uint64(1) // each shard has as many addresses
	if n, ok := in.configuration.Topology.ByName(dc); ok {
		members = uint64(in.configuration.Topology.DCs[n].Members(topology.Middleman))
	}
	if a := in.configuration.Middlemen[dc]; shard*members < uint64(len(a)) {
		for _, d := range in.store.Spec.DataCenters {
			if d.Name == dc && d.Edge != nil {
				return fmt.Sprintf("elsewhere: %s, behind %s", plan.MiddlemanName(in.store.Name, dc, int(shard)),
					d.Edge.Address)
			}
		}
		return "elsewhere: " + a[shard*members]
	}
	return "-"
}

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
	"github.com/causalstore/causalstore/sidecar/topology"
)

func (c *cluster) explainKey(cmd *cobra.Command, key, store, from string) error {
	k, err := c.connect()
	if err != nil {
		return err
	}
	s, err := k.store(cmd.Context(), store)
	if err != nil {
		return err
	}
	in := place{store: s, key: key, from: from}
	if in.told, err = k.told(cmd.Context(), s); err != nil {
		return err
	}
	if in.parts, err = k.parts(cmd.Context(), s); err != nil {
		return err
	}
	if from != "" {
		in.trips, in.unmeasured = k.roundTrips(cmd.Context(), in.parts)
	}
	return writeKey(cmd.OutOrStdout(), in)
}

// told reads the configuration of the parts.
func (k *connection) told(ctx context.Context, s *v1alpha1.CausalStore) (*plan.Told, error) {
	var maps corev1.ConfigMapList
	if err := k.List(ctx, &maps, client.InNamespace(s.Namespace), client.MatchingLabels(plan.Labels(s.Name))); err != nil {
		return nil, fmt.Errorf("list the ConfigMaps of %s: %w", s.Name, err)
	}
	t, err := plan.ReadTold(maps.Items)
	if err == nil && t == nil {
		err = fmt.Errorf("this cluster has no ConfigMap with the topology of %s: either it runs none of its data centres, or the operator has not carried it out yet; see: kubectl causal status %s",
			s.Name, s.Name)
	}
	return t, err
}

// place is what the place of a key is explained from.
type place struct {
	store *v1alpha1.CausalStore
	told  *plan.Told
	parts []corev1.Pod
	key   string
	// from is the data centre that asks; none if it is empty.
	from       string
	trips      trips
	unmeasured error
}

// writeKey writes which shard of each ring owns a key.
func writeKey(w io.Writer, in place) error {
	t := in.told.Topology
	slot := topology.SlotOf(in.key)
	near, err := in.nearest(slot)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s/%s, epoch %d\n", in.store.Namespace, in.store.Name, t.Epoch)
	if h := topology.Hashed(in.key); h != in.key {
		fmt.Fprintf(w, "key %q is in slot %d of %d, by its tag %q: every key with this tag is there\n", in.key, slot,
			topology.Slots, h)
	} else {
		fmt.Fprintf(w, "key %q is in slot %d of %d\n", in.key, slot, topology.Slots)
	}
	owners := table{{}, {"RING", "DATA CENTRE", "REGION", "SHARD", "POD"}}
	if in.from != "" {
		owners[1] = append(owners[1], "FROM "+strings.ToUpper(in.from))
	}
	was, moving := t.Before(t.Changing()), []string{}
	for r := range t.Rings {
		id := topology.RingID(r)
		row := in.owner(t.Rings[r].Name, t.Owner(id, slot))
		if in.from != "" {
			row = append(row, in.trips.show(in.from, row[1]))
			if id == near {
				row[len(row)-1] = strings.TrimPrefix(row[len(row)-1]+", nearest", "-, ")
			}
		}
		owners.row(row...)
		if before := was.Owner(id, slot); before != t.Owner(id, slot) {
			owners.row(in.owner("  before", before)...)
			moving = append(moving, t.Rings[r].Name)
		}
	}
	if len(moving) > 0 {
		fmt.Fprintf(w, "the shards of %s change: the shard before has the key until the ring has gone over\n", strings.Join(moving, ", "))
	}
	if err := owners.write(w); err != nil || in.from == "" || len(in.trips[in.from]) > 0 {
		return err
	}
	_, err = fmt.Fprintf(w, "\nround trips from %s are not known: %v\n", in.from, in.unknown())
	return err
}

// owner is the row of a ring whose shard has the key.
func (in *place) owner(ring string, n topology.Node) []string {
	dc := in.told.Topology.DCs[n.DC].Name
	return []string{ring, dc, in.region(dc), strconv.FormatUint(n.Index, 10), in.pods(dc, n.Index)}
}

// nearest is the ring that a sidecar in that data centre would read from, decided as sidecars do. Without round trips it is not known, unless
// the key is in that data centre.
func (in *place) nearest(slot topology.Slot) (topology.RingID, error) {
	t := in.told.Topology
	if in.from == "" {
		return topology.NoRing, nil
	}
	from, ok := t.ByName(in.from)
	if !ok {
		var names []string
		for _, dc := range t.DCs {
			names = append(names, dc.Name)
		}
		return topology.NoRing, fmt.Errorf("--from %s: %s has no such data centre; give one of %s", in.from, in.store.Name,
			strings.Join(names, ", "))
	}
	known := in.trips[in.from]
	if len(known) == 0 {
		if own := t.RingOf(from); t.Owner(own, slot).DC == from {
			return own, nil
		}
		return topology.NoRing, nil
	}
	ms := slices.Clone(t.RTT[from])
	for i, dc := range t.DCs {
		if d, ok := known[dc.Name]; ok {
			ms[i] = float64(d) / 1e6 // no answer is negative here, too
		}
	}
	routes := causal.NewRoutes(t, from)
	routes.Update(ms)
	ring, _ := routes.Nearest(causal.Now{}, slot, t.AllRings())
	return ring, nil
}

func (in *place) unknown() error {
	if in.unmeasured != nil {
		return in.unmeasured
	}
	return errors.New("its first coordinator is not in this cluster, or has probed nobody yet; ask in the cluster of its region")
}

func (in *place) region(dc string) string {
	for _, d := range in.store.Spec.DataCenters {
		if d.Name == dc {
			return d.Region
		}
	}
	return "-"
}

// pods of a shard, and whether they serve; of one that is elsewhere, the name by which it is called.
func (in *place) pods(dc string, shard uint64) string {
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
	if a := in.told.Middlemen[dc]; shard < uint64(len(a)) {
		return "elsewhere: " + a[shard]
	}
	return "-"
}

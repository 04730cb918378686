package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// forgetFlags are the flags of forget dc.
type forgetFlags struct {
	contextFlags
	accept, force bool
	wait          time.Duration
}

func (c *cluster) forgetCommand() *cobra.Command {
	forget := &cobra.Command{Use: "forget", Short: "Go on without a data center that is lost"}
	var f forgetFlags
	dc := &cobra.Command{
		Use:   "dc NAME [STORE]",
		Short: "Exclude a data center that is lost, so that writes complete without its shards",
		Long: `Shows what it means to exclude a data center: the others complete writes without
its shards, and these, should they come back, begin again with nothing and get their data from other
rings. With --accept-loss it raises exclusions of the data center by one in the manifest of each
cluster of --context, and waits until the coordinators there go by it.

All regions that are left need it: parts that have not heard of it are not heard by the others. Give
a --context for each of them. A cluster that cannot be read is named, and the command goes on
without it. It refuses a data center of which a part still serves, unless --force says that this is
meant; that costs a copy of its data. Neither does it exclude one without --force if the clusters of
--context do not run more than half of all rings, or half of them with that of spec.tieBreaker: two
sides that are cut off from each other must not exclude each other. A ring counts while none of its
data centers is excluded and away. --force then sets forceExclusion in the manifests, too. It
refuses if no ring would be left that may have the data; nothing overrides that.

If manifests come from a repository, raise the number there instead, or at once after it.`,
		Example: `  kubectl causal forget dc eu-west-1 orders --namespace shop --context us --context asia
  kubectl causal forget dc eu-west-1 orders --namespace shop --context us --context asia --accept-loss`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.forget(cmd, args[0], firstOrEmpty(args[1:]), &f)
		},
	}
	f.register(dc)
	dc.Flags().BoolVar(&f.accept, "accept-loss", false,
		"exclude the data center; without it, the command only says what that means")
	dc.Flags().BoolVar(&f.force, "force", false,
		"exclude a data center of which a part serves, or is not known not to, or from clusters that do not run "+
			"enough rings; sets forceExclusion")
	dc.Flags().DurationVar(&f.wait, "wait", time.Minute,
		"how long to wait until the coordinators go by it; 0: do not wait")
	forget.AddCommand(dc)
	return forget
}

func (c *cluster) forget(cmd *cobra.Command, dc, name string, f *forgetFlags) error {
	found, err := findStores(cmd.Context(), c.selected(&f.contextFlags), name)
	if err != nil {
		return err
	}
	if len(found) > 1 {
		var names []string
		for _, v := range found {
			names = append(names, v.name)
		}
		return errSeveralStores(found[0].namespace, names)
	}
	v, w := found[0], cmd.OutOrStdout()
	cmd.SilenceUsage = true
	plan, err := planForget(v, dc, f.force, time.Now())
	if err != nil {
		return err
	}
	if err := writeForget(w, v, dc, plan); err != nil {
		return err
	}
	if !f.accept {
		_, err := fmt.Fprintln(w, "Nothing was changed. To do this, run the command again with --accept-loss.")
		return err
	}
	for _, r := range v.known() {
		if err := setExclusions(cmd.Context(), r, dc, plan); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: exclusions of %s is %d\n", contextName(r), dc, plan.count)
	}
	return awaitExclusion(cmd.Context(), w, v, dc, plan.count, f.wait)
}

func contextName(r *regionStore) string {
	if r.context == "" {
		return "this cluster"
	}
	return "context " + r.context
}

// exclusionPlan is what a data center gets in all manifests: the number of exclusions, and whether it is also that of
// forceExclusion.
type exclusionPlan struct {
	count  int32
	forced bool
}

// planForget returns how a data center is excluded, or why it must not be.
func planForget(v *storeRegions, dc string, force bool, now time.Time) (exclusionPlan, error) {
	none := exclusionPlan{}
	if len(v.faults()) > 0 {
		return none,
			fmt.Errorf(
				"the manifests of %s differ in what must be the same; run: kubectl causal status %s with the same "+
					"--context", v.name, v.name)
	}
	all := v.dataCenters()
	i := slices.IndexFunc(all, func(d v1alpha1.DataCenter) bool { return d.Name == dc })
	if i < 0 {
		return none, fmt.Errorf("%s has no data center %s; use one of %s", v.name, dc,
			strings.Join(v.dataCenterNames(), ", "))
	}
	if len(v.rings()) < 2 {
		return none, fmt.Errorf("%s has one ring, so nobody else has the data of %s; see docs/disasters.md, Start over",
			v.name, dc)
	}
	if !hasOtherRing(v, dc) {
		return none,
			fmt.Errorf(
				"without %s no ring is left of which no data center is excluded, so it may have the only copy of "+
					"some data; bring the excluded ones back first", dc)
	}
	plan := exclusionPlan{count: 1}
	paused := false
	for _, r := range v.known() {
		paused = paused || r.store.Spec.Paused
		for _, d := range r.store.Spec.DataCenters {
			if d.Name == dc {
				plan.count = max(plan.count, d.Exclusions+1)
			}
		}
	}
	if paused {
		return none, fmt.Errorf("%s is paused, so its operator would not tell the parts; run: kubectl causal resume %s",
			v.name, v.name)
	}
	if alive := signsOfLife(v, dc, now); alive != "" && !force {
		return none, fmt.Errorf("%s; if it is to be excluded anyway, which costs a copy of its data, add --force",
			alive)
	}
	if err := checkMajority(v, dc); err != nil && !force {
		return none, err
	} else if err != nil {
		plan.forced = true
	}
	return plan, nil
}

// checkMajority refuses to exclude a data center if the clusters that were read do not run more than half of all rings,
// or half of them with that of the tie-breaker: the others may be cut off only, and exclude these. Admission judges by
// the manifest alone (ValidateExclusions), and so allows a side without a majority the first of several exclusions,
// which is of no use to it.
func checkMajority(v *storeRegions, dc string) error {
	here, decides, tieBreaker := 0, false, v.tieBreaker()
	for _, r := range v.rings() {
		if !slices.ContainsFunc(r.DataCenters, func(name string) bool {
			return name == dc || isAway(v, name) || len(v.runs(name)) == 0
		}) {
			here++
			decides = decides || slices.Contains(r.DataCenters, tieBreaker)
		}
	}
	all := len(v.rings())
	if 2*here > all || 2*here == all && decides {
		return nil
	}
	tie := ""
	switch {
	case 2*here == all && tieBreaker == "":
		tie = ", and there is no spec.tieBreaker"
	case 2*here == all:
		tie = fmt.Sprintf(", and that of spec.tieBreaker, %s, is not among them", tieBreaker)
	}
	return fmt.Errorf(
		"without %s these clusters run %d of %d rings that serve, which is not more than half%s: if the other side "+
			"is only cut off, and excludes yours, "+
			"neither serves any more when both hear of it, until a person gives up what one of them has written "+
			"(docs/disasters.md, Who may exclude); "+
			"give a --context for each region that is left, or, if you know that the other side is down or will not "+
			"exclude yours, add --force", dc, here, all, tie)
}

// tieBreaker returns the tie-breaker that all manifests name, or "".
func (v *storeRegions) tieBreaker() string {
	name := ""
	for i, r := range v.known() {
		if t := r.store.Spec.TieBreaker; i == 0 {
			name = t
		} else if t != name {
			return ""
		}
	}
	return name
}

// hasOtherRing reports whether another ring has no data center that is excluded and not known to be back.
func hasOtherRing(v *storeRegions, dc string) bool {
	return slices.ContainsFunc(v.rings(), func(r v1alpha1.Ring) bool {
		return !slices.Contains(r.DataCenters, dc) && !slices.ContainsFunc(r.DataCenters, func(name string) bool {
			return isAway(v, name)
		})
	})
}

// isAway reports whether a data center was excluded and some cluster does not say that it is back.
func isAway(v *storeRegions, dc string) bool {
	return slices.ContainsFunc(v.known(), func(r *regionStore) bool { return r.store.IsAway(dc) })
}

// signsOfLife says why a data center does not seem to be lost, or "".
func signsOfLife(v *storeRegions, dc string, now time.Time) string {
	for _, r := range v.runs(dc) {
		i := slices.IndexFunc(r.store.Status.DataCenters, func(d v1alpha1.DataCenterStatus) bool {
			return d.Name == dc
		})
		d := &r.store.Status.DataCenters[i]
		switch n := d.Coordinators.Ready + d.Shards.Ready; {
		case describeStaleness(r.store, now) != "":
			return fmt.Sprintf("what runs of %s is not known: %s", dc, describeStaleness(r.store, now))
		case n > 0:
			return fmt.Sprintf("%s is not lost: %d of its coordinators and shards serve", dc, n)
		}
	}
	if len(v.runs(dc)) > 0 {
		return ""
	}
	for _, r := range v.known() {
		if meta.IsStatusConditionTrue(r.store.Status.Conditions, v1alpha1.ConditionPeersConnected) &&
			describeStaleness(r.store, now) == "" {
			return fmt.Sprintf("%s is not lost: it acknowledges the writes of %s (condition %s)", dc, contextName(r),
				v1alpha1.ConditionPeersConnected)
		}
	}
	return ""
}

// exclusionOf returns what a cluster says of the exclusion of a data center, or nil.
func exclusionOf(s *v1alpha1.CausalStore, dc string) *v1alpha1.ExclusionStatus {
	for i := range s.Status.DataCenters {
		if s.Status.DataCenters[i].Name == dc {
			return s.Status.DataCenters[i].Exclusion
		}
	}
	return nil
}

// writeForget says what the exclusion of a data center means, and where else it is needed.
func writeForget(w io.Writer, v *storeRegions, dc string, plan exclusionPlan) error {
	ring := ""
	for _, r := range v.rings() {
		if slices.Contains(r.DataCenters, dc) {
			ring = r.Name
		}
	}
	fmt.Fprintf(w, `%s/%s: data center %s, of ring %s, is excluded (exclusions: %d)
  goes on   writes complete without its shards; reads of their slots go to other rings
  lost      acknowledged writes that only the disks of its coordinators have, if these do not come back
  returns   its shards begin again with nothing, and get their data from other rings. The number stays
`, v.namespace, v.name, dc, ring, plan.count)
	if plan.forced {
		fmt.Fprintf(w,
			"  forced    forceExclusion is %d, too: if the other side is not down, and excludes yours, nobody has "+
				"all data after the cut\n", plan.count)
	}
	if missing := v.unreachedRegions(dc); len(missing) > 0 {
		fmt.Fprintf(w,
			"  elsewhere the parts of %s are not heard by the others until exclusions of %s is %d in the manifest "+
				"there too\n", strings.Join(missing, ", "), dc, plan.count)
	}
	for _, r := range v.all {
		if r.err != nil {
			fmt.Fprintf(w, "  %s cannot be read: %s\n", contextName(r), oneLine(r.err))
		}
	}
	return nil
}

// unreachedRegions returns the regions with other data centers that no cluster runs which was read.
func (v *storeRegions) unreachedRegions(dc string) (regions []string) {
	for _, d := range v.dataCenters() {
		if d.Name != dc && len(v.runs(d.Name)) == 0 && !slices.Contains(regions, d.Region) {
			regions = append(regions, d.Region)
		}
	}
	return regions
}

// setExclusions sets exclusions of a data center in the manifest of a cluster. It fails if somebody has changed the
// manifest meanwhile.
func setExclusions(ctx context.Context, r *regionStore, dc string, plan exclusionPlan) error {
	i := slices.IndexFunc(r.store.Spec.DataCenters, func(d v1alpha1.DataCenter) bool { return d.Name == dc })
	body := fmt.Appendf(nil,
		`[{"op":"test","path":"/metadata/resourceVersion","value":%q},{"op":"test","path":"/spec/dataCenters/%d/name","value":%q},{"op":"add","path":"/spec/dataCenters/%d/exclusions","value":%d}`,
		r.store.ResourceVersion, i, dc, i, plan.count)
	if plan.forced {
		body = fmt.Appendf(body, `,{"op":"add","path":"/spec/dataCenters/%d/forceExclusion","value":%d}`, i, plan.count)
	}
	body = append(body, ']')
	if err := r.k.Patch(ctx, r.store, client.RawPatch(types.JSONPatchType, body),
		client.FieldOwner(PluginName)); err != nil {
		return fmt.Errorf("set exclusions of %s in %s: %w; run the command again", dc, contextName(r), err)
	}
	return nil
}

// exclusionPoll is how often the status of stores is read while waiting.
const exclusionPoll = time.Second

// awaitExclusion waits until all clusters go by the exclusion, and says what each of them does.
func awaitExclusion(ctx context.Context, w io.Writer, v *storeRegions, dc string, count int32,
	atMost time.Duration) error {
	if atMost <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	said := map[*regionStore]string{}
	for {
		waits := false
		for _, r := range v.known() {
			s := &v1alpha1.CausalStore{}
			if err := r.k.Get(ctx, client.ObjectKeyFromObject(r.store), s); err != nil && ctx.Err() == nil {
				return fmt.Errorf("read %s in %s: %w", v.name, contextName(r), err)
			} else if err == nil {
				r.store = s
			}
			x := exclusionOf(r.store, dc)
			if !runsOther(r, dc) {
				continue
			}
			text, applied := "its operator has not told the parts yet", false
			if x != nil && x.Count >= count {
				text, applied = describeExclusion(x), isApplied(x)
			}
			if text != said[r] {
				fmt.Fprintf(w, "%s: %s\n", contextName(r), text)
				said[r] = text
			}
			if x != nil && x.Count >= count && x.State == v1alpha1.ExclusionLastCopy {
				return errors.New(
					"the coordinators do not begin while the data center may have the only copy of some data: bring " +
						"the other ring back. The number stays, and they begin then")
			}
			waits = waits || !applied
		}
		if !waits {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf(
				"not all coordinators go by it after %s; they go on trying. See: kubectl causal status %s",
				atMost, v.name)
		case <-time.After(exclusionPoll):
		}
	}
}

// runsOther reports whether a cluster runs another data center than dc.
func runsOther(r *regionStore, dc string) bool {
	return slices.ContainsFunc(r.store.Status.DataCenters, func(d v1alpha1.DataCenterStatus) bool {
		return d.Here && d.Name != dc
	})
}

// isApplied reports whether all coordinators that a cluster has go by an exclusion.
func isApplied(x *v1alpha1.ExclusionStatus) bool {
	return x.State == v1alpha1.ExclusionExcluded || x.State == v1alpha1.ExclusionBackfilling ||
		x.State == v1alpha1.ExclusionBack
}

// describeExclusion says what the coordinators of a cluster do about an excluded data center.
func describeExclusion(x *v1alpha1.ExclusionStatus) string {
	switch x.State {
	case v1alpha1.ExclusionUnknown:
		return "no coordinator answers"
	case v1alpha1.ExclusionLastCopy:
		return "a coordinator does not begin, because nobody else may have the data"
	case v1alpha1.ExclusionPending:
		return fmt.Sprintf("%d of %d coordinators go by it", x.Applied, x.Coordinators)
	case v1alpha1.ExclusionExcluded:
		return fmt.Sprintf("all %d coordinators go by it; writes complete without %d of %d shards", x.Coordinators,
			x.Without, x.Shards)
	case v1alpha1.ExclusionBackfilling:
		return "its shards are back and get their data"
	case v1alpha1.ExclusionBack:
		return "back: writes wait for its shards again"
	}
	return string(x.State)
}

var exclusionColumns = []string{"EXCLUDED", "COUNT", "STATE", "COORDINATORS", "WITHOUT SHARDS"}

// exclusionRows describes the data centers that were ever excluded.
func exclusionRows(s *v1alpha1.CausalStore) (rows table) {
	for _, d := range s.Status.DataCenters {
		if x := d.Exclusion; x != nil {
			rows.row(d.Name, fmt.Sprint(x.Count), string(x.State), fmt.Sprintf("%d/%d", x.Applied, x.Coordinators),
				fmt.Sprintf("%d/%d", x.Without, x.Shards))
		}
	}
	return rows
}

// exclusionTable lists what each region does about excluded data centers.
func (v *storeRegions) exclusionTable() table {
	all := section("CONTEXT", exclusionColumns)
	for _, r := range v.known() {
		all.add(r.context, exclusionRows(r.store))
	}
	return all.orNothing()
}

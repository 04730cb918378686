package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/trust"
)

func (c *cluster) trustCommand() *cobra.Command {
	var f regionFlags
	var readmit bool
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Make the operators of several regions trust each other's authority",
		Long: `Shows the fingerprints of the authorities of all regions in the clusters of the
contexts, asks, and writes each region's bundle into the namespaces of the other operators. Parts of
a region that is not trusted are refused. Run it again after the authority of a region has changed,
or was lost and made again: what the parts of a region hear from others that do not trust its present
authority is shown first. It writes public certificates only.

What an operator has accepted stays, whatever happens to the ConfigMaps; see untrust. If that is a
wrong bundle, or the cluster of a region was restored from a backup, --readmit replaces it.`,
		Example: `  kubectl causal trust --context us --context eu`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.trust(cmd, &f, readmit) },
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&readmit, "readmit", false,
		"also trust again what was revoked with untrust, and replace a bundle that is newer than the one its "+
			"region publishes")
	return cmd
}

// trustChange is what one region is to learn of another one. readmit is whether its operator would refuse that, because
// of what it has recorded.
type trustChange struct {
	in, of  *region
	readmit bool
}

func (c *cluster) trust(cmd *cobra.Command, f *regionFlags, readmit bool) error {
	ctx := cmd.Context()
	regions, err := c.connectRegions(ctx, f)
	if err != nil {
		return err
	}
	for _, r := range regions {
		fmt.Fprint(cmd.OutOrStdout(), r.refusals())
	}
	if len(regions) < 2 {
		return fmt.Errorf("only %s was found; give a --context for each cluster", regions[0])
	}
	changes, err := planTrust(ctx, regions, readmit)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		fmt.Fprintf(cmd.OutOrStdout(),
			"nothing to do: the operators of all %d regions trust each other's present authority\n", len(regions))
		return nil
	}
	if err := writeFingerprints(cmd.OutOrStdout(), regions); err != nil {
		return err
	}
	for _, change := range changes {
		again := ""
		if change.readmit {
			again = " again"
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s will trust %s%s\n", change.in.entry.Region, change.of.entry.Region, again)
	}
	if err := f.confirm(cmd); err != nil {
		return err
	}
	for _, change := range changes {
		if err := change.in.writePeer(ctx, change.of.entry); err != nil {
			return err
		}
		if change.readmit {
			if err := change.in.forget(ctx, change.of.entry.TrustDomain); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(cmd.OutOrStdout(), "written; condition PeersTrusted of the stores follows within seconds")
	return nil
}

// planTrust returns what has to be written.
func planTrust(ctx context.Context, regions []*region, readmit bool) (changes []trustChange, err error) {
	for _, in := range regions {
		record, _, err := in.record(ctx)
		if err != nil {
			return nil, err
		}
		for _, of := range regions {
			switch {
			case of == in:
				continue
			case of.entry.Region == in.entry.Region:
				return nil,
					fmt.Errorf(
						"%s and %s are of the same region, so that they cannot trust each other; give one operator "+
							"per region", in, of)
			}
			is, known := record[of.entry.TrustDomain]
			stays := known && is.Sequence >= of.entry.Sequence // the operator does not replace it
			switch {
			case known && !is.Revoked && is.Sequence == of.entry.Sequence && is.Bundle == of.entry.Bundle:
				continue
			case known && is.Revoked && !readmit:
				return nil, fmt.Errorf("%s has revoked the trust domain of %s; --readmit trusts it again", in, of)
			case stays && !readmit:
				return nil,
					fmt.Errorf(
						"%s has accepted another bundle of %s, with sequence %d, and does not replace it by the "+
							"present one, with sequence %d: somebody has written a wrong one, or the cluster there "+
							"was restored from a backup; if the present one is right, --readmit replaces the other",
						in, of, is.Sequence, of.entry.Sequence)
			}
			change := trustChange{in, of, known && (is.Revoked || stays)}
			if change.readmit {
				if err := in.expectNoOther(ctx, of.entry); err != nil {
					return nil, err
				}
			}
			changes = append(changes, change)
		}
	}
	return changes, nil
}

// expectNoOther returns an error if a ConfigMap beside the one that writePeer writes would have the operator of the
// region accept something else than e again.
func (r *region) expectNoOther(ctx context.Context, e trust.Entry) error {
	ours, _, err := r.peerMap(ctx, e.TrustDomain)
	if err != nil {
		return err
	}
	peers, err := r.peers(ctx)
	if err != nil {
		return err
	}
	for i := range peers {
		m := &peers[i]
		other, err := trust.ReadEntry(m)
		if err != nil || m.Name == ours.Name || other.TrustDomain != e.TrustDomain {
			continue
		}
		if other.Revoked || other.Sequence >= e.Sequence && other.Bundle != e.Bundle {
			return fmt.Errorf(
				"ConfigMap %s of %s is about the same trust domain, and would be accepted again; delete it first, "+
					"and what writes it", m.Name, r)
		}
	}
	return nil
}

// forget removes a trust domain from the record of a region, so that its operator accepts it again.
func (r *region) forget(ctx context.Context, trustDomain string) error {
	body, err := json.Marshal(map[string]any{"data": map[string]any{trustDomain: nil}})
	if err != nil {
		return err
	}
	_, m, err := r.record(ctx)
	if err != nil || m == nil {
		return err
	}
	if err := r.k.Patch(ctx, m, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("remove %s from ConfigMap %s of %s: %w", trustDomain, m.Name, r, err)
	}
	return nil
}

func (c *cluster) untrustCommand() *cobra.Command {
	var f regionFlags
	cmd := &cobra.Command{
		Use:   "untrust REGION",
		Short: "Revoke a region's authority in other regions: its parts are refused, and links to them end",
		Long: `Writes a tombstone for the trust domains of REGION into the operators' namespaces
of the given contexts. Parts there then refuse the parts of that region: until it is trusted again
they get none of its writes, and it gets none of theirs. The tombstone stays, whatever happens to
the ConfigMap; only kubectl causal trust --readmit removes it.`,
		Example: `  kubectl causal untrust ap --context us --context eu`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.untrust(cmd, &f, args[0]) },
	}
	f.register(cmd)
	return cmd
}

func (c *cluster) untrust(cmd *cobra.Command, f *regionFlags, name string) error {
	ctx := cmd.Context()
	regions, err := c.connectRegions(ctx, f)
	if err != nil {
		return err
	}
	type tombstone struct {
		in    *region
		entry trust.Entry
	}
	var all []tombstone
	for _, in := range regions {
		if in.entry.Region == name {
			continue // a region does not revoke its own authority
		}
		domains, err := in.domainsOf(ctx, name)
		if err != nil {
			return err
		}
		for _, domain := range domains {
			all = append(all, tombstone{in, trust.Entry{Region: name, TrustDomain: domain, Revoked: true}})
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("none of the %d operators found trusts a region %s", len(regions), name)
	}
	for _, t := range all {
		fmt.Fprintf(cmd.OutOrStdout(), "%s will not trust %s (trust domain %s) any more\n", t.in, name,
			t.entry.TrustDomain)
	}
	if err := f.confirm(cmd); err != nil {
		return err
	}
	var errs []error
	for _, t := range all { // each one that can be cut off is
		errs = append(errs, t.in.writePeer(ctx, t.entry))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "revoked; the parts follow within seconds")
	return nil
}

// domainsOf returns the trust domains of a region that are trusted, or that ConfigMaps ask to trust.
func (r *region) domainsOf(ctx context.Context, name string) ([]string, error) {
	record, _, err := r.record(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for domain, e := range record {
		if e.Region == name && !e.Revoked {
			found[domain] = true
		}
	}
	peers, err := r.peers(ctx)
	if err != nil {
		return nil, err
	}
	for i := range peers {
		if e, err := trust.ReadEntry(&peers[i]); err == nil && e.Region == name && !e.Revoked &&
			!record[e.TrustDomain].Revoked {
			found[e.TrustDomain] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

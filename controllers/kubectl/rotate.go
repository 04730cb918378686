package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/trust"
)

func (c *cluster) rotateCommand() *cobra.Command {
	var f regionFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "rotate-ca REGION",
		Short: "Replace the authority of a region, step by step, without a moment in which parts are refused",
		Long: `Replaces the authority of REGION, of which it needs the context. What is done:

  1. The operator of REGION makes a new authority and puts it beside the old one into its bundle.
  2. The bundle is written to the other regions whose contexts are given. In others,
     somebody has to: with kubectl causal trust, or by GitOps.
  3. When the parts in all data centers of all stores of REGION say that they accept the new
     authority, it issues, and all certificates are renewed. The operator sees
     to that by itself. Run the command again to see what it waits for.
  4. Eight days later the operator drops the old authority. Then kubectl causal trust brings
     the shorter bundle to the other regions.

A region that is away is waited for. --force lets the new authority issue at once: for an old
authority whose key was stolen, or a region that does not come back. Parts that have not read the
new bundle then refuse those of REGION until they have. Step 4 stays: to end the trust in a stolen
key, use untrust. During the eight days of step 4 another rotation begins only with --force.

If certificates are issued by cert-manager, replace the CA of the issuer there: the operator notices
within an hour, and goes on with step 2.`,
		Example: `  kubectl causal rotate-ca us --context us --context eu`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.rotate(cmd, &f, args[0], force) },
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "let the new authority issue before all data centers accept it")
	return cmd
}

func (c *cluster) rotate(cmd *cobra.Command, f *regionFlags, name string, force bool) error {
	ctx := cmd.Context()
	regions, err := c.connectRegions(ctx, f)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(regions, func(r *region) bool { return r.entry.Region == name })
	if i < 0 {
		return fmt.Errorf("no operator of region %s was found; give the --context of its cluster", name)
	}
	of := regions[i]
	fmt.Fprint(cmd.OutOrStdout(), of.refusals())
	others := slices.Delete(slices.Clone(regions), i, i+1)
	step, err := of.nextStep(ctx, others, force)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), step.text)
	if step.request == "" && len(step.tell) == 0 {
		return nil
	}
	if err := f.confirm(cmd); err != nil {
		return err
	}
	if step.request != "" {
		if err := of.request(ctx, step.request); err != nil {
			return err
		}
	}
	for _, r := range step.tell {
		if err := r.writePeer(ctx, of.entry); err != nil {
			return err
		}
	}
	fmt.Fprintln(cmd.OutOrStdout(), "done")
	if waits := of.waits(); waits != "" {
		fmt.Fprintln(cmd.OutOrStdout(), waits)
	}
	return nil
}

// rotationStep is what a run of rotate-ca does. Without a request, and without regions to tell, it only says what is
// waited for.
type rotationStep struct {
	text    string
	request string
	// tell are the regions that do not have the bundle.
	tell []*region
}

// nextStep decides the next step of a rotation.
func (r *region) nextStep(ctx context.Context, others []*region, force bool) (rotationStep, error) {
	issuing, next, issuer := r.own.Data[trust.FieldIssuing], r.own.Data[trust.FieldNext], r.own.Data[trust.FieldIssuer]
	if next == "" {
		switch {
		case r.own.Data[trust.FieldRetired] != "" && !force:
			return rotationStep{
				text: fmt.Sprintf(
					"%s: the new authority issues; the operator drops the old one at %s. Nothing is left to do until "+
						"then. If the key of the new one was stolen, --force begins again",
					r, r.own.Data[trust.FieldRetiredUntil])}, nil
		case issuer != "":
			return rotationStep{
				text: fmt.Sprintf(
					"%s: certificates are issued by %s of cert-manager. Replace its CA there; the operator notices "+
						"within an hour", r, issuer),
			}, nil
		}
		behind, names, err := r.behind(ctx, others, false)
		return rotationStep{request: trust.RotationRequest(trust.RotateBegin, issuing), tell: behind,
			text: fmt.Sprintf(
				"%s: a new authority will be made beside %s, and written to %s. It issues as soon as it is accepted "+
					"everywhere", r, short(issuing), names)}, err
	}
	behind, names, err := r.behind(ctx, others, true)
	switch {
	case err != nil:
		return rotationStep{}, err
	case force:
		return rotationStep{request: trust.RotationRequest(trust.RotateForce, next), tell: behind,
			text: fmt.Sprintf(
				"%s: the new authority %s will issue at once; parts that have not read the new bundle refuse this "+
					"region's until they have", r, short(next))}, nil
	case len(behind) > 0:
		return rotationStep{tell: behind,
				text: fmt.Sprintf("%s: the bundle with the new authority %s will be written to %s", r,
					short(next), names)},
			nil
	}
	return rotationStep{text: r.waits()}, nil
}

// behind returns the regions that do not have the bundle, or, if it is about to change, all, and their names.
func (r *region) behind(ctx context.Context, others []*region, made bool) (all []*region, names string, err error) {
	var texts []string
	for _, o := range others {
		record, _, err := o.record(ctx)
		if err != nil {
			return nil, "", err
		}
		e := record[r.entry.TrustDomain]
		if e.Revoked {
			return nil, "",
				fmt.Errorf("%s has revoked the trust domain of %s; trust it again, or leave out its --context", o, r)
		}
		if !made || e.Bundle != r.entry.Bundle {
			all, texts = append(all, o), append(texts, o.entry.Region)
		}
	}
	if len(texts) == 0 {
		return nil, "no other region", nil
	}
	return all, strings.Join(texts, ", "), nil
}

// waits says what the new authority waits for.
func (r *region) waits() string {
	next := r.own.Data[trust.FieldNext]
	if next == "" {
		return ""
	}
	text := fmt.Sprintf("%s: the new authority %s issues when it is accepted everywhere. ", r, short(next))
	if r.own.Data[trust.FieldWaiting] == "" {
		return text + "The operator has not said yet what is missing; run the command again"
	}
	return text + "What is missing:\n  " + strings.ReplaceAll(r.own.Data[trust.FieldWaiting], "\n", "\n  ") +
		"\nIn a region that does not accept it, run kubectl causal trust, with its context and that of " +
		r.entry.Region
}

func short(fingerprint string) string { return fingerprint[:min(16, len(fingerprint))] }

// operatorTimeout bounds the wait for an operator to carry out a request.
const operatorTimeout = time.Minute

// request asks the operator of a region for a step, and waits until it has taken it. Then the region is as it is
// afterwards.
func (r *region) request(ctx context.Context, value string) error {
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	body, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"annotations": map[string]string{trust.AnnotationRotate: value}}})
	if err != nil {
		return err
	}
	before := r.own.Data[trust.FieldIssuing] + r.own.Data[trust.FieldNext]
	if err := r.k.Patch(ctx, r.own, client.RawPatch(types.MergePatchType, body),
		client.FieldOwner(PluginName)); err != nil {
		return fmt.Errorf("annotate ConfigMap %s of %s: %w", r.own.Name, r, err)
	}
	for {
		m := &corev1.ConfigMap{}
		err := r.k.Get(ctx, client.ObjectKeyFromObject(r.own), m)
		if err == nil && m.Data[trust.FieldIssuing]+m.Data[trust.FieldNext] != before {
			if r.entry, err = trust.ReadEntry(m); err != nil {
				return err
			}
			r.own = m
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(
				fmt.Errorf("the operator of %s has not done it within %s; it will, unless it is away: see its log", r,
					operatorTimeout), err)
		case <-time.After(pollInterval):
		}
	}
}

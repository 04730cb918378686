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
		Long: `Replaces the authority of REGION. Give a context for every cluster of its stores. Run it until it says that nothing is left to do; each run
takes the next step that is safe:

  1. The operator of REGION makes a new authority and puts it beside the old one into its bundle, which is written to the other regions.
  2. Ten minutes after the last region has accepted it, the new authority issues, and all certificates are renewed.
  3. Eight days later the operator drops the old authority. Then kubectl causal trust brings the shorter bundle to the other regions.

--force takes step 2 at once, and without the regions that do not answer: for an old authority whose key was stolen. Parts that have not
read the new bundle then refuse those of REGION until they have. Step 3 stays: to end the trust in a stolen key, use untrust.`,
		Example: `  kubectl causal rotate-ca us --context us --context eu`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.rotate(cmd, &f, args[0], force, time.Now()) },
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "let the new authority issue before all regions trust it")
	return cmd
}

func (c *cluster) rotate(cmd *cobra.Command, f *regionFlags, name string, force bool, now time.Time) error {
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
	others := slices.Delete(slices.Clone(regions), i, i+1)
	step, err := of.nextStep(ctx, others, force, now)
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
	for _, r := range step.tell {
		if err := r.writePeer(ctx, of.entry); err != nil {
			return err
		}
	}
	if step.request != "" {
		return of.request(cmd, step.request)
	}
	return nil
}

// rotationStep is what a run of rotate-ca does. Without a request, and without regions to tell, it only says why.
type rotationStep struct {
	text    string
	request string
	// tell are the regions that do not have the present bundle.
	tell []*region
}

// nextStep decides the next step of a rotation.
func (r *region) nextStep(ctx context.Context, others []*region, force bool, now time.Time) (rotationStep, error) {
	issuing, next := r.own.Data[trust.FieldIssuing], r.own.Data[trust.FieldNext]
	switch {
	case r.own.Data[trust.FieldRetired] != "":
		return rotationStep{text: fmt.Sprintf("%s: the new authority issues; the operator drops the old one at %s. Nothing is left to do until then", r, r.own.Data[trust.FieldRetiredUntil])}, nil
	case next == "":
		return rotationStep{request: trust.RotationRequest(trust.RotateBegin, issuing),
			text: fmt.Sprintf("%s: a new authority will be made beside %s. Run the command again to bring it to the other regions", r, short(issuing))}, nil
	}
	settled, err := time.Parse(time.RFC3339, r.own.Data[trust.FieldNextSince])
	if err != nil {
		return rotationStep{}, fmt.Errorf("ConfigMap %s: %s: %w", r.own.Name, trust.FieldNextSince, err)
	}
	var behind []*region
	var names []string
	for _, o := range others {
		record, _, err := o.record(ctx)
		if err != nil {
			return rotationStep{}, err
		}
		e := record[r.entry.TrustDomain]
		switch {
		case e.Revoked:
			return rotationStep{}, fmt.Errorf("%s has revoked the trust domain of %s; trust it again, or leave out its --context", o, r)
		case e.Bundle != r.entry.Bundle:
			behind, names = append(behind, o), append(names, o.entry.Region)
		case e.Since.After(settled):
			settled = e.Since
		}
	}
	settled = settled.Add(trust.SettleTime)
	switch {
	case force:
		return rotationStep{request: trust.RotationRequest(trust.RotateForce, next), tell: behind,
			text: fmt.Sprintf("%s: the new authority %s will issue at once; parts that have not read the new bundle refuse this region's until they have", r, short(next))}, nil
	case len(behind) > 0:
		return rotationStep{tell: behind, text: fmt.Sprintf("%s: the bundle with the new authority %s will be written to %s. Run the command again %s later", r, short(next),
			strings.Join(names, ", "), trust.SettleTime)}, nil
	case now.Before(settled):
		return rotationStep{text: fmt.Sprintf("%s: the new authority %s may issue at %s, when all parts have read the bundle. Run the command again then", r, short(next),
			settled.UTC().Format(time.RFC3339))}, nil
	}
	return rotationStep{request: trust.RotationRequest(trust.RotateActivate, next),
		text: fmt.Sprintf("%s: the new authority %s will issue; %d other regions were asked and trust it", r, short(next), len(others))}, nil
}

func short(fingerprint string) string { return fingerprint[:min(16, len(fingerprint))] }

// operatorTimeout bounds the wait for an operator to carry out a request.
const operatorTimeout = time.Minute

// request asks the operator of a region for a step, and waits until it has taken it.
func (r *region) request(cmd *cobra.Command, value string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), operatorTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{trust.AnnotationRotate: value}}})
	if err != nil {
		return err
	}
	before := r.own.Data[trust.FieldIssuing] + r.own.Data[trust.FieldNext]
	if err := r.k.Patch(ctx, r.own, client.RawPatch(types.MergePatchType, body), client.FieldOwner(PluginName)); err != nil {
		return fmt.Errorf("annotate ConfigMap %s of %s: %w", r.own.Name, r, err)
	}
	for {
		m := &corev1.ConfigMap{}
		err := r.k.Get(ctx, client.ObjectKeyFromObject(r.own), m)
		if err == nil && m.Data[trust.FieldIssuing]+m.Data[trust.FieldNext] != before {
			fmt.Fprintln(cmd.OutOrStdout(), "done")
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the operator of %s has not done it within %s; it will, unless it is away: see its log", r, operatorTimeout), err)
		case <-time.After(pollInterval):
		}
	}
}

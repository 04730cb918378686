package kubectl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/drill"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/controllers/drill/report"
)

func (c *cluster) drillRunCommand(f *drillFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "run DRILL", Short: "Run a drill: show what it hits, ask, inject, watch, heal, report",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeDrill,
		Long: `Shows which pods a drill hits and asks whether to go on. Then it watches canaries
before, during and after the faults, verifies that everything has healed, and prints a report, which
is kept in the cluster. Interrupting it (Ctrl-C) ends the faults and reports.

It fails if a promise was broken, or the run was aborted.`,
		Example: `  kubectl causal drill run az-b-cut --store orders -n shop
  kubectl causal drill run coordinator --data-center us-east-1 --injection 30s --yes -n shop`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.drillRun(cmd, f, args[0]) },
	}
	f.registerRun(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&f.yes, "yes", false, "do not ask, and remove what Chaos Mesh leaves behind")
	fs.BoolVar(&f.settings.Force, "force", false,
		"run although the store is not ready, or it is not known whether the cluster can run it")
	fs.DurationVar(&f.settings.After, "after", f.settings.After, "how long to watch after everything has healed")
	fs.DurationVar(&f.settings.HealTimeout, "heal-timeout", f.settings.HealTimeout,
		"how long each step of the healing may take")
	fs.Float64Var(&f.settings.ErrorBudget, "error-budget", f.settings.ErrorBudget,
		"share of operations in data centers that are not hit, within 10s, above which the run is aborted if they fail")
	return cmd
}

func (c *cluster) drillRun(cmd *cobra.Command, f *drillFlags, name string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	d, err := drill.Find(name)
	if err != nil {
		return err
	}
	window, err := drill.ParseWindow(f.window)
	if err != nil {
		return err
	}
	if !window.Allows(time.Now(), f.settings.Longest()) {
		return fmt.Errorf("drill %s may run within %s (UTC) only, and takes up to %s", name, f.window,
			f.settings.Longest())
	}
	k, s, err := c.drillStore(ctx, f)
	if err != nil {
		return err
	}
	l, known, err := k.lookForDrill(ctx, s)
	if err != nil {
		return err
	}
	p, err := drill.LookAhead(ctx, k, l, d, f.choice, known)
	if err != nil {
		return err
	}
	if err := errors.Join(p.OK(f.settings.Force), f.settings.Check()); err != nil {
		var plan strings.Builder
		p.Describe(&plan, f.settings)
		return fmt.Errorf("%w\n\nNothing was done. What it would do:\n\n%s", err,
			strings.TrimSuffix(plan.String(), "\n"))
	}
	canaries, err := k.canaries(ctx, s, f.image)
	if err != nil {
		return err
	}
	if err := canaries.PlanSidecars(ctx, l, f.settings.Sidecars); err != nil {
		return err
	}
	if p, err = drill.LookAhead(ctx, k, l, d, f.choice, known); err != nil { // the faults of a zone hit canaries in it
		return err
	}
	p.Describe(out, f.settings)
	for _, doubt := range p.Doubts {
		fmt.Fprintf(out, "  Forced, although: %s\n", doubt)
	}
	if !f.yes {
		if err := confirm(cmd.InOrStdin(), out, s.Name); err != nil {
			return err
		}
	}
	f.settings.RemoveLeftovers = f.yes
	x := &drill.Runner{Client: k, Canaries: canaries, Settings: f.settings, Out: out, Version: canaries.Image,
		User: k.user(ctx), Cluster: k.config.Host}
	r, err := x.Run(ctx, p)
	if r == nil {
		return err
	}
	fmt.Fprintln(out)
	err = errors.Join(err, report.Text(out, r))
	fmt.Fprintf(out, "\nA page for others: kubectl causal drill report %s --store %s -n %s -o html > drill.html\n",
		r.ID, s.Name, s.Namespace)
	if r.Outcome != record.Passed {
		return errors.Join(err, fmt.Errorf("drill %s: %s: %s", name, strings.ToLower(string(r.Outcome)), r.Reason))
	}
	return err
}

// confirm asks for the name of the store.
func confirm(in io.Reader, out io.Writer, store string) error {
	fmt.Fprintf(out, "Type the name of the store to go on: ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != store {
		return fmt.Errorf("nothing was done: the answer was not %s; --yes does not ask", store)
	}
	return nil
}

// user returns the name of the user whom the API server takes this for, or "" if it does not say.
func (k *connection) user(ctx context.Context) string {
	c, err := authentication.NewForConfig(k.config)
	if err != nil {
		return ""
	}
	review, err := c.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

func (k *connection) canaries(ctx context.Context, s *v1alpha1.CausalStore, image string) (*drill.Pods, error) {
	core, err := typedv1.NewForConfig(k.config)
	if err != nil {
		return nil, err
	}
	if image == "" {
		if image, err = drill.ImageOf(ctx, k, s); err != nil {
			return nil, err
		}
	}
	return &drill.Pods{Client: k, REST: core.RESTClient(), Store: s, Image: image}, nil
}

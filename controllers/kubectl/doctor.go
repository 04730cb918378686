package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// labelsOfOperator select the pods of operators, however they were installed.
var labelsOfOperator = client.MatchingLabels{plan.LabelName: plan.ManagedBy}

func (c *cluster) doctorCommand() *cobra.Command {
	var o outputFlag
	cmd := &cobra.Command{
		Use:   "doctor [STORE]",
		Short: "Check a store, and say what to do next and what is safe",
		Long: `Checks the operator, every condition of the status, nodes, pods, claims, groups,
rings and sidecars of a store. Each problem comes with what to do next and what is safe meanwhile,
as follows from the layout of the store. It ends with what it has looked at, and what is not known.
It changes nothing, and fails if it finds a problem.

It needs the rights to get and list what it checks; what it may not read it leaves out, and says so.`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: c.completeStore,
		RunE: func(cmd *cobra.Command, args []string) error { return c.doctor(cmd, o, firstOrEmpty(args)) },
	}
	o.register(cmd)
	return cmd
}

func (c *cluster) doctor(cmd *cobra.Command, o outputFlag, name string) error {
	if err := o.check(); err != nil {
		return err
	}
	k, err := c.connect()
	if err != nil {
		return err
	}
	stores, err := k.listStores(cmd.Context(), name)
	if err != nil {
		return err
	}
	problems, reports := 0, []doctorReport{}
	for i := range stores {
		e, err := k.examine(cmd.Context(), &stores[i])
		if err != nil {
			return err
		}
		findings := e.findings()
		problems += count(findings, levelProblem)
		if o.isJSON() {
			reports = append(reports, newDoctorReport(&stores[i], findings))
			continue
		}
		if i > 0 {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := writeFindings(cmd.OutOrStdout(), &stores[i], findings); err != nil {
			return err
		}
	}
	if o.isJSON() {
		if err := writeJSON(cmd.OutOrStdout(), reports); err != nil {
			return err
		}
	}
	if problems > 0 {
		cmd.SilenceUsage = true
		return fmt.Errorf("%d problems found", problems)
	}
	return nil
}

// evidence is what a store is judged by.
type evidence struct {
	store *v1alpha1.CausalStore
	parts []corev1.Pod
	// leases are those of the operators of the regions here, by region; operator has the pods of operators, nodes the
	// nodes by name, claims the claims by name, and sidecars the pods of apps with a sidecar that is missing or old.
	leases   map[string]*coordinationv1.Lease
	operator []corev1.Pod
	nodes    nodes
	claims   map[string]*corev1.PersistentVolumeClaim
	sidecars []sidecarProblem
	downs    scaleDowns
	// unread names what the user may not read.
	unread []string
	now    time.Time
}

// What evidence.unread has if it could not be read.
const (
	unreadApps     = "namespaces and the pods of apps"
	unreadOperator = "the pods of the operator"
	unreadLeases   = "leases"
	unreadNodes    = "nodes"
	unreadClaims   = "claims"
)

// examine collects the evidence on a store.
func (k *connection) examine(ctx context.Context, s *v1alpha1.CausalStore) (*evidence, error) {
	e := &evidence{store: s, claims: map[string]*corev1.PersistentVolumeClaim{}, now: time.Now()}
	var err error
	if e.parts, err = k.partPods(ctx, s); err != nil {
		return nil, err
	}
	if e.downs, err = k.scaleDowns(ctx, s.Namespace, s.Name); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	for _, l := range []struct {
		what    string
		into    client.ObjectList
		options []client.ListOption
	}{
		{unreadOperator, &pods, []client.ListOption{labelsOfOperator}},
		{unreadClaims, &claims, []client.ListOption{client.InNamespace(s.Namespace),
			client.MatchingLabels(plan.Labels(s.Name))}},
	} {
		err := k.List(ctx, l.into, l.options...)
		if apierrors.IsForbidden(err) {
			e.unread = append(e.unread, l.what)
		} else if err != nil {
			return nil, fmt.Errorf("list %s: %w", l.what, err)
		}
	}
	e.operator = pods.Items
	if e.leases, err = k.operatorLeases(ctx, s); apierrors.IsForbidden(err) {
		e.unread = append(e.unread, unreadLeases)
	} else if err != nil {
		return nil, err
	}
	var allowed bool
	if e.nodes, allowed, err = k.readNodes(ctx); err != nil {
		return nil, err
	}
	if !allowed {
		e.unread = append(e.unread, unreadNodes)
	}
	for i := range claims.Items {
		e.claims[claims.Items[i].Name] = &claims.Items[i]
	}
	e.sidecars, err = k.sidecarProblems(ctx, s)
	if apierrors.IsForbidden(err) {
		e.unread, err = append(e.unread, unreadApps), nil
	}
	return e, err
}

// level is how serious a finding is.
type level string

const (
	levelOK      level = "ok"
	levelNote    level = "note"
	levelProblem level = "PROBLEM"
)

// finding is the result of a check.
type finding struct {
	level   level
	subject string
	text    string
	// next is what to do, in order; costs are what clients notice of steps that a person may take; safe is what may be
	// done meanwhile, and what must not be.
	next, costs []string
	safe        string
}

func count(all []finding, l level) (n int) {
	for _, f := range all {
		if f.level == l {
			n++
		}
	}
	return n
}

// doctorReport is what `doctor -o json` prints of a store. Names of fields do not change.
type doctorReport struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Problems  int             `json:"problems"`
	Findings  []findingReport `json:"findings"`
}

// findingReport is a finding: its level is ok, note or problem.
type findingReport struct {
	Level   string   `json:"level"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
	Next    []string `json:"next,omitempty"`
	Safe    string   `json:"safe,omitempty"`
}

func newDoctorReport(s *v1alpha1.CausalStore, all []finding) doctorReport {
	r := doctorReport{Namespace: s.Namespace, Name: s.Name, Problems: count(all, levelProblem),
		Findings: []findingReport{}}
	for _, f := range all {
		r.Findings = append(r.Findings, findingReport{strings.ToLower(string(f.level)), f.subject, f.text,
			f.next, f.safe})
	}
	return r
}

func writeFindings(w io.Writer, s *v1alpha1.CausalStore, all []finding) error {
	var b strings.Builder
	summary := "no problem found in what was looked at"
	if n := count(all, levelProblem); n > 0 {
		summary = fmt.Sprintf("%d of %d checks found a problem", n, len(all))
	}
	fmt.Fprintf(&b, "%s/%s: %s\n", s.Namespace, s.Name, summary)
	for _, f := range all {
		fmt.Fprintf(&b, "\n%-7s  %s: %s\n", f.level, f.subject, cmp.Or(f.text, "nothing to report"))
		for _, step := range f.next {
			fmt.Fprintf(&b, "         next: %s\n", step)
		}
		for _, cost := range f.costs {
			fmt.Fprintf(&b, "         cost: %s\n", cost)
		}
		if f.safe != "" {
			fmt.Fprintf(&b, "         safe: %s\n", f.safe)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

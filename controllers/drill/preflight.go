package drill

import (
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/drill/record"
)

// Preflight is what is known before a run. Nothing has been changed yet.
type Preflight struct {
	Drill     *Drill
	Landscape *Landscape
	Target    Target
	Expect    Expectation
	// Watched are the data centers in which canaries run.
	Watched []string
	// Refused are reasons that --force does not override, Doubts those that it does.
	Refused, Doubts []string
}

// OK returns why the drill must not run, or nil.
func (p *Preflight) OK(force bool) error {
	if len(p.Refused) > 0 {
		return fmt.Errorf("drill %s does not run: %s", p.Drill.Name, strings.Join(p.Refused, "; "))
	}
	if len(p.Doubts) > 0 && !force {
		return fmt.Errorf("drill %s does not run: %s; --force runs it anyway", p.Drill.Name,
			strings.Join(p.Doubts, "; "))
	}
	return nil
}

// LookAhead makes the preflight of a drill in a landscape.
func LookAhead(ctx context.Context, c client.Reader, l *Landscape, d *Drill, choice Choice,
	capabilities Capabilities) (*Preflight, error) {
	s := l.Store
	p := &Preflight{Drill: d, Landscape: l, Watched: l.here()}
	missing, err := MissingKinds(ctx, c, s.Namespace, d.Kinds)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		p.Refused = append(p.Refused,
			fmt.Sprintf("the cluster has no %s: install Chaos Mesh 2.7.3 or newer (docs/drills.md)",
				strings.Join(missing, ", ")))
	}
	if !s.Spec.Clients.Front.IsEnabled() {
		p.Refused = append(p.Refused, "the front is off (spec.clients.front.enabled), so canaries cannot connect")
	} else if t := s.Spec.Clients.Front.TLS; t != nil && t.ClientCASecretName != "" &&
		!s.Spec.Clients.Front.ServesPlaintext() {
		p.Refused = append(p.Refused,
			"fronts ask clients for certificates (spec.clients.front.tls.clientCASecretName), of which "+
				"canaries have none")
	}
	if p.Target, err = d.Choose(l, choice); err != nil {
		p.Refused = append(p.Refused, err.Error())
	} else {
		p.Expect = d.Expect(l, p.Target)
	}
	if condition := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); condition == nil ||
		condition.Status != "True" {
		why := "no operator has processed it"
		if condition != nil {
			why = condition.Message
		}
		p.Doubts = append(p.Doubts, fmt.Sprintf("store %s is not ready: %s", s.Name, why))
	}
	if u := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionUnderReplicated); u != nil &&
		u.Status == "True" {
		p.Doubts = append(p.Doubts, "a group has fewer members than the spec asks for: "+u.Message)
	}
	if d.Kernel {
		switch works, known := capabilities.Find(d.Kinds[0]); {
		case !known:
			p.Doubts = append(p.Doubts,
				fmt.Sprintf(
					"it is not known whether the nodes of this cluster can run %s: kubectl causal drill probe tries "+
						"it on a canary", d.Kinds[0]))
		case works != "":
			p.Doubts = append(p.Doubts, fmt.Sprintf("%s did not work on this cluster: %s", d.Kinds[0], works))
		}
	}
	lock := &corev1.ConfigMap{}
	err = c.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: record.LockName(s.Name)}, lock)
	if err == nil && !record.Expired(lock, now()) {
		p.Refused = append(p.Refused, underWay(lock, s.Name))
	}
	return p, client.IgnoreNotFound(ignoreForbidden(err))
}

func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil // creating the lock says so, with what is needed
	}
	return err
}

// Describe writes the blast radius.
func (p *Preflight) Describe(w io.Writer, s Settings) {
	fmt.Fprintf(w, "Drill %s: %s\n", p.Drill.Name, p.Drill.Title)
	fmt.Fprintf(w, "  It %s, for %s.\n", p.Drill.Does, s.Injection)
	if len(p.Target.Pods) > 0 {
		fmt.Fprintf(w, "  Hits: %s (%d pods: %s)\n", p.Target.Text, len(p.Target.Pods), describe(p.Target.Pods))
		for _, pod := range p.Target.Pods {
			fmt.Fprintf(w, "    %-12s %-5s %-20s %s\n", pod.Component, pod.Side, pod.Zone, pod)
		}
	}
	for _, f := range p.Target.Faults {
		if len(f.Targets) > 0 {
			fmt.Fprintf(w, "  Cut off from %d pods: %s\n", len(f.Targets), describe(f.Targets))
		}
	}
	fmt.Fprintf(w, "  Clients of these data centers may notice: %s\n", orNone(p.Target.HitDataCenters))
	if p.Expect.Why != "" {
		fmt.Fprintf(w, "  Note: %s.\n", p.Expect.Why)
	}
	if !p.Landscape.ZonesKnown {
		fmt.Fprintln(w, "  Note: the zones of nodes cannot be read, so that zones are told by what the pods run.")
	}
	fmt.Fprintf(w, "  Canaries: %s; keys with a random prefix, deleted at the end\n", orNone(p.Watched))
	with := dataCentersOf(p.Landscape.Canaries)
	fmt.Fprintf(w, "  Canaries with a sidecar: %s", orNone(with))
	if p.Landscape.NoSidecars != "" {
		fmt.Fprintf(w, " (%s)", p.Landscape.NoSidecars)
	}
	for _, c := range p.Landscape.Canaries {
		if p.Target.stops(c) {
			fmt.Fprintf(w, "; that of %s stops with its zone", c.DataCenter)
		}
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w,
		"  Aborts if more than %.0f%% of the operations elsewhere fail, a causal rule is broken, or a group loses "+
			"its last member.\n", 100*s.ErrorBudget)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

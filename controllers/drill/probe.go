package drill

import (
	"context"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/drill/record"
)

// drillProbe is the label of what a probe creates.
const drillProbe = "probe"

// probeDuration is how long the experiments of a probe last, probeTimeout how long they may take to be injected or to
// go.
const (
	probeDuration = 10 * time.Second
	probeTimeout  = 30 * time.Second
)

// Probe tries the kinds of experiments that need more of the kernel than others, on a canary, and keeps what came out.
// The store is not hit.
func Probe(ctx context.Context, c client.Client, canaries *Pods, s *v1alpha1.CausalStore,
	out io.Writer) (Capabilities, error) {
	l, err := Look(ctx, c, s)
	if err != nil {
		return nil, err
	}
	if len(l.here()) == 0 {
		return nil, fmt.Errorf("store %s has no pods in this cluster", s.Name)
	}
	dc := l.here()[:1]
	r := &record.Run{ID: NewID(now()), Drill: drillProbe, Store: s.Name, Namespace: s.Namespace, Started: now()}
	id := CanaryID{dc[0], record.Front}
	if _, err := canaries.Start(ctx, r, DefaultSettings(), nil, []CanaryID{id}); err != nil {
		return nil, err
	}
	defer func() { _ = canaries.Remove(context.WithoutCancel(ctx)) }() // it ends by itself
	known, err := ReadCapabilities(ctx, c, s.Namespace, s.Name)
	if err != nil {
		return nil, err
	}
	found := Capabilities{}
	for kind, wrong := range known {
		found[kind] = wrong
	}
	victim := []Pod{{Namespace: s.Namespace, Name: canaries.podName(id)}}
	for i, f := range []Fault{{Kind: KindTime, What: "clock", Victims: victim, Offset: clockOffset,
		Container: "canary"},
		{Kind: KindIO, What: "disk", Victims: victim, Container: "canary", VolumePath: canaryScratch,
			Errno: errnoNoSpace}} {
		wrong, err := probe(ctx, c, f, r, i)
		if err != nil {
			return nil, err
		}
		found[f.Kind] = wrong
		if wrong == "" {
			wrong = "works"
		}
		fmt.Fprintf(out, "%s: %s\n", f.Kind, wrong)
	}
	return found, found.write(ctx, c, s.Namespace, s.Name)
}

// probe returns why an experiment was not injected, or did not go, or "".
func probe(ctx context.Context, c client.Client, f Fault, r *record.Run, n int) (wrong string, err error) {
	missing, err := MissingKinds(ctx, c, r.Namespace, []string{f.Kind})
	if err != nil || len(missing) > 0 {
		return "the cluster has no such kind", err
	}
	o := f.Object(r, n, probeDuration)
	if err := c.Create(ctx, o); err != nil {
		return "", wrap("create "+f.Kind, err)
	}
	injected := false
	for deadline := now().Add(probeTimeout); !injected && now().Before(deadline); {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return "", wrap("read "+f.Kind, err)
		}
		if injected = chaosCondition(o, "AllInjected"); !injected && !sleep(ctx, time.Second) {
			break
		}
	}
	if !injected {
		wrong = "not injected within " + probeTimeout.String() + ": " + lastMessage(o)
	}
	whatever := context.WithoutCancel(ctx)
	if err := c.Delete(whatever, o); client.IgnoreNotFound(err) != nil {
		return "", wrap("delete "+f.Kind, err)
	}
	for deadline := now().Add(probeTimeout); now().Before(deadline); {
		if apierrors.IsNotFound(c.Get(whatever, client.ObjectKeyFromObject(o), o)) {
			return wrong, nil
		}
		if !sleep(whatever, time.Second) {
			break
		}
	}
	left := fmt.Sprintf("it did not go within %s after it was deleted: kubectl -n %s annotate %s %s %s=forced",
		probeTimeout, o.GetNamespace(), o.GetKind(), o.GetName(), forceFinalizer)
	if wrong != "" {
		left = wrong + "; " + left // first why it cannot run
	}
	return left, nil
}

package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/controllers/inject"
)

// portBesideSidecar is where a canary serves HTTP whose sidecar has the port of parts.
const portBesideSidecar = 7482

func (id CanaryID) portHTTP() int32 {
	if id.Through == record.Sidecar {
		return portBesideSidecar
	}
	return plan.PortHTTP
}

// inFrontZone keeps a pod in AZ-F of a data center, where its apps are, so that faults of that zone hit both. Without
// zones, it may be anywhere.
func inFrontZone(s *v1alpha1.CausalStore, dc string) *corev1.Affinity {
	d := dataCenter(s, dc)
	if d == nil || len(s.Spec.ZonesOf(d).Frontend) == 0 {
		return nil
	}
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{
						MatchExpressions: []corev1.NodeSelectorRequirement{{Key: s.Spec.ZoneLabel,
							Operator: corev1.NodeSelectorOpIn, Values: s.Spec.ZonesOf(d).Frontend}},
					}}}}}
}

// sidecarProblem returns why a pod has no sidecar of the data center, or nil.
func sidecarProblem(s *v1alpha1.CausalStore, dc string, p *corev1.Pod) error {
	of, ok := inject.SidecarOf(p)
	switch want := (inject.Sidecar{Namespace: s.Namespace, Store: s.Name, DataCenter: dc}); {
	case ok && of == want:
		return nil
	case ok:
		return fmt.Errorf("pods of namespace %s get a sidecar of data center %s of store %s/%s", s.Namespace,
			of.DataCenter, of.Namespace, of.Store)
	case p.Annotations[inject.AnnotationNotInjected] != "":
		return errors.New(p.Annotations[inject.AnnotationNotInjected])
	}
	return fmt.Errorf("namespace %s has no label %s=%s, or no operator serves the webhook", s.Namespace,
		inject.LabelInject, s.Name)
}

// PlanSidecars adds the canaries with a sidecar that a run will have to what drills choose from. It asks the API
// server, without creating anything, whether their pods would be admitted and get a sidecar; if not, the landscape says
// why. An error refuses the drill.
func (c *Pods) PlanSidecars(ctx context.Context, l *Landscape, mode SidecarMode) error {
	l.RunID, l.Canaries, l.NoSidecars = NewID(now()), nil, ""
	if mode == SidecarsOff {
		l.NoSidecars = "turned off"
		return nil
	}
	var why []string
	settings := DefaultSettings()
	for _, dc := range l.here() {
		id := CanaryID{dc, record.Sidecar}
		p := CanaryPod(c.Store, &record.Run{ID: l.RunID, Drill: "preflight", Store: c.Store.Name}, c.Image, id,
			rand.Text(), rand.Text(), settings.Longest())
		err := c.Client.Create(ctx, p, client.DryRunAll)
		if err == nil {
			err = sidecarProblem(c.Store, dc, p)
		}
		if err != nil {
			if text := err.Error(); !slices.Contains(why, text) {
				why = append(why, text)
			}
			continue
		}
		pod := Pod{Namespace: c.Store.Namespace, Name: podName(c.Store.Name, l.RunID, id), DataCenter: dc,
			Component: ComponentCanary, Side: Front, Ready: true}
		if d := dataCenter(c.Store, dc); d != nil {
			pod.Zone = strings.Join(c.Store.Spec.ZonesOf(d).Frontend, ",")
		}
		l.Canaries = append(l.Canaries, pod)
	}
	if l.NoSidecars = strings.Join(why, "; "); len(why) > 0 && mode == SidecarsRequired {
		return fmt.Errorf(
			"the drill does not run: canaries with a sidecar are required (--sidecar-canaries), and there can be "+
				"none in some data center: %s", l.NoSidecars)
	}
	return nil
}

// podProblem says what keeps a pod from running, as far as its status tells.
func (c *Pods) podProblem(ctx context.Context, id CanaryID) string {
	p := &corev1.Pod{}
	if err := c.Client.Get(context.WithoutCancel(ctx),
		client.ObjectKey{Namespace: c.Store.Namespace, Name: c.podName(id)}, p); err != nil {
		return "; its pod cannot be read: " + err.Error()
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil {
			return fmt.Sprintf("; container %s waits: %s %s", s.Name, w.Reason, w.Message)
		}
	}
	for _, k := range p.Status.Conditions {
		if k.Type == corev1.PodScheduled && k.Status != corev1.ConditionTrue {
			return "; it is not scheduled: " + k.Message
		}
	}
	return ""
}

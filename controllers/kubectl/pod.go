package kubectl

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

func (c *cluster) explainPod(cmd *cobra.Command, name string) error {
	k, err := c.connect()
	if err != nil {
		return err
	}
	p := &corev1.Pod{}
	if err := k.Get(cmd.Context(), client.ObjectKey{Namespace: k.namespace, Name: name}, p); err != nil {
		return fmt.Errorf("read pod %s of namespace %s: %w", name, k.namespace, err)
	}
	ns := &corev1.Namespace{}
	if err := k.Get(cmd.Context(), client.ObjectKey{Name: k.namespace}, ns); err != nil {
		return fmt.Errorf("read namespace %s: %w", k.namespace, err)
	}
	var downs scaleDowns
	if isPart(p) {
		if downs, err = k.scaleDowns(cmd.Context(), k.namespace, p.Labels[plan.LabelInstance]); err != nil {
			return err
		}
	}
	return writePod(cmd.OutOrStdout(), p, ns, downs)
}

// isPart reports whether a pod belongs to a store.
func isPart(p *corev1.Pod) bool { return p.Labels[plan.LabelManagedBy] == plan.ManagedBy }

// writePod writes which sidecar an app's pod has, or why it has none.
func writePod(w io.Writer, p *corev1.Pod, namespace *corev1.Namespace, downs scaleDowns) error {
	text := explainPod(p, namespace)
	if isPart(p) && downs.includes(p) {
		text += "; " + downs.explain(p)
	}
	_, err := fmt.Fprintf(w, "%s/%s: %s\n", p.Namespace, p.Name, text)
	return err
}

// explainPod describes the sidecar of a pod, or why it has none.
func explainPod(p *corev1.Pod, namespace *corev1.Namespace) string {
	if isPart(p) {
		return fmt.Sprintf("%s of store %s, data center %s", p.Labels[plan.LabelComponent],
			p.Labels[plan.LabelInstance],
			p.Labels[plan.LabelDataCenter])
	}
	if of, ok := inject.SidecarOf(p); ok {
		return explainSidecar(p, of)
	}
	if p.Labels[inject.LabelInject] == "false" {
		return fmt.Sprintf("no sidecar: the pod has label %s=false", inject.LabelInject)
	}
	if note := p.Annotations[inject.AnnotationNotInjected]; note != "" {
		return "no sidecar: " + note
	}
	if name := namespace.Labels[inject.LabelInject]; name != "" {
		return fmt.Sprintf(
			"no sidecar: the webhook was not called, or did not answer, when the pod was created. The pod uses "+
				"the Service %s. "+
				"To get a sidecar, restart the pod once the store's condition InjectionReady is True", name)
	}
	return fmt.Sprintf("no sidecar: namespace %s has no label %s=<store>", namespace.Name, inject.LabelInject)
}

// explainSidecar describes the store of a pod's sidecar, and which names or addresses reach it.
func explainSidecar(p *corev1.Pod, of inject.Sidecar) string {
	text := fmt.Sprintf("sidecar of store %s/%s, data center %s, at %s:%d", of.Namespace, of.Store, of.DataCenter,
		inject.Address, plan.PortRedis)
	if i := slices.IndexFunc(p.Spec.HostAliases, func(a corev1.HostAlias) bool {
		return a.IP == inject.Address
	}); i >= 0 {
		text += "; these names resolve to it: " + strings.Join(p.Spec.HostAliases[i].Hostnames, " ")
	}
	if i := slices.IndexFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == inject.RedirectContainer
	}); i >= 0 {
		text += "; connections to these addresses are redirected to it:"
		for _, a := range p.Spec.InitContainers[i].Args {
			if from, ok := strings.CutPrefix(a, "--from="); ok {
				text += " " + from
			}
		}
	}
	for _, s := range p.Status.InitContainerStatuses {
		switch {
		case s.Name == inject.Container && (s.Started == nil || !*s.Started):
			text += "; not started yet"
		case s.Name == inject.RedirectContainer && s.State.Waiting != nil &&
			s.State.Waiting.Reason != "PodInitializing":
			text += fmt.Sprintf("; init container %s fails (%s): see its log", s.Name, s.State.Waiting.Reason)
		}
	}
	return text
}

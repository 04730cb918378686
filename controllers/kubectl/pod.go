package kubectl

import (
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// ExplainPod writes whether an app's pod has a sidecar, and which, or why not.
func ExplainPod(w io.Writer, p *corev1.Pod, namespace *corev1.Namespace) error {
	says := explanation(p, namespace)
	_, err := fmt.Fprintf(w, "%s/%s: %s\n", p.Namespace, p.Name, says)
	return err
}

func explanation(p *corev1.Pod, namespace *corev1.Namespace) string {
	if p.Labels[plan.LabelManagedBy] == plan.ManagedBy {
		return fmt.Sprintf("it is a %s of store %s, data centre %s", p.Labels[plan.LabelComponent], p.Labels[plan.LabelInstance],
			p.Labels[plan.LabelDataCenter])
	}
	store, dc, _ := strings.Cut(p.Annotations[inject.AnnotationInjected], "/")
	if store != "" {
		text := fmt.Sprintf("it has a sidecar of store %s, data centre %s, at %s:%d", store, dc, inject.Address, plan.PortRedis)
		if i := slices.IndexFunc(p.Spec.HostAliases, func(a corev1.HostAlias) bool { return a.IP == inject.Address }); i >= 0 {
			text += "; these names lead to it: " + strings.Join(p.Spec.HostAliases[i].Hostnames, " ")
		}
		for _, s := range p.Status.InitContainerStatuses {
			if s.Name == inject.Container && (s.Started == nil || !*s.Started) {
				text += "; it has not started yet"
			}
		}
		return text
	}
	if note := p.Annotations[inject.AnnotationNotInjected]; note != "" {
		return "it has no sidecar: " + note
	}
	if name := namespace.Labels[inject.LabelInject]; name != "" {
		return fmt.Sprintf("it has no sidecar: the webhook was not asked, or did not answer, when it was made; restart it if the store's condition InjectionReady is True. "+
			"Until then it uses the Service %s", name)
	}
	return fmt.Sprintf("it has no sidecar: namespace %s has no label %s=<store>", namespace.Name, inject.LabelInject)
}

package plan

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
)

// How an edge is replaced, in seconds. A new pod counts once it has been ready for edgeReadySeconds, so that load
// balancers know it. A pod that is to stop goes on for edgeDrainSeconds: it is no endpoint of the Services any more, so
// that new connections reach others. Those that are left then break, and the parts dial again.
const (
	edgeReadySeconds = 10
	edgeDrainSeconds = 30
)

func (b *builder) edgeSelector(dc *v1alpha1.DataCenter) map[string]string {
	return map[string]string{LabelInstance: b.store.Name, LabelDataCenter: dc.Name, LabelComponent: ComponentEdge}
}

// edgeBudget allows one pod of an edge to be evicted at a time, and those that are not ready always.
func (b *builder) edgeBudget(dc *v1alpha1.DataCenter) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: b.meta(EdgeName(b.store.Name, dc.Name),
		b.partLabels(dc, ComponentEdge)),
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr(intstr.FromInt32(1)),
			UnhealthyPodEvictionPolicy: ptr(policyv1.AlwaysAllow),
			Selector:                   &metav1.LabelSelector{MatchLabels: b.edgeSelector(dc)}}}
}

// edgeDeployment builds the Deployment of an edge. It has no state, so Kubernetes replaces its pods, each after a new
// one is ready. The bootstrap is the only file that Envoy does not watch.
func (b *builder) edgeDeployment(dc *v1alpha1.DataCenter, image, bootstrap string) *appsv1.Deployment {
	name, labels := EdgeName(b.store.Name, dc.Name), b.partLabels(dc, ComponentEdge)
	tls, _ := certificates("tls", certificatesName(b.store.Name, dc.Name, contract.RoleEdge))
	restart := struct{ Bootstrap, Restart string }{bootstrap, b.store.Annotations[AnnotationRestart]}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels,
			Annotations: map[string]string{annotationInputs: digest(restart)}},
		Spec: corev1.PodSpec{
			ServiceAccountName: b.store.Name, AutomountServiceAccountToken: ptr(false), EnableServiceLinks: ptr(false),
			TerminationGracePeriodSeconds: ptr(int64(edgeDrainSeconds + marginSeconds)),
			SecurityContext:               podSecurity(), ImagePullSecrets: b.pullSecrets(),
			Containers: []corev1.Container{edgeContainer(image, resourcesOr(dc.Edge.Resources, EdgeDemand()))},
			Volumes: []corev1.Volume{tls, {Name: "config",
				VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}},
		},
	}
	b.place(&template, dc, workload{component: ComponentEdge, zones: b.spec.ZonesOf(dc).Frontend})
	// Pods of before must not keep a new one from the node that suits it best.
	for i := range template.Spec.TopologySpreadConstraints {
		template.Spec.TopologySpreadConstraints[i].MatchLabelKeys = []string{appsv1.DefaultDeploymentUniqueLabelKey}
	}
	return &appsv1.Deployment{ObjectMeta: b.meta(name, labels), Spec: appsv1.DeploymentSpec{
		Replicas: &dc.Edge.Replicas, Selector: &metav1.LabelSelector{MatchLabels: b.edgeSelector(dc)},
		Template:        template,
		MinReadySeconds: edgeReadySeconds, RevisionHistoryLimit: ptr(int32(3)),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr(intstr.FromInt32(0)),
				MaxSurge: ptr(intstr.FromInt32(1))}},
	}}
}

// EdgeDemand lets Envoy use half as much again as it keeps its heap below.
func EdgeDemand() Demand {
	limit := resource.NewQuantity(edge.HeapBytes*3/2, resource.BinarySI)
	return Demand{CPU: "100m", Memory: "128Mi", MemoryLimit: limit.String()}
}

// edgeContainer builds the container of Envoy. A start may take a while: Envoy first looks up the names of all parts.
func edgeContainer(image string, r corev1.ResourceRequirements) corev1.Container {
	ready := func(period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready",
				Port: intstr.FromInt32(edge.PortHTTP)}},
			PeriodSeconds: period, TimeoutSeconds: 6, FailureThreshold: failures}
	}
	return corev1.Container{
		Name: "envoy", Image: image, Command: []string{"/usr/local/bin/envoy"},
		Args:      edge.Arguments(),
		Resources: r, SecurityContext: containerSecurity(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		StartupProbe:             ready(2, 60), ReadinessProbe: ready(2, 2), LivenessProbe: ready(10, 6),
		Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: edgeDrainSeconds}},
		},
		Ports: []corev1.ContainerPort{{Name: "egress", ContainerPort: edge.PortEgress},
			{Name: "egress-parts", ContainerPort: edge.PortEgressParts},
			{Name: "ingress", ContainerPort: edge.PortIngress}, {Name: "edge-http", ContainerPort: edge.PortHTTP}},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: edge.ConfigDir, ReadOnly: true},
			{Name: "tls", MountPath: edge.CertificateDir, ReadOnly: true}},
	}
}

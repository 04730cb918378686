package plan

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

func (b *builder) serviceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: b.meta(b.store.Name, b.labels()), AutomountServiceAccountToken: ptr(false)}
}

// storeService is the store's own: whoever has no sidecar comes here, and gets to a front in a coordinator's pod, near if
// there is one.
func (b *builder) storeService() *corev1.Service {
	s := b.service(b.store.Name, b.labels(), with(b.selector(), LabelComponent, ComponentCoordinator))
	s.Spec.TrafficDistribution = ptr(cmp.Or(b.in.SameZone, corev1.ServiceTrafficDistributionPreferClose))
	return s
}

// dataCenterService is for clients that choose their data centre.
func (b *builder) dataCenterService(dc *v1alpha1.DataCenter) *corev1.Service {
	return b.service(DataCenterName(b.store.Name, dc.Name), b.dcLabels(dc), map[string]string{
		LabelInstance: b.store.Name, LabelDataCenter: dc.Name, LabelComponent: ComponentCoordinator})
}

func (b *builder) selector() map[string]string {
	return map[string]string{LabelName: "causalstore", LabelInstance: b.store.Name}
}

func (b *builder) service(name string, labels, selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: b.meta(name, labels), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP,
		Selector: selector,
		Ports: []corev1.ServicePort{{Name: "redis", Port: PortRedis, Protocol: corev1.ProtocolTCP,
			TargetPort: intstr.FromString("redis")}}}}
}

// partsService gives every pod of a data centre a name, also before it is ready: parts need each other to become so.
func (b *builder) partsService(dc *v1alpha1.DataCenter) *corev1.Service {
	return &corev1.Service{ObjectMeta: b.meta(partsName(b.store.Name, dc.Name), b.dcLabels(dc)), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
		Selector: map[string]string{LabelInstance: b.store.Name, LabelDataCenter: dc.Name},
		Ports: []corev1.ServicePort{
			{Name: "parts", Port: PortParts, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(PortParts)},
			{Name: "http", Port: PortHTTP, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(PortHTTP)}},
	}}
}

// networkPolicies let in: to the parts and fronts, the pods of the store's namespace and of those that spec.access names, where
// sidecars are; to health and metrics, everybody, also who is no pod: the API server, by whose proxy people read them. The storage has
// no port at all.
func (b *builder) networkPolicies() []client.Object {
	clients := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	if n := b.spec.Access.Namespaces; n != nil {
		clients = append(clients, networkingv1.NetworkPolicyPeer{NamespaceSelector: n})
	}
	policy := func(name string, selector map[string]string, rules ...networkingv1.NetworkPolicyIngressRule) client.Object {
		return &networkingv1.NetworkPolicy{ObjectMeta: b.meta(name, b.labels()), Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selector}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: rules}}
	}
	return []client.Object{
		policy(b.store.Name+"-parts", b.selector(), ingress(clients, PortParts), ingress(nil, PortHTTP, PortFrontHTTP)),
		policy(b.store.Name+"-front", with(b.selector(), LabelComponent, ComponentCoordinator), ingress(clients, PortRedis)),
	}
}

func ingress(from []networkingv1.NetworkPolicyPeer, ports ...int32) networkingv1.NetworkPolicyIngressRule {
	rule := networkingv1.NetworkPolicyIngressRule{From: from}
	for _, p := range ports {
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Protocol: ptr(corev1.ProtocolTCP),
			Port: ptr(intstr.FromInt32(p))})
	}
	return rule
}

// disruptionBudgets let one pod of each component be evicted at a time, and always those that are not ready anyway: a node can
// be drained at any time. Coordinators that come or leave are not ready, perhaps for long, and must not count as the one that is away.
func (b *builder) disruptionBudgets(dc *v1alpha1.DataCenter) []client.Object {
	var all []client.Object
	for _, component := range []string{ComponentCoordinator, ComponentCache, ComponentShard} {
		if component == ComponentCache && dc.Caches.Replicas == 0 {
			continue
		}
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: b.meta(DataCenterName(b.store.Name, dc.Name)+"-"+component, b.partLabels(dc, component)),
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable:             ptr(intstr.FromInt32(1)),
				UnhealthyPodEvictionPolicy: ptr(policyv1.AlwaysAllow),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelInstance: b.store.Name,
					LabelDataCenter: dc.Name, LabelComponent: component}},
			},
		}
		if n := b.served(dc); component == ComponentCoordinator && n > 0 {
			budget.Spec.MaxUnavailable, budget.Spec.MinAvailable = nil, ptr(intstr.FromInt32(n-1))
		}
		all = append(all, budget)
	}
	return all
}

// served is how many coordinators of a data centre serve, while others come or leave; else 0.
func (b *builder) served(dc *v1alpha1.DataCenter) int32 {
	d, served := findDataCenter(&b.layout, dc.Name), b.record.Served[dc.Name]
	if d.CoordinatorsBefore == nil && served == *d.Coordinators {
		return 0
	}
	return int32(served)
}

package plan

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

func (b *builder) serviceAccount() *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: b.meta(b.store.Name, b.labels()), AutomountServiceAccountToken: ptr(false)}
	a.Annotations = addTo(nil, b.spec.ServiceAccount.Annotations)
	return a
}

// storeService is for clients without a sidecar. It leads to a front in the pod of a coordinator, in the zone of the
// client if there is one.
func (b *builder) storeService() *corev1.Service {
	s := b.service(b.store.Name, b.labels(), withLabel(b.selector(), LabelComponent, ComponentCoordinator))
	s.Spec.TrafficDistribution = ptr(cmp.Or(b.in.SameZone, corev1.ServiceTrafficDistributionPreferClose))
	return s
}

// dataCenterService is for clients that choose their data center.
func (b *builder) dataCenterService(dc *v1alpha1.DataCenter) *corev1.Service {
	return b.service(DataCenterName(b.store.Name, dc.Name), b.dcLabels(dc), map[string]string{
		LabelInstance: b.store.Name, LabelDataCenter: dc.Name, LabelComponent: ComponentCoordinator})
}

func (b *builder) selector() map[string]string {
	return map[string]string{LabelName: "causalstore", LabelInstance: b.store.Name}
}

func (b *builder) service(name string, labels, selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: b.meta(name, labels), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: selector, Ports: b.servicePorts()}}
}

// partsService gives every pod of a data center a DNS name, even before it is ready: parts need each other to become
// ready. It selects the pods of the edge as well, which have no ports of these names.
func (b *builder) partsService(dc *v1alpha1.DataCenter) *corev1.Service {
	return &corev1.Service{ObjectMeta: b.meta(partsName(b.store.Name, dc.Name), b.dcLabels(dc)),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Selector: map[string]string{LabelInstance: b.store.Name, LabelDataCenter: dc.Name},
			Ports: []corev1.ServicePort{
				{Name: "parts", Port: PortParts, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("parts")},
				{Name: "http", Port: PortHTTP, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")}},
		}}
}

// networkPolicies admit to the parts and fronts: pods of the store's namespace and of the namespaces that spec.access
// selects, where sidecars run. To health and metrics they admit everyone, including the API server, through whose proxy
// people read them. The storage has no port.
//
// Pods with a sidecar of the store are not admitted to the fronts. Their apps are to reach the sidecar; where they do
// not, for example because the kubelet is just rewriting /etc/hosts, the connection fails, instead of being a session
// of its own that nobody knows of.
func (b *builder) networkPolicies() []client.Object {
	clients := b.admitted()
	withoutSidecar := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: LabelSidecarOf, Operator: metav1.LabelSelectorOpNotIn, Values: []string{b.store.Name}}}}
	direct := []networkingv1.NetworkPolicyPeer{{PodSelector: withoutSidecar}}
	if n := b.spec.Access.Namespaces; n != nil {
		direct = append(direct, networkingv1.NetworkPolicyPeer{NamespaceSelector: n, PodSelector: withoutSidecar})
	}
	policy := func(name string, selector map[string]string,
		rules ...networkingv1.NetworkPolicyIngressRule) client.Object {
		return &networkingv1.NetworkPolicy{ObjectMeta: b.meta(name, b.labels()), Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selector}, Ingress: rules,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}}
	}
	if !b.spec.Clients.Front.IsEnabled() {
		return []client.Object{policy(b.store.Name+"-parts", b.selector(), ingress(clients, PortParts),
			ingress(nil, PortHTTP))}
	}
	return []client.Object{
		policy(b.store.Name+"-parts", b.selector(), ingress(clients, PortParts), ingress(nil, PortHTTP, PortFrontHTTP)),
		policy(b.store.Name+"-front", withLabel(b.selector(), LabelComponent, ComponentCoordinator),
			b.admitClients(direct)),
	}
}

// admitted returns the pods that may dial parts: those of the store's namespace, edges among them, and of the
// namespaces with sidecars.
func (b *builder) admitted() []networkingv1.NetworkPolicyPeer {
	all := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	if n := b.spec.Access.Namespaces; n != nil {
		all = append(all, networkingv1.NetworkPolicyPeer{NamespaceSelector: n})
	}
	return all
}

func ingress(from []networkingv1.NetworkPolicyPeer, ports ...int32) networkingv1.NetworkPolicyIngressRule {
	rule := networkingv1.NetworkPolicyIngressRule{From: from}
	for _, p := range ports {
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Protocol: ptr(corev1.ProtocolTCP),
			Port: ptr(intstr.FromInt32(p))})
	}
	return rule
}

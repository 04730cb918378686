package plan

import (
	"cmp"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/edge"
)

// egressService is what the parts of a data center and its sidecars dial, each at a port of their own. They try again
// by themselves.
func (b *builder) egressService(dc *v1alpha1.DataCenter) *corev1.Service {
	port := func(name string, port int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: port, Protocol: corev1.ProtocolTCP,
			TargetPort: intstr.FromInt32(port)}
	}
	return &corev1.Service{ObjectMeta: b.meta(EdgeName(b.store.Name, dc.Name), b.partLabels(dc, ComponentEdge)),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: b.edgeSelector(dc),
			Ports: []corev1.ServicePort{port("egress", edge.PortEgress), port("egress-parts", edge.PortEgressParts)}}}
}

// ingressService is what the edges of other regions connect to.
func (b *builder) ingressService(dc *v1alpha1.DataCenter) (*corev1.Service, error) {
	in := &dc.Edge.Service
	port, err := ingressPort(dc.Edge)
	if err != nil {
		return nil, fmt.Errorf("edge.address of %s: %w", dc.Name, err)
	}
	s := &corev1.Service{ObjectMeta: b.meta(IngressName(b.store.Name, dc.Name), b.partLabels(dc, ComponentEdge)),
		Spec: corev1.ServiceSpec{
			Type: in.Type, Selector: b.edgeSelector(dc),
			Ports: []corev1.ServicePort{{Name: "ingress", Port: port, NodePort: in.NodePort,
				Protocol:   corev1.ProtocolTCP,
				TargetPort: intstr.FromInt32(edge.PortIngress)}}}}
	s.Annotations = addTo(nil, in.Annotations)
	if in.LoadBalancerClass != "" {
		s.Spec.LoadBalancerClass = &in.LoadBalancerClass
	}
	return s, nil
}

// ingressPort returns the port of the Service that the edges of other regions connect to.
func ingressPort(e *v1alpha1.Edge) (int32, error) {
	if e.Service.Port != 0 {
		return e.Service.Port, nil
	}
	_, port, err := net.SplitHostPort(e.Address)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return int32(n), err
}

// edgePolicy admits to the egress for sidecars who is admitted to the parts: they dial both. Neither asks for a
// certificate first, so the egress for the store's own parts admits no other pods. The ingress asks everyone for a
// certificate of an edge of the store. Health and metrics are for everyone, as those of parts are.
func (b *builder) edgePolicy(dc *v1alpha1.DataCenter) *networkingv1.NetworkPolicy {
	parts := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{LabelInstance: b.store.Name, LabelDataCenter: dc.Name},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: LabelComponent, Operator: metav1.LabelSelectorOpIn,
			Values: []string{ComponentCoordinator, ComponentShard, ComponentCache}}}}}}
	return &networkingv1.NetworkPolicy{ObjectMeta: b.meta(EdgeName(b.store.Name, dc.Name),
		b.partLabels(dc, ComponentEdge)),
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: b.edgeSelector(dc)},
			Ingress: []networkingv1.NetworkPolicyIngressRule{ingress(b.admitted(), edge.PortEgress),
				ingress(parts, edge.PortEgressParts),
				ingress(nil, edge.PortIngress, edge.PortHTTP)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}}
}

// EdgeAddress returns the address that the Service for other regions has been given, or "" if it has none.
func EdgeAddress(s *corev1.Service) string {
	if len(s.Spec.Ports) == 0 {
		return ""
	}
	port := s.Spec.Ports[0]
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		if port.NodePort == 0 {
			return ""
		}
		return fmt.Sprintf(":%d", port.NodePort)
	case corev1.ServiceTypeLoadBalancer:
		for _, is := range s.Status.LoadBalancer.Ingress {
			if host := cmp.Or(is.Hostname, is.IP); host != "" {
				return net.JoinHostPort(host, strconv.Itoa(int(port.Port)))
			}
		}
		return ""
	}
	if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return ""
	}
	return net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(port.Port)))
}

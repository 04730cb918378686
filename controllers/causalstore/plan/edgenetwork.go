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

// egressService is what the parts of a data center dial. A part tries again by itself.
func (b *builder) egressService(dc *v1alpha1.DataCenter) *corev1.Service {
	return &corev1.Service{ObjectMeta: b.meta(EdgeName(b.store.Name, dc.Name), b.partLabels(dc, ComponentEdge)), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: b.edgeSelector(dc),
		Ports: []corev1.ServicePort{{Name: "egress", Port: edge.PortEgress, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(edge.PortEgress)}}}}
}

// ingressService is what the edges of other regions connect to.
func (b *builder) ingressService(dc *v1alpha1.DataCenter) (*corev1.Service, error) {
	in := &dc.Edge.Service
	port, err := ingressPort(dc.Edge)
	if err != nil {
		return nil, fmt.Errorf("edge.address of %s: %w", dc.Name, err)
	}
	s := &corev1.Service{ObjectMeta: b.meta(IngressName(b.store.Name, dc.Name), b.partLabels(dc, ComponentEdge)), Spec: corev1.ServiceSpec{
		Type: in.Type, Selector: b.edgeSelector(dc),
		Ports: []corev1.ServicePort{{Name: "ingress", Port: port, NodePort: in.NodePort, Protocol: corev1.ProtocolTCP,
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

// edgePolicy admits to the egress who is admitted to the parts: sidecars dial through it as well. The ingress asks everyone for a
// certificate of an edge of the store. Health and metrics are for everyone, as those of parts are.
func (b *builder) edgePolicy(dc *v1alpha1.DataCenter) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: b.meta(EdgeName(b.store.Name, dc.Name), b.partLabels(dc, ComponentEdge)),
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: b.edgeSelector(dc)},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{ingress(b.admitted(), edge.PortEgress), ingress(nil, edge.PortIngress, edge.PortHTTP)},
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

//go:build linux

// Package policy enforces NetworkPolicies on a node of the test bed: it translates them into an nft script for the pods
// of the node, and keeps the node's rules current.
//
// The rules see what the node forwards: traffic of its pods with everything but the node itself, which is always
// allowed, as kubelet's probes must be. They judge a connection when it opens; whatever belongs to it then passes, also
// when a policy changes. A refused connection gets no answer. IPv4 only, as the test bed. Pods on the node's own
// network are not subject to policies, and no selector matches them.
package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Cluster is what the rules of a node depend on.
type Cluster struct {
	Pods       []*corev1.Pod
	Namespaces []*corev1.Namespace
	Policies   []*networkingv1.NetworkPolicy
}

// Render returns the nft script that replaces the rules of a node. Equal clusters have equal scripts, whatever their
// order.
func Render(node string, c Cluster) (string, error) {
	r := newRenderer(c)
	var jumps, chains strings.Builder
	for _, p := range r.pods {
		if p.Spec.NodeName != node {
			continue
		}
		for _, d := range []direction{egress, ingress} {
			body, isolated := r.rulesOf(p, d)
			if !isolated {
				continue
			}
			// Names of chains are limited to 127 bytes.
			chain := fmt.Sprintf("%s-%s/%.40s-%.8s", d.name, p.Namespace, p.Name, p.UID)
			fmt.Fprintf(&jumps, "\t\tip %s %s jump %s\n", d.own, p.Status.PodIP, chain)
			fmt.Fprintf(&chains, "\tchain %s {\n%s\t}\n", chain, body)
		}
	}
	script := "table ip policies\ndelete table ip policies\ntable ip policies {\n" + chains.String() +
		"\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n\t\tct state " +
		"established,related accept\n" +
		jumps.String() + "\t}\n}\n"
	return script, errors.Join(r.errs...)
}

// direction says which address of a packet is that of the pod with the policy, and which that of its peer.
type direction struct {
	name, own, peer string
	kind            networkingv1.PolicyType
}

var (
	ingress = direction{"ingress", "daddr", "saddr", networkingv1.PolicyTypeIngress}
	egress  = direction{"egress", "saddr", "daddr", networkingv1.PolicyTypeEgress}
)

// rule is a rule of a policy, of either direction.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

type renderer struct {
	pods       []*corev1.Pod // those with an address of their own
	policies   []*networkingv1.NetworkPolicy
	namespaces map[string]labels.Set
	errs       []error
}

func newRenderer(c Cluster) *renderer {
	r := &renderer{namespaces: map[string]labels.Set{}, policies: slices.Clone(c.Policies)}
	for _, n := range c.Namespaces {
		r.namespaces[n.Name] = n.Labels
	}
	for _, p := range c.Pods {
		// others may have its address
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.Status.PodIP != "" && !p.Spec.HostNetwork && !ended {
			r.pods = append(r.pods, p)
		}
	}
	slices.SortFunc(r.pods, func(a, b *corev1.Pod) int { return byName(a, b) })
	slices.SortFunc(r.policies, func(a, b *networkingv1.NetworkPolicy) int { return byName(a, b) })
	return r
}

func byName(a, b metav1.Object) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
}

// rulesOf returns the rules of a pod's chain in one direction. A pod without a policy for that direction is not
// isolated.
func (r *renderer) rulesOf(p *corev1.Pod, d direction) (body string, isolated bool) {
	lines := []string{fmt.Sprintf("ip %s %s return", d.peer, p.Status.PodIP)} // a pod always reaches itself
	for _, policy := range r.policies {
		if policy.Namespace != p.Namespace || !applies(policy, d) || !r.matches(&policy.Spec.PodSelector, p.Labels) {
			continue
		}
		isolated = true
		for _, rule := range rulesIn(policy, d) {
			for _, line := range r.translate(rule, policy.Namespace, p, d) {
				if !slices.Contains(lines, line) {
					lines = append(lines, line)
				}
			}
		}
	}
	lines = append(lines, "counter drop")
	return "\t\t" + strings.Join(lines, "\n\t\t") + "\n", isolated
}

// applies reports whether a policy is about a direction. Types that are not set default to ingress, and to egress if
// there are rules.
func applies(p *networkingv1.NetworkPolicy, d direction) bool {
	if len(p.Spec.PolicyTypes) > 0 {
		return slices.Contains(p.Spec.PolicyTypes, d.kind)
	}
	return d == ingress || len(p.Spec.Egress) > 0
}

func rulesIn(p *networkingv1.NetworkPolicy, d direction) []rule {
	var rules []rule
	if d == ingress {
		for _, r := range p.Spec.Ingress {
			rules = append(rules, rule{r.From, r.Ports})
		}
		return rules
	}
	for _, r := range p.Spec.Egress {
		rules = append(rules, rule{r.To, r.Ports})
	}
	return rules
}

// translate returns the lines that allow what a rule of a policy allows to a pod.
func (r *renderer) translate(rule rule, namespace string, own *corev1.Pod, d direction) []string {
	var lines []string
	if len(rule.ports) == 0 {
		for _, peer := range r.peers(rule, namespace, d, nil) {
			lines = append(lines, peer+"return")
		}
		return lines
	}
	for _, port := range rule.ports {
		lines = append(lines, r.translatePort(rule, port, namespace, own, d)...)
	}
	return lines
}

func (r *renderer) translatePort(rule rule, port networkingv1.NetworkPolicyPort, namespace string, own *corev1.Pod,
	d direction) []string {
	protocol := corev1.ProtocolTCP
	if port.Protocol != nil {
		protocol = *port.Protocol
	}
	var lines []string
	allow := func(match string, receivers func(*corev1.Pod) bool) {
		for _, peer := range r.peers(rule, namespace, d, receivers) {
			lines = append(lines, peer+match+" return")
		}
	}
	switch proto := strings.ToLower(string(protocol)); {
	case port.Port == nil:
		allow("meta l4proto "+proto, nil)
	case port.Port.StrVal == "" && port.EndPort != nil:
		allow(fmt.Sprintf("%s dport %d-%d", proto, port.Port.IntVal, *port.EndPort), nil)
	case port.Port.StrVal == "":
		allow(fmt.Sprintf("%s dport %d", proto, port.Port.IntVal), nil)
	case d == ingress: // the name is one of the pod's own ports
		if number := namedPort(own, protocol, port.Port.StrVal); number != 0 {
			allow(fmt.Sprintf("%s dport %d", proto, number), nil)
		}
	default: // it is a port of the peer, with a number for each
		for _, number := range r.numbers(protocol, port.Port.StrVal) {
			allow(fmt.Sprintf("%s dport %d", proto, number), func(p *corev1.Pod) bool {
				return namedPort(p, protocol, port.Port.StrVal) == number
			})
		}
	}
	return lines
}

// peers returns matches of the peers of a rule, each ending in a space unless it is empty. A filter restricts them to
// certain pods.
func (r *renderer) peers(rule rule, namespace string, d direction, filter func(*corev1.Pod) bool) []string {
	if len(rule.peers) == 0 && filter == nil {
		return []string{""}
	}
	var matches, addresses []string
	for _, p := range r.pods {
		chosen := len(rule.peers) == 0
		for i := range rule.peers {
			chosen = chosen || r.selects(&rule.peers[i], namespace, p)
		}
		if chosen && (filter == nil || filter(p)) && !slices.Contains(addresses, p.Status.PodIP) {
			addresses = append(addresses, p.Status.PodIP)
		}
	}
	if len(addresses) > 0 {
		slices.Sort(addresses)
		matches = append(matches, fmt.Sprintf("ip %s { %s } ", d.peer, strings.Join(addresses, ", ")))
	}
	for _, p := range rule.peers {
		if b := p.IPBlock; b != nil && filter == nil && !strings.Contains(b.CIDR, ":") {
			match := fmt.Sprintf("ip %s %s ", d.peer, b.CIDR)
			for _, except := range b.Except {
				match += fmt.Sprintf("ip %s != %s ", d.peer, except)
			}
			matches = append(matches, match)
		}
	}
	return matches
}

// selects reports whether the selectors of a peer match a pod. Without one for namespaces, they are about that of the
// policy.
func (r *renderer) selects(peer *networkingv1.NetworkPolicyPeer, namespace string, p *corev1.Pod) bool {
	switch {
	case peer.IPBlock != nil:
		return false
	case peer.NamespaceSelector == nil && p.Namespace != namespace:
		return false
	case peer.NamespaceSelector != nil && !r.matches(peer.NamespaceSelector, r.namespaces[p.Namespace]):
		return false
	}
	return peer.PodSelector == nil || r.matches(peer.PodSelector, p.Labels)
}

func (r *renderer) matches(s *metav1.LabelSelector, set labels.Set) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("translate a label selector: %w", err))
		return false
	}
	return selector.Matches(set)
}

// numbers returns the numbers that a named port has in the cluster's pods.
func (r *renderer) numbers(protocol corev1.Protocol, name string) []int32 {
	var numbers []int32
	for _, p := range r.pods {
		if n := namedPort(p, protocol, name); n != 0 && !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// namedPort returns the number of a pod's named port, or 0 if it has none of that name.
func namedPort(p *corev1.Pod, protocol corev1.Protocol, name string) int32 {
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for _, c := range containers {
			for _, port := range c.Ports {
				if port.Name == name && cmp.Or(port.Protocol, corev1.ProtocolTCP) == protocol {
					return port.ContainerPort
				}
			}
		}
	}
	return 0
}

package v1alpha1

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

var (
	qualifiedKey = regexp.MustCompile(
		`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)
	// reservedKey matches what the operator sets on pods, and what Kubernetes sets on those of StatefulSets. Services,
	// budgets and the operator find pods by it.
	reservedKey = regexp.MustCompile(
		`^((([a-z0-9-]+[.])*causalstore[.]io|apps[.]kubernetes[.]io|statefulset[.]kubernetes[.]io)/|(app[.]kubernetes[.]io/(name|instance|component|managed-by)|kubectl[.]kubernetes[.]io/default-container|controller-revision-hash|pod-template-hash)$)`)
	number = regexp.MustCompile(`^[0-9]+$`)
)

func (s *PodSettings) validate(p *problems) {
	validateKeys(p, "labels", keysOf(s.Labels))
	validateReserved(p, "labels", keysOf(s.Labels))
	s.Annotations.validate(p)
	validateKeys(p, "nodeSelector", keysOf(s.NodeSelector))
	for _, r := range s.NodeAffinity {
		p.require(r.hasItsValues(),
			"nodeAffinity: %s has the wrong values for operator %s; In and NotIn need values, Gt and Lt one number, "+
				"Exists and DoesNotExist none", r.Key, r.Operator)
	}
	for _, t := range s.Tolerations {
		exists := t.Operator == corev1.TolerationOpExists
		p.require((t.Key != "" || exists) && (!exists || t.Value == ""),
			"tolerations: a toleration without a key needs operator Exists, and operator Exists has no value; add "+
				"the key, or remove the value")
		p.require(t.TolerationSeconds == nil || t.Effect == corev1.TaintEffectNoExecute,
			"tolerations: tolerationSeconds needs effect NoExecute; set the effect, or remove it")
	}
}

func (a Annotations) validate(p *problems) {
	validateKeys(p, "annotations", keysOf(a))
	validateReserved(p, "annotations", keysOf(a))
}

func validateKeys(p *problems, field string, keys []string) {
	for _, k := range keys {
		p.require(qualifiedKey.MatchString(k),
			"%s: %s is not a valid key; use letters, digits, hyphens, underscores and dots, such as team or "+
				"example.com/team", field, k)
	}
}

func validateReserved(p *problems, field string, keys []string) {
	for _, k := range keys {
		p.require(!reservedKey.MatchString(k), "%s: %s is set by the operator or by Kubernetes; remove it", field, k)
	}
}

// hasItsValues reports whether the values suit the operator.
func (r *NodeRequirement) hasItsValues() bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		return len(r.Values) > 0
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		return len(r.Values) == 1 && number.MatchString(string(r.Values[0]))
	}
	return len(r.Values) == 0
}

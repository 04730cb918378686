package v1alpha1

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// PodSettings are settings of the pods of a store, or of one data center. A data center adds its labels, annotations
// and node selector to those of the store, and its value wins where both have a key. Any other field that it sets
// replaces that of the store.
type PodSettings struct {
	// PriorityClassName is the PriorityClass of the pods. It must exist in the cluster.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// Labels of the pods, beside those that the operator sets, which cannot be changed.
	//
	// +optional
	Labels Labels `json:"labels,omitempty"`
	// Annotations of the pods, beside those that the operator sets, which cannot be changed.
	//
	// +optional
	Annotations Annotations `json:"annotations,omitempty"`
	// NodeSelector lists labels that nodes must have, in addition to their zone.
	//
	// +optional
	NodeSelector NodeSelector `json:"nodeSelector,omitempty"`
	// NodeAffinity lists more that the labels of nodes must meet, all of it, in addition to their zone.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	NodeAffinity []NodeRequirement `json:"nodeAffinity,omitempty"`
	// Tolerations of the pods.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// TopologySpreadConstraints spread the pods of each kind (coordinators, caches, shards) of a data center over
	// nodes. Default: over zones and hosts, as far as possible.
	//
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +kubebuilder:validation:MaxItems=4
	TopologySpreadConstraints []SpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}

// Labels are labels of pods.
//
// +kubebuilder:validation:MaxProperties=16
// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$'))",messageExpression="'labels: ' + self.filter(k, !k.matches('^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$'))[0] + ' is not a valid key; use letters, digits, hyphens, underscores and dots, such as team or example.com/team'",message="labels: a key is not valid; use letters, digits, hyphens, underscores and dots, such as team or example.com/team"
// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.matches('^((([a-z0-9-]+[.])*causalstore[.]io|apps[.]kubernetes[.]io|statefulset[.]kubernetes[.]io)/|(app[.]kubernetes[.]io/(name|instance|component|managed-by)|kubectl[.]kubernetes[.]io/default-container|controller-revision-hash|pod-template-hash)$)'))",messageExpression="'labels: ' + self.filter(k, k.matches('^((([a-z0-9-]+[.])*causalstore[.]io|apps[.]kubernetes[.]io|statefulset[.]kubernetes[.]io)/|(app[.]kubernetes[.]io/(name|instance|component|managed-by)|kubectl[.]kubernetes[.]io/default-container|controller-revision-hash|pod-template-hash)$)'))[0] + ' is set by the operator or by Kubernetes; remove it'",message="labels: a key is set by the operator or by Kubernetes; remove it"
type Labels map[string]LabelValue

// Annotations are annotations of pods, of a ServiceAccount or of a Service.
//
// +kubebuilder:validation:MaxProperties=16
// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$'))",messageExpression="'annotations: ' + self.filter(k, !k.matches('^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$'))[0] + ' is not a valid key; use letters, digits, hyphens, underscores and dots, such as team or example.com/team'",message="annotations: a key is not valid; use letters, digits, hyphens, underscores and dots, such as team or example.com/team"
// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.matches('^((([a-z0-9-]+[.])*causalstore[.]io|apps[.]kubernetes[.]io|statefulset[.]kubernetes[.]io)/|(app[.]kubernetes[.]io/(name|instance|component|managed-by)|kubectl[.]kubernetes[.]io/default-container|controller-revision-hash|pod-template-hash)$)'))",messageExpression="'annotations: ' + self.filter(k, k.matches('^((([a-z0-9-]+[.])*causalstore[.]io|apps[.]kubernetes[.]io|statefulset[.]kubernetes[.]io)/|(app[.]kubernetes[.]io/(name|instance|component|managed-by)|kubectl[.]kubernetes[.]io/default-container|controller-revision-hash|pod-template-hash)$)'))[0] + ' is set by the operator or by Kubernetes; remove it'",message="annotations: a key is set by the operator or by Kubernetes; remove it"
type Annotations map[string]AnnotationValue

// NodeSelector lists labels that nodes must have.
//
// +kubebuilder:validation:MaxProperties=16
// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$'))",messageExpression="'nodeSelector: ' + self.filter(k, !k.matches('^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$'))[0] + ' is not a valid key; use letters, digits, hyphens, underscores and dots, such as team or example.com/team'",message="nodeSelector: a key is not valid; use letters, digits, hyphens, underscores and dots, such as team or example.com/team"
type NodeSelector map[string]LabelValue

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$`
type LabelValue string

// AnnotationValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=2048
type AnnotationValue string

// LabelKey is the key of a label.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`
type LabelKey string

// NodeRequirement is a requirement on a label of nodes, as in the matchExpressions of a node affinity.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : self.operator in ['Gt', 'Lt'] ? has(self.values) && size(self.values) == 1 && self.values[0].matches('^[0-9]+$') : !has(self.values) || size(self.values) == 0",messageExpression="'nodeAffinity: ' + self.key + ' has the wrong values for operator ' + self.operator + '; In and NotIn need values, Gt and Lt one number, Exists and DoesNotExist none'",message="nodeAffinity: wrong values for the operator; In and NotIn need values, Gt and Lt one number, Exists and DoesNotExist none"
type NodeRequirement struct {
	// Key of the label.
	//
	// +required
	Key LabelKey `json:"key"`
	// Operator is In, NotIn, Exists, DoesNotExist, Gt or Lt.
	//
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// Values of the label: one or more for In and NotIn, one number for Gt and Lt, none for the others.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Values []LabelValue `json:"values,omitempty"`
}

// Toleration lets pods run on nodes with a taint.
//
// +kubebuilder:validation:XValidation:rule="has(self.key) ? !has(self.operator) || self.operator != 'Exists' || !has(self.value) : has(self.operator) && self.operator == 'Exists' && !has(self.value)",message="tolerations: a toleration without a key needs operator Exists, and operator Exists has no value; add the key, or remove the value"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'",message="tolerations: tolerationSeconds needs effect NoExecute; set the effect, or remove it"
type Toleration struct {
	// Key of the taint. Without it, and with operator Exists, all taints are tolerated.
	//
	// +optional
	Key LabelKey `json:"key,omitempty"`
	// Operator is Equal (default) or Exists (any value).
	//
	// +optional
	// +kubebuilder:validation:Enum=Equal;Exists
	Operator corev1.TolerationOperator `json:"operator,omitempty"`
	// Value of the taint, for operator Equal.
	//
	// +optional
	Value LabelValue `json:"value,omitempty"`
	// Effect of the taint. Default: all of them.
	//
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect,omitempty"`
	// TolerationSeconds is how long a taint with the effect NoExecute is tolerated. Default: for ever.
	//
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// SpreadConstraint spreads pods over groups of nodes. The operator adds which pods count: those of the same kind and
// data center.
type SpreadConstraint struct {
	// TopologyKey is the node label that nodes of one group share, such as kubernetes.io/hostname.
	//
	// +required
	TopologyKey LabelKey `json:"topologyKey"`
	// MaxSkew is by how many pods groups may differ.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	MaxSkew int32 `json:"maxSkew,omitempty"`
	// WhenUnsatisfiable is ScheduleAnyway (default: the pod runs somewhere else) or DoNotSchedule (it waits).
	//
	// +optional
	// +kubebuilder:default=ScheduleAnyway
	// +kubebuilder:validation:Enum=ScheduleAnyway;DoNotSchedule
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable,omitempty"`
}

// ServiceAccount configures the ServiceAccount of the pods, which has no rights and whose token is not mounted.
type ServiceAccount struct {
	// Annotations of the ServiceAccount, such as the role that a cloud provider gives to its pods.
	//
	// +optional
	Annotations Annotations `json:"annotations,omitempty"`
}

// PodsOf returns the settings of the pods of a data center, with those of the store.
func (s *CausalStoreSpec) PodsOf(dc *DataCenter) PodSettings {
	p, own := *s.Pods.DeepCopy(), dc.Pods.DeepCopy()
	p.Labels, p.Annotations, p.NodeSelector = merge(p.Labels, own.Labels), merge(p.Annotations, own.Annotations),
		merge(p.NodeSelector, own.NodeSelector)
	if own.PriorityClassName != "" {
		p.PriorityClassName = own.PriorityClassName
	}
	if len(own.NodeAffinity) > 0 {
		p.NodeAffinity = own.NodeAffinity
	}
	if len(own.Tolerations) > 0 {
		p.Tolerations = own.Tolerations
	}
	if len(own.TopologySpreadConstraints) > 0 {
		p.TopologySpreadConstraints = own.TopologySpreadConstraints
	}
	return p
}

// merge adds the entries of b to those of a. It returns nil if there are none.
func merge[M ~map[string]V, V any](a, b M) M {
	if len(a)+len(b) == 0 {
		return nil
	}
	all := M{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

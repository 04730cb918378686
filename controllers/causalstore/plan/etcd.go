package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/etcd"
	"github.com/causalstore/causalstore/topology"
)

// The etcd of a data center is a StatefulSet that exists if coordinators or shards of this data center have several
// members, or have had. Package etcd has its configuration and certificates, and knows how a member starts.

// AnnotationNewEtcd on a store names a data center whose etcd has lost its data for good, and is to be founded again,
// empty. Coordinators notice that it is another one.
const AnnotationNewEtcd = "causalstore.io/new-etcd"

// annotationEtcdBundle on a pod of an etcd is the digest of the authorities that it accepts.
const annotationEtcdBundle = "causalstore.io/etcd-authority"

// HasEtcd reports whether the operator runs an etcd for a data center. Parts that have had several members still use
// it.
func (in *Observed) HasEtcd(dc *v1alpha1.DataCenter) bool {
	return dc.Region == in.Region && !dc.Etcd.IsExternal() &&
		slices.ContainsFunc(groupParts, func(part topology.Part) bool {
			return WantedMembers(&in.Store.Spec, dc, part) > 1 || in.usesRegister(dc.Name, part)
		})
}

// IsOfEtcd reports whether a pod, or another object, is of an etcd.
func IsOfEtcd(o client.Object) bool { return o.GetLabels()[LabelComponent] == ComponentEtcd }

// EtcdSecret is a Secret that the authority of an etcd fills.
type EtcdSecret struct {
	// Secret has no data.
	Secret *corev1.Secret
	// Certificates are those that it should have; the Secret of the authority itself has none.
	Certificates []etcd.Certificate
}

// EtcdSecrets are the Secrets of one etcd.
type EtcdSecrets struct {
	DataCenter                  string
	Authority, Members, Clients EtcdSecret
}

// All returns the three.
func (s *EtcdSecrets) All() []EtcdSecret { return []EtcdSecret{s.Authority, s.Members, s.Clients} }

// EtcdCertificates returns the Secrets of the etcds of this region.
func EtcdCertificates(in Observed) (all []EtcdSecrets) {
	b := &builder{in: in, store: in.Store, spec: &in.Store.Spec}
	for i := range b.spec.DataCenters {
		dc := &b.spec.DataCenters[i]
		if !in.HasEtcd(dc) {
			continue
		}
		secret := func(suffix string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: b.meta(EtcdName(b.store.Name, dc.Name)+suffix,
				b.partLabels(dc, ComponentEtcd)), Type: corev1.SecretTypeOpaque}
		}
		var hosts []string
		for n := range dc.Etcd.WithDefaults().Replicas {
			hosts = append(hosts, b.etcdHost(dc, n))
		}
		all = append(all, EtcdSecrets{DataCenter: dc.Name, Authority: EtcdSecret{Secret: secret("-authority")},
			Members: EtcdSecret{secret("-tls"), etcd.MemberCertificates(hosts)},
			Clients: EtcdSecret{secret("-client-tls"), etcd.ClientCertificates()}})
	}
	return all
}

// AcceptEtcdBundle reports whether all pods of an etcd run with a bundle, by its digest.
func (in *Observed) AcceptEtcdBundle(dc *v1alpha1.DataCenter, digest string) bool {
	n := int32(0)
	for i := range in.Pods {
		p := &in.Pods[i]
		if IsOfEtcd(p) && p.Labels[LabelDataCenter] == dc.Name && Ready(p) && p.DeletionTimestamp == nil &&
			p.Annotations[annotationEtcdBundle] == digest {
			n++
		}
	}
	return n == dc.Etcd.WithDefaults().Replicas
}

// etcd returns the objects of the etcd of a data center. Without an image it has everything but pods, and without an
// authority neither.
func (b *builder) etcd(dc *v1alpha1.DataCenter) ([]client.Object, error) {
	cluster := b.etcdCluster(dc)
	text, err := yaml.Marshal(cluster)
	if err != nil {
		return nil, fmt.Errorf("write the configuration of the etcd of %s: %w", dc.Name, err)
	}
	meta := b.meta(EtcdName(b.store.Name, dc.Name), b.partLabels(dc, ComponentEtcd))
	objects := []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{etcd.ClusterFile: string(text)}},
		b.etcdService(dc, meta), b.etcdPolicy(dc, meta),
	}
	image, bundle := b.etcdImage(dc), b.etcdBundle(dc)
	if image == "" || bundle == "" {
		return objects, nil
	}
	set := b.etcdSet(dc, image, bundle, cluster)
	if err := b.pinTemplate(set); err != nil {
		return nil, err
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta,
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr(intstr.FromInt32(1)),
			UnhealthyPodEvictionPolicy: ptr(policyv1.AlwaysAllow),
			Selector:                   &metav1.LabelSelector{MatchLabels: b.etcdSelector(dc)}}}
	return append(objects, budget, set), nil
}

// EtcdsWithoutImage says, of each data center that needs an etcd which the operator is to make, that there is no image
// for it. Coordinators and shards with several members do not start without.
func EtcdsWithoutImage(in *Observed) (all []string) {
	for i := range in.Store.Spec.DataCenters {
		dc := &in.Store.Spec.DataCenters[i]
		if !in.HasEtcd(dc) || cmp.Or(dc.Etcd.Image, in.EtcdImage) != "" ||
			findStatefulSet(in.StatefulSets, EtcdName(in.Store.Name, dc.Name)) != nil {
			continue
		}
		all = append(all,
			fmt.Sprintf(
				"data center %s: several members need an etcd, and there is no image for it: set "+
					"etcd.image.repository and etcd.image.tag of the "+
					"chart (the operator's flag --etcd-image), or dataCenters[].etcd.image; or name an etcd of your "+
					"own in dataCenters[].etcd.endpoints; or set coordinators.members and storage.replicas to 1",
				dc.Name))
	}
	return all
}

// etcdImage returns the image of the etcd of a data center. An operator that has none leaves a running etcd as it is.
func (b *builder) etcdImage(dc *v1alpha1.DataCenter) string {
	if image := cmp.Or(dc.Etcd.Image, b.in.EtcdImage); image != "" {
		return image
	}
	if s := findStatefulSet(b.in.StatefulSets, EtcdName(b.store.Name, dc.Name)); s != nil {
		return s.Spec.Template.Spec.Containers[0].Image
	}
	return ""
}

// etcdBundle returns the digest of the authorities that members are to accept. While they are not known, an etcd that
// runs goes on as it is.
func (b *builder) etcdBundle(dc *v1alpha1.DataCenter) string {
	if digest := b.in.EtcdBundles[dc.Name]; digest != "" {
		return digest
	}
	if s := findStatefulSet(b.in.StatefulSets, EtcdName(b.store.Name, dc.Name)); s != nil {
		return s.Spec.Template.Annotations[annotationEtcdBundle]
	}
	return ""
}

// etcdCluster is what the members are told. That the etcd has been founded is recorded, so that a member which finds no
// data knows that it has lost it.
func (b *builder) etcdCluster(dc *v1alpha1.DataCenter) etcd.Cluster {
	c := etcd.Cluster{Founded: b.record.Etcd[dc.Name], Config: etcd.NewConfig(b.record.ID + "-" + dc.Name)}
	for n := range dc.Etcd.WithDefaults().Replicas {
		url := func(port int) string { return fmt.Sprintf("https://%s:%d", b.etcdHost(dc, n), port) }
		c.Members = append(c.Members, etcd.Member{Name: EtcdPodName(b.store.Name, dc.Name, n),
			PeerURL: url(etcd.PortPeers), ClientURL: url(etcd.PortClients)})
	}
	return c
}

// etcdHost is the name of a pod of an etcd in DNS.
func (b *builder) etcdHost(dc *v1alpha1.DataCenter, n int32) string {
	return fmt.Sprintf("%s.%s.%s.svc", EtcdPodName(b.store.Name, dc.Name, n), EtcdName(b.store.Name, dc.Name),
		b.store.Namespace)
}

// countFounded returns the data centers whose etcd has once been whole.
func countFounded(in Observed) map[string]bool {
	var founded map[string]bool
	for i := range in.Store.Spec.DataCenters {
		dc := &in.Store.Spec.DataCenters[i]
		if !in.HasEtcd(dc) || in.Store.Annotations[AnnotationNewEtcd] == dc.Name {
			continue
		}
		ready := int32(0)
		for n := range dc.Etcd.WithDefaults().Replicas {
			if isReady(in.Pods, EtcdPodName(in.Store.Name, dc.Name, n)) {
				ready++
			}
		}
		if in.Record != nil && in.Record.Etcd[dc.Name] || publishedFounded(in, dc.Name) ||
			ready == dc.Etcd.WithDefaults().Replicas {
			if founded == nil {
				founded = map[string]bool{}
			}
			founded[dc.Name] = true
		}
	}
	return founded
}

// publishedFounded reports whether the members of an etcd have been told that it was founded: the record can be lost.
func publishedFounded(in Observed, dc string) bool {
	return slices.ContainsFunc(in.ConfigMaps, func(m corev1.ConfigMap) bool {
		if m.Name != EtcdName(in.Store.Name, dc) {
			return false
		}
		c, err := etcd.ParseCluster([]byte(m.Data[etcd.ClusterFile]))
		return err == nil && c.Founded
	})
}

func (b *builder) etcdSelector(dc *v1alpha1.DataCenter) map[string]string {
	return map[string]string{LabelInstance: b.store.Name, LabelDataCenter: dc.Name, LabelComponent: ComponentEtcd}
}

// etcdService gives every pod a DNS name, even before it is ready: members need each other to become ready.
func (b *builder) etcdService(dc *v1alpha1.DataCenter, meta metav1.ObjectMeta) *corev1.Service {
	port := func(name string, number int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, Protocol: corev1.ProtocolTCP,
			TargetPort: intstr.FromInt32(number)}
	}
	return &corev1.Service{ObjectMeta: meta,
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone,
			PublishNotReadyAddresses: true, Selector: b.etcdSelector(dc),
			Ports: []corev1.ServicePort{port("clients", etcd.PortClients), port("peers", etcd.PortPeers)}}}
}

// etcdPolicy admits the coordinators and shards of the data center, and the members themselves. Health and metrics are
// for everyone, as those of parts are.
func (b *builder) etcdPolicy(dc *v1alpha1.DataCenter, meta metav1.ObjectMeta) *networkingv1.NetworkPolicy {
	pods := func(component string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			LabelInstance: b.store.Name, LabelDataCenter: dc.Name, LabelComponent: component}}}
	}
	members := []networkingv1.NetworkPolicyPeer{pods(ComponentEtcd)}
	return &networkingv1.NetworkPolicy{ObjectMeta: meta,
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: b.etcdSelector(dc)},
			Ingress: []networkingv1.NetworkPolicyIngressRule{ingress(append(members, pods(ComponentCoordinator),
				pods(ComponentShard)), etcd.PortClients),
				ingress(members, etcd.PortPeers), ingress(nil, etcd.PortHTTP)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}}
}

// EtcdName is the name of the StatefulSet of a data center's etcd, of its Service, ConfigMap, budget and policy;
// EtcdPodName that of a pod.
func EtcdName(store, dc string) string { return DataCenterName(store, dc) + "-etcd" }
func EtcdPodName(store, dc string, n int32) string {
	return EtcdName(store, dc) + "-" + strconv.Itoa(int(n))
}

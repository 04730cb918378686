package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
)

// The edge of a data center is a Deployment of Envoy, through which its parts dial those of other regions (egress), and
// through which those of other regions reach its own (ingress). Package edge makes the configuration; Envoy watches its
// files, so that a change restarts nothing. Parts in one cluster dial each other directly.

// AnnotationEdge on a pod of an edge is the digest of the configuration that it was notified of, as AnnotationEpoch is
// the epoch.
const AnnotationEdge = "causalstore.io/edge-config"

// HasEdge reports whether a data center of this region has an edge: parts of some other data center cannot be dialed
// directly.
func (in *Observed) HasEdge(dc *v1alpha1.DataCenter) bool {
	return dc.Region == in.Region && dc.Edge != nil &&
		slices.ContainsFunc(in.Store.Spec.DataCenters, func(to v1alpha1.DataCenter) bool {
			return in.isBehindEdge(&to)
		})
}

// isBehindEdge reports whether the parts of a data center are dialed through edges: it is in another cluster.
func (in *Observed) isBehindEdge(dc *v1alpha1.DataCenter) bool {
	return dc.Region != in.Region && !in.Neighbors[dc.Name]
}

// EdgeOf returns the address at which the edges of this region connect to that of another data center, or "" if they do
// not.
func (in *Observed) EdgeOf(name string) string {
	i := slices.IndexFunc(in.Store.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool { return dc.Name == name })
	if i < 0 {
		return ""
	}
	dc := &in.Store.Spec.DataCenters[i]
	if dc.Edge == nil || !in.isBehindEdge(dc) {
		return ""
	}
	return dc.Edge.Address
}

// UntrustedPeers returns the data centers whose edges this region's have no connection to, because their authority is
// not known.
func (in *Observed) UntrustedPeers() (names []string) {
	for i := range in.Store.Spec.DataCenters {
		if dc := &in.Store.Spec.DataCenters[i]; in.isBehindEdge(dc) && in.Trust.Domains[dc.Region] == "" {
			names = append(names, dc.Name)
		}
	}
	return names
}

// KeepsEdges reports whether edges are neither planned nor deleted: while the authority of this region cannot be used,
// they go on with what they have.
func (in *Observed) KeepsEdges() bool { return in.Trust.Domains[in.Region] == "" }

// edgeImage returns the image of the edges: that of the operator. An operator that has none leaves a running edge as it
// is.
func (b *builder) edgeImage(dc *v1alpha1.DataCenter) string {
	if b.in.EdgeImage != "" {
		return b.in.EdgeImage
	}
	for _, d := range b.in.Deployments {
		if d.Name == EdgeName(b.store.Name, dc.Name) {
			return d.Spec.Template.Spec.Containers[0].Image
		}
	}
	return ""
}

// edge returns the objects of the edge of a data center. Without an image it has everything but pods.
func (b *builder) edge(dc *v1alpha1.DataCenter) ([]client.Object, error) {
	config, err := b.edgeConfigMap(dc)
	if err != nil {
		return nil, err
	}
	ingress, err := b.ingressService(dc)
	if err != nil {
		return nil, err
	}
	objects := []client.Object{config, b.egressService(dc), ingress, b.edgePolicy(dc)}
	if image := b.edgeImage(dc); image != "" {
		objects = append(objects, b.edgeBudget(dc), b.edgeDeployment(dc, image, config.Data[edge.BootstrapFile]))
	}
	return objects, nil
}

// edgeConfigMap holds the files of Envoy.
func (b *builder) edgeConfigMap(dc *v1alpha1.DataCenter) (*corev1.ConfigMap, error) {
	files, err := edge.Configure(b.edgeInput(dc))
	if err != nil {
		return nil, fmt.Errorf("configure the edge of %s: %w", dc.Name, err)
	}
	return &corev1.ConfigMap{ObjectMeta: b.meta(EdgeName(b.store.Name, dc.Name), b.partLabels(dc, ComponentEdge)),
		Data: files}, nil
}

// edgeInput lists the parts that the edge leads to, by the layout, and the edges that it connects to. A region that is
// not trusted is left out, so that the edge neither admits nor connects to those of its data centers.
func (b *builder) edgeInput(dc *v1alpha1.DataCenter) edge.Input {
	domain := b.in.Trust.Domains[b.in.Region]
	in := edge.Input{StoreID: b.record.ID, DataCenter: dc.Name, TrustDomain: domain, Bundle: b.in.Trust.Bundles[domain]}
	names, addresses := b.partNames(dc), b.podAddresses(dc)
	for _, of := range []struct{ names, addresses []string }{{names.Coordinators, addresses.Coordinators},
		{names.Middlemen, addresses.Middlemen},
		{names.Caches, addresses.Caches}} {
		for i, name := range of.names {
			host, _, err := net.SplitHostPort(name)
			if err != nil {
				panic(err) // unreachable: MemberAddress joins them
			}
			in.Parts = append(in.Parts, edge.Part{Name: host, Address: of.addresses[i]})
		}
	}
	for i := range b.spec.DataCenters {
		to := &b.spec.DataCenters[i]
		if domain := b.in.Trust.Domains[to.Region]; b.in.isBehindEdge(to) && domain != "" {
			in.Peers = append(in.Peers, edge.Peer{DataCenter: to.Name, Address: to.Edge.Address, TrustDomain: domain,
				Bundle: b.in.Trust.Bundles[domain]})
		}
	}
	return in
}

// partNames returns the addresses of the parts of a data center by which the edges of other regions know them.
func (b *builder) partNames(dc *v1alpha1.DataCenter) contract.Addresses {
	return b.partsOf(dc, func(role contract.Role, index, member int) string {
		return contract.MemberAddress(role, index, member, dc.Name, b.record.ID)
	})
}

// edgeVia returns the address of an egress of a data center: edge.PortEgress for sidecars, edge.PortEgressParts for the
// store's own pods.
func (b *builder) edgeVia(dc *v1alpha1.DataCenter, egress int) string {
	return net.JoinHostPort(fmt.Sprintf("%s.%s.svc", EdgeName(b.store.Name, dc.Name), b.store.Namespace),
		strconv.Itoa(egress))
}

// edgeDigest identifies the configuration of an edge.
func edgeDigest(files map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%d %s %d %s", len(name), name, len(files[name]), files[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// EdgeNotices returns the pods of edges that have not been notified of the configuration in their ConfigMap, with its
// digest. They are notified once it is there, as in TrustNotices.
func EdgeNotices(in Observed) map[string]string {
	digests := map[string]string{}
	for _, m := range in.ConfigMaps {
		if dc := m.Labels[LabelDataCenter]; m.Name == EdgeName(in.Store.Name, dc) {
			digests[dc] = edgeDigest(m.Data)
		}
	}
	notices := map[string]string{}
	for i := range in.EdgePods {
		p := &in.EdgePods[i]
		if d := digests[p.Labels[LabelDataCenter]]; d != "" && p.Annotations[AnnotationEdge] != d &&
			p.DeletionTimestamp == nil {
			notices[p.Name] = d
		}
	}
	return notices
}

// renewEdges returns the ConfigMaps of edges whose configuration is not the present one, as RenewTrust does for parts.
// The bootstrap stays: Envoy reads it at a start only.
func (b *builder) renewEdges() (all []*corev1.ConfigMap, err error) {
	for i := range b.spec.DataCenters {
		dc := &b.spec.DataCenters[i]
		is := slices.IndexFunc(b.in.ConfigMaps, func(m corev1.ConfigMap) bool {
			return m.Name == EdgeName(b.store.Name, dc.Name)
		})
		if is < 0 || !b.in.HasEdge(dc) {
			continue
		}
		m, err := b.edgeConfigMap(dc)
		if err != nil {
			return nil, err
		}
		m.Data[edge.BootstrapFile] = b.in.ConfigMaps[is].Data[edge.BootstrapFile]
		if !maps.Equal(m.Data, b.in.ConfigMaps[is].Data) {
			all = append(all, m)
		}
	}
	return all, nil
}

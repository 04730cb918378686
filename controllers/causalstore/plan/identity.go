package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
)

// Trust is what the operator knows of the authorities of regions.
type Trust struct {
	// Domains are the trust domains of the regions whose authority is known, Bundles the authorities by trust domain,
	// in PEM.
	Domains map[string]string
	Bundles map[string]string
}

// TrustFile is the key of contract.Trust in the ConfigMap of a data center, and the name of its file.
const TrustFile = "trust.yaml"

// SidecarCertificate is the name of the certificate of sidecars in its Secret. Those of other parts are named by their
// index.
const SidecarCertificate = "tls"

// edgeMember is the member in the identity of all pods of an edge, and the name of its certificate in its Secret.
const edgeMember = "0"

// The names of the Secrets with the certificates of a data center's parts, by their role.
func certificatesName(store, dc string, role contract.Role) string {
	return fmt.Sprintf("%s-%s-tls", DataCenterName(store, dc), role)
}

// SidecarCertificatesName is the name of the Secret with the certificate of the sidecars in a namespace; fronts use it
// too.
func SidecarCertificatesName(store, dc string) string {
	return certificatesName(store, dc, contract.RoleSidecar)
}

// trust returns whose certificates the parts of this region accept. A region that is not known is left out, so that
// parts refuse whoever speaks for its data centers.
func (b *builder) trust() contract.Trust {
	t := contract.Trust{StoreID: b.record.ID, DataCenters: map[string]string{}, Bundles: map[string]string{}}
	for _, dc := range b.spec.DataCenters {
		if domain := b.in.Trust.Domains[dc.Region]; domain != "" {
			t.DataCenters[dc.Name], t.Bundles[domain] = domain, b.in.Trust.Bundles[domain]
		}
	}
	return t
}

// storeID returns the id of the store. If nobody has set it, it is the UID of the store that was the first of that name
// on its volumes.
func (in Observed) storeID() string {
	recorded := ""
	if in.Record != nil {
		recorded = in.Record.ID
	}
	return cmp.Or(in.Store.Spec.ID, recorded, string(in.Store.UID))
}

// ForbiddenID returns why spec.id cannot be applied, or "".
func (r *Record) ForbiddenID(s *v1alpha1.CausalStoreSpec) string {
	if r == nil || r.ID == "" || s.ID == "" || s.ID == r.ID {
		return ""
	}
	return fmt.Sprintf(
		"spec.id: the store already has the id %s, which the certificates of its parts carry; set it to that, or "+
			"remove it", r.ID)
}

// publishedID returns the id of the store that its parts are configured with, or "".
func publishedID(in Observed, configs []corev1.ConfigMap) string {
	for _, m := range configs {
		if dc := m.Labels[LabelDataCenter]; !in.IsLocal(dc) || m.Name != DataCenterName(in.Store.Name, dc) {
			continue
		}
		if t, err := contract.ParseTrust([]byte(m.Data[TrustFile])); err == nil {
			return t.StoreID
		}
	}
	return ""
}

// CertificateSecret is a Secret with the certificates of the parts of one role in a data center.
type CertificateSecret struct {
	// Secret has no data.
	Secret *corev1.Secret
	// Identities are those that need a certificate, by its name in the Secret.
	Identities map[string]contract.Identity
}

// Certificates returns the Secrets with the certificates of the parts that the record tells to run in this region. They
// are needed before the pods, and must be renewed whatever else is wrong with the store.
func Certificates(in Observed, record Record) ([]CertificateSecret, error) {
	domain := in.Trust.Domains[in.Region]
	if domain == "" {
		return nil, nil
	}
	layout, err := record.LayoutFile()
	if err != nil || layout == nil {
		return nil, err
	}
	b := &builder{in: in, store: in.Store, spec: &in.Store.Spec, record: record, layout: *layout}
	var all []CertificateSecret
	for i := range b.spec.DataCenters {
		dc := &b.spec.DataCenters[i]
		if dc.Region != in.Region || findDataCenter(layout, dc.Name) == nil {
			continue
		}
		counts := b.counts(dc)
		for _, of := range []struct {
			role  contract.Role
			count int
		}{{contract.RoleCoordinator, counts.RunningCoordinators()}, {contract.RoleCache, int(dc.Caches.Replicas)},
			{contract.RoleMiddleman, counts.RunningMiddlemen()}} {
			s := b.certificateSecret(dc, of.role)
			for n := range of.count {
				s.Identities[strconv.Itoa(n)] = contract.Identity{TrustDomain: domain, StoreID: record.ID,
					DataCenter: dc.Name, Role: of.role,
					Member: strconv.Itoa(n)}
			}
			all = append(all, s)
		}
		if in.HasEdge(dc) { // its pods share one
			s := b.certificateSecret(dc, contract.RoleEdge)
			s.Identities[edgeMember] = contract.Identity{TrustDomain: domain, StoreID: record.ID, DataCenter: dc.Name,
				Role: contract.RoleEdge, Member: edgeMember}
			all = append(all, s)
		}
		s := b.certificateSecret(dc, contract.RoleSidecar)
		s.Identities[SidecarCertificate] = SidecarIdentity(domain, record.ID, dc.Name, b.store.Namespace)
		all = append(all, s)
	}
	return all, nil
}

func (b *builder) certificateSecret(dc *v1alpha1.DataCenter, role contract.Role) CertificateSecret {
	return CertificateSecret{
		Secret: &corev1.Secret{ObjectMeta: b.meta(certificatesName(b.store.Name, dc.Name, role), b.dcLabels(dc)),
			Type: corev1.SecretTypeOpaque}, Identities: map[string]contract.Identity{}}
}

// SidecarIdentity is the identity of the sidecars in a namespace, and of the fronts in the store's.
func SidecarIdentity(trustDomain, storeID, dc, namespace string) contract.Identity {
	return contract.Identity{TrustDomain: trustDomain, StoreID: storeID, DataCenter: dc, Role: contract.RoleSidecar,
		Member: namespace}
}

// AnnotationTrust on a pod is the digest of the trust file that it was notified of, as AnnotationEpoch is the epoch.
const AnnotationTrust = "causalstore.io/trust"

// TrustDigest identifies a trust file.
func TrustDigest(file string) string {
	sum := sha256.Sum256([]byte(file))
	return hex.EncodeToString(sum[:8])
}

// TrustNotices returns the pods that have not been notified of the trust file in the ConfigMap of their data center,
// with its digest. They are notified once the file is there: before, their kubelets would bring them the old one.
func TrustNotices(in Observed) map[string]string {
	digests := map[string]string{}
	for _, m := range in.ConfigMaps {
		if text := m.Data[TrustFile]; text != "" {
			digests[m.Labels[LabelDataCenter]] = TrustDigest(text)
		}
	}
	notices := map[string]string{}
	for i := range in.Pods {
		p := &in.Pods[i]
		if d := digests[p.Labels[LabelDataCenter]]; d != "" && !IsOfEtcd(p) && p.Annotations[AnnotationTrust] != d &&
			p.DeletionTimestamp == nil {
			notices[p.Name] = d
		}
	}
	return notices
}

// RenewTrust returns the ConfigMaps of this region's data centers and edges whose trust is not the present one, with
// nothing else changed: for a store to which the spec is not applied at the moment.
func RenewTrust(in Observed, record Record) ([]*corev1.ConfigMap, error) {
	layout, err := record.LayoutFile()
	if err != nil || layout == nil || in.Trust.Domains[in.Region] == "" {
		return nil, err
	}
	b := &builder{in: in, store: in.Store, spec: &in.Store.Spec, record: record, layout: *layout}
	all, err := b.renewEdges()
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(b.trust())
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", TrustFile, err)
	}
	for _, m := range in.ConfigMaps {
		for i := range b.spec.DataCenters {
			dc := &b.spec.DataCenters[i]
			if dc.Region != in.Region || m.Name != DataCenterName(b.store.Name, dc.Name) || m.Data[TrustFile] == "" ||
				m.Data[TrustFile] == string(text) {
				continue
			}
			data := maps.Clone(m.Data)
			data[TrustFile] = string(text)
			all = append(all, &corev1.ConfigMap{ObjectMeta: b.meta(m.Name, b.dcLabels(dc)), Data: data})
		}
	}
	return all, nil
}

package plan

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/etcd"
	"github.com/causalstore/causalstore/topology"
)

// The register of a data center's groups is an etcd, its own or that of somebody else. Coordinators get it before their
// groups get a second member, and so do shards, with a log. They keep it for ever: a group knows that there is one, and
// needs it to change, also with one member again. Coordinators and shards get it independently of each other.

// registerDir is the folder of the certificate of parts for their etcd.
const registerDir = "/etc/causalstore-etcd"

// usesRegister reports whether the coordinators, or the shards, of a data center of this region have been given a
// register.
func (in *Observed) usesRegister(dc string, part topology.Part) bool {
	return in.Record != nil && in.Record.registers(part)[dc]
}

// countRegisters returns the data centers of this region whose coordinators, or shards, have a register. Those that run
// get one once it has served: they restart for it.
func countRegisters(in Observed, part topology.Part, isNew bool) map[string]bool {
	var all map[string]bool
	for i := range in.Store.Spec.DataCenters {
		dc := &in.Store.Spec.DataCenters[i]
		wanted := WantedMembers(&in.Store.Spec, dc, part) > 1 &&
			(isNew || dc.Etcd.IsExternal() || in.Record != nil && in.Record.Etcd[dc.Name])
		if dc.Region == in.Region && (wanted || in.usesRegister(dc.Name, part)) {
			if all == nil {
				all = map[string]bool{}
			}
			all[dc.Name] = true
		}
	}
	return all
}

// publishedRegisters returns the data centers of this region of which a configuration file has a register: that of all
// parts, or that of shards.
func publishedRegisters(in Observed, configs []corev1.ConfigMap, file string) map[string]bool {
	var all map[string]bool
	for _, m := range configs {
		dc := m.Labels[LabelDataCenter]
		var c contract.Config
		if !in.IsLocal(dc) || m.Name != DataCenterName(in.Store.Name, dc) ||
			yaml.Unmarshal([]byte(m.Data[file]), &c) != nil || c.Register == nil {
			continue
		}
		if all == nil {
			all = map[string]bool{}
		}
		all[dc] = true
	}
	return all
}

// register returns the register of the coordinators or shards of a data center, or nil.
func (b *builder) register(dc *v1alpha1.DataCenter, part topology.Part) *contract.Register {
	if !b.record.registers(part)[dc.Name] {
		return nil
	}
	r := &contract.EtcdRegister{TLS: &contract.TLS{Cert: registerDir + "/" + etcd.ClientCertificate + ".crt",
		Key: registerDir + "/" + etcd.ClientCertificate + ".key", CA: registerDir + "/" + etcd.BundleFile}}
	if dc.Etcd.IsExternal() {
		for _, e := range dc.Etcd.Endpoints {
			r.Endpoints = append(r.Endpoints, strings.TrimPrefix(e, "https://"))
		}
		return &contract.Register{Etcd: r}
	}
	for n := range dc.Etcd.WithDefaults().Replicas {
		r.Endpoints = append(r.Endpoints, net.JoinHostPort(b.etcdHost(dc, n), strconv.Itoa(etcd.PortClients)))
	}
	return &contract.Register{Etcd: r}
}

// registerVolume returns the volume with the certificate for the etcd. It is optional for the kubelet: a group that is
// whole goes on without its register, so a missing Secret must not keep a member from starting.
func (b *builder) registerVolume(dc *v1alpha1.DataCenter) (corev1.Volume, corev1.VolumeMount) {
	secret := EtcdName(b.store.Name, dc.Name) + "-client-tls"
	if dc.Etcd.IsExternal() {
		secret = dc.Etcd.SecretName
	}
	v, mount := certificates("register", secret, etcd.ClientCertificate)
	v.Secret.Items = append(v.Secret.Items, corev1.KeyToPath{Key: etcd.BundleFile, Path: etcd.BundleFile})
	v.Secret.Optional, mount.MountPath = ptr(true), registerDir
	return v, mount
}

// ForbiddenEtcds returns why the etcd of coordinators or shards that use it cannot become another one, also if each has
// one member again.
func ForbiddenEtcds(in Observed, last *v1alpha1.CausalStoreSpec) (why []string) {
	for _, dc := range in.Store.Spec.DataCenters {
		i := slices.IndexFunc(last.DataCenters, func(was v1alpha1.DataCenter) bool { return was.Name == dc.Name })
		if i < 0 || dc.Coordinators.Members > 1 && last.DataCenters[i].Coordinators.Members > 1 {
			continue // the latter is a rule of the spec
		}
		for _, part := range groupParts {
			if !in.usesRegister(dc.Name, part) {
				continue
			}
			for _, text := range dc.Etcd.ValidateChange(last.DataCenters[i].Etcd) {
				why = append(why, fmt.Sprintf("%s (%s: its %s have had several members, and still use it)", text,
					dc.Name, namesOfGroups[part]))
			}
			break // one reason is enough
		}
	}
	return why
}

// eachMember calls f for every coordinator or middleman and each of its members, in the order of addresses.
func eachMember(counts topology.DataCenter, part topology.Part, f func(index, member int)) {
	n := counts.RunningCoordinators()
	if part == topology.Middleman {
		n = counts.RunningMiddlemen()
	}
	for i := range n {
		for m := range counts.Members(part) {
			f(i, m+1)
		}
	}
}

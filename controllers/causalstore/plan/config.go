package plan

import (
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
	"github.com/causalstore/causalstore/topology"
)

// Ports of the pods.
const (
	PortRedis     = contract.DefaultRedisPort
	PortParts     = contract.DefaultPartsPort
	PortHTTP      = contract.DefaultHTTPPort
	PortFrontHTTP = 7481
)

// Files and folders inside of containers. PartsFile is the key, in the ConfigMap of a data center, of the configuration
// of its parts, ShardsFile that of middlemen that keep a log, and SidecarFile that of injected sidecars.
const (
	PartsFile   = "causalstore.yaml"
	ShardsFile  = "shards.yaml"
	SidecarFile = "sidecar.yaml"
)

// The folders of injected sidecars with the files of a ConfigMap, and with a certificate: one for each data center that
// a sidecar may choose when it starts.
func SidecarConfigDir(dc string) string { return configDir + "/" + dc }
func sidecarTLSDir(dc string) string    { return tlsDir + "/" + dc }

const (
	configDir  = "/etc/causalstore"
	keysDir    = "/etc/causalstore-keys"
	tlsDir     = "/etc/causalstore-tls"
	dataDir    = "/data"
	logDir     = "/log"
	socketDir  = "/run/storage"
	frontFile  = "front.yaml"
	socketFile = socketDir + "/redis.sock"
)

// sessions returns the configuration of sessions. With scope DataCenter, reads are what that needs.
func sessions(s v1alpha1.Session) contract.Session {
	c := contract.Session{Scope: contract.Scope(s.Scope), Reads: string(s.Reads)}
	if s.Scope == v1alpha1.ScopeDataCenter {
		c.Reads = ""
	}
	return c
}

// configMap holds the configuration file of a data center's parts, that of the fronts in its coordinators' pods, and
// that of sidecars. A front serves many clients, which must not share a session, so each connection has one of its own.
// Running parts apply changes of addresses and counts (contract.AppliesLive).
func (b *builder) configMap(dc *v1alpha1.DataCenter) (*corev1.ConfigMap, error) {
	c := contract.Config{
		DataCenter: dc.Name, Topology: &b.layout, Addresses: b.addresses(dc, edge.PortEgressParts),
		Session: sessions(b.spec.Session),
		Binding: string(b.spec.Binding), Log: contract.Log{Format: contract.LogJSON},
	}
	trust := configDir + "/" + TrustFile
	c.TLS = &contract.LinkTLS{Cert: tlsDir + "/$INDEX.crt", Key: tlsDir + "/$INDEX.key", Trust: trust}
	front, sidecar := c, c
	front.TLS = &contract.LinkTLS{Cert: tlsDir + "/" + SidecarCertificate + ".crt",
		Key: tlsDir + "/" + SidecarCertificate + ".key", Trust: trust}
	sidecar.TLS = &contract.LinkTLS{Cert: sidecarTLSDir(dc.Name) + "/" + SidecarCertificate + ".crt",
		Key:   sidecarTLSDir(dc.Name) + "/" + SidecarCertificate + ".key",
		Trust: SidecarConfigDir(dc.Name) + "/" + TrustFile}
	if front.Session.Scope == contract.ScopeDataCenter {
		front.Session.PerConnection = true
	} else {
		front.Session.Scope = contract.ScopeConnection
	}
	if near := nearBytes(b.spec); near > 0 || b.spec.Session.Scope == v1alpha1.ScopeDataCenter {
		// What the default is depends on the scope.
		front.NearCopies.MaxBytes, sidecar.NearCopies.MaxBytes = &near, &near
	}
	sidecar.Addresses = b.addresses(dc, edge.PortEgress)
	c.DataDir, c.Storage, c.Limits, c.Register = dataDir, b.storageConfig(), limits(dc),
		b.register(dc, topology.Coordinator)
	files := map[string]contract.Config{PartsFile: c, frontFile: front, SidecarFile: sidecar}
	if r := b.register(dc, topology.Middleman); r != nil {
		shards, volume := c, b.spec.Storage.LogVolume().Size.Quantity()
		shards.DataDir, shards.Register, shards.Storage.Replicated = logDir, r, true
		shards.Limits.LogBytes = contract.Bytes(volume.Value() / 4 * 3)
		files[ShardsFile] = shards
	}
	data := map[string]string{}
	for name, file := range files {
		text, err := yaml.Marshal(file)
		if err != nil {
			return nil, fmt.Errorf("write %s of %s: %w", name, dc.Name, err)
		}
		data[name] = string(text)
	}
	if b.in.Trust.Domains[b.in.Region] != "" {
		text, err := yaml.Marshal(b.trust())
		if err != nil {
			return nil, fmt.Errorf("write %s of %s: %w", TrustFile, dc.Name, err)
		}
		data[TrustFile] = string(text)
	}
	return &corev1.ConfigMap{ObjectMeta: b.meta(DataCenterName(b.store.Name, dc.Name), b.dcLabels(dc)), Data: data}, nil
}

func (b *builder) storageConfig() contract.Storage {
	if b.spec.Storage.Engine == v1alpha1.EngineEmbedded {
		return contract.Storage{Engine: contract.EngineEmbedded, Embedded: contract.EmbeddedStorage{Dir: dataDir}}
	}
	return contract.Storage{Engine: contract.EngineRedis,
		Redis: contract.RedisStorage{Socket: socketFile, Username: storageUser,
			PasswordFile: keysDir + "/" + keyStorage}}
}

// limits gives a log three quarters of its volume, and a cache three quarters of its memory.
func limits(dc *v1alpha1.DataCenter) contract.Limits {
	volume, memory := dc.Coordinators.Volume.Size.Quantity(), dc.Caches.Memory.Quantity()
	return contract.Limits{LogBytes: contract.Bytes(volume.Value() / 4 * 3),
		CacheBytes: contract.Bytes(memory.Value() / 4 * 3)}
}

// nearBytes returns what bounds the near copies of each sidecar and front, in bytes; 0: there are none.
func nearBytes(s *v1alpha1.CausalStoreSpec) contract.Bytes {
	if s.NearCopies != nil {
		most := s.NearCopies.MaxBytes.Quantity()
		return contract.Bytes(most.Value())
	}
	return contract.Scope(s.Session.Scope).NearBytes(true)
}

// addresses returns the addresses by which the processes of one data center dial the parts of all: names of pods in
// this cluster, or names of parts, which an egress of their own data center knows.
func (b *builder) addresses(from *v1alpha1.DataCenter, egress int) map[string]contract.Addresses {
	all := map[string]contract.Addresses{}
	for i := range b.spec.DataCenters {
		to := &b.spec.DataCenters[i]
		if !b.in.isBehindEdge(to) {
			all[to.Name] = b.podAddresses(to)
			continue
		}
		a := b.partNames(to)
		a.Via = b.edgeVia(from, egress)
		all[to.Name] = a
	}
	return all
}

// podAddresses returns the addresses of the pods of a data center in this cluster.
func (b *builder) podAddresses(dc *v1alpha1.DataCenter) contract.Addresses {
	store := b.store.Name
	return b.partsOf(dc, func(role contract.Role, index, member int) string {
		pod := ""
		switch role {
		case contract.RoleCoordinator:
			pod = memberPod(store, dc.Name, topology.Coordinator, index, member)
		case contract.RoleCache:
			pod = fmt.Sprintf("%s-%d", cachesName(store, dc.Name), index)
		case contract.RoleMiddleman:
			pod = memberPod(store, dc.Name, topology.Middleman, index, member)
		}
		host := fmt.Sprintf("%s.%s.%s.svc", pod, partsName(store, dc.Name), b.store.Namespace)
		return net.JoinHostPort(host, strconv.Itoa(PortParts))
	})
}

// partsOf returns an address for every part that a data center has by the layout, of coordinators and middlemen for
// each of their members.
func (b *builder) partsOf(dc *v1alpha1.DataCenter,
	address func(role contract.Role, index, member int) string) (a contract.Addresses) {
	counts := b.counts(dc)
	eachMember(counts, topology.Coordinator, func(i, member int) {
		a.Coordinators = append(a.Coordinators, address(contract.RoleCoordinator, i, member))
	})
	for i := range dc.Caches.Replicas {
		a.Caches = append(a.Caches, address(contract.RoleCache, int(i), 1))
	}
	eachMember(counts, topology.Middleman, func(i, member int) {
		a.Middlemen = append(a.Middlemen, address(contract.RoleMiddleman, i, member))
	})
	return a
}

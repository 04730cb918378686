package etcd

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Ports of a member. PortHTTP serves health and metrics, without TLS.
const (
	PortClients = 2379
	PortPeers   = 2380
	PortHTTP    = 2381
)

// Folders in the pods of etcd.
const (
	DataDir        = "/data"
	CertificateDir = "/etc/etcd-tls"
	ClusterDir     = "/etc/etcd-cluster"
	// ConfigDir has the configuration file that Prepare writes.
	ConfigDir   = "/run/etcd"
	ConfigFile  = "etcd.yaml"
	ClusterFile = "cluster.yaml"
)

// What bounds the disk of a member. The state of a data center is some hundred bytes for each of its coordinators; what
// grows is the history of changes, which is compacted every hour, so that the database stays at a few pages and needs
// no defragmentation.
const (
	QuotaBytes          = 256 << 20
	compactionRetention = "1h"
)

// Cluster is what the operator tells the members of an etcd, in a ConfigMap.
type Cluster struct {
	// Founded says that all members have once served. From then on, one without data must not found the cluster again.
	Founded bool     `json:"founded"`
	Members []Member `json:"members"`
	// Config is the configuration of each member, without what Prepare adds.
	Config Config `json:"config"`
}

// Member is one process of an etcd.
type Member struct {
	Name      string `json:"name"`
	PeerURL   string `json:"peerURL"`
	ClientURL string `json:"clientURL"`
}

// ParseCluster reads a Cluster in YAML. It refuses unknown fields.
func ParseCluster(b []byte) (*Cluster, error) {
	var c Cluster
	if err := yaml.UnmarshalStrict(b, &c); err != nil {
		return nil, err
	}
	return &c, nil
}

// Config has the fields of etcd's configuration file (etcd --config-file) that are set.
type Config struct {
	Name                     string       `json:"name,omitempty"`
	DataDir                  string       `json:"data-dir"`
	ListenPeerURLs           string       `json:"listen-peer-urls"`
	ListenClientURLs         string       `json:"listen-client-urls"`
	ListenMetricsURLs        string       `json:"listen-metrics-urls"`
	InitialAdvertisePeerURLs string       `json:"initial-advertise-peer-urls,omitempty"`
	AdvertiseClientURLs      string       `json:"advertise-client-urls,omitempty"`
	InitialCluster           string       `json:"initial-cluster,omitempty"`
	InitialClusterState      string       `json:"initial-cluster-state,omitempty"`
	InitialClusterToken      string       `json:"initial-cluster-token"`
	Clients                  Certificates `json:"client-transport-security"`
	Peers                    Certificates `json:"peer-transport-security"`
	TLSMinVersion            string       `json:"tls-min-version"`
	QuotaBackendBytes        int64        `json:"quota-backend-bytes"`
	AutoCompactionMode       string       `json:"auto-compaction-mode"`
	AutoCompactionRetention  string       `json:"auto-compaction-retention"`
	EnableGRPCGateway        bool         `json:"enable-grpc-gateway"`
	LogLevel                 string       `json:"log-level"`
}

// Certificates are the files for one port.
type Certificates struct {
	Cert           string   `json:"cert-file"`
	Key            string   `json:"key-file"`
	ClientCert     string   `json:"client-cert-file,omitempty"`
	ClientKey      string   `json:"client-key-file,omitempty"`
	ClientCertAuth bool     `json:"client-cert-auth"`
	TrustedCA      string   `json:"trusted-ca-file"`
	AllowedCNs     []string `json:"allowed-cn,omitempty"`
}

// NewConfig returns the configuration that all members have. The token keeps the members of different data centers
// apart. TLS is 1.3, and both ports ask for a certificate of the authority.
func NewConfig(token string) Config {
	file := func(name string) string { return CertificateDir + "/" + name }
	clients := Certificates{Cert: file(ServerCertificate + ".crt"), Key: file(ServerCertificate + ".key"),
		ClientCertAuth: true, TrustedCA: file(BundleFile)}
	peers := clients
	peers.ClientCert, peers.ClientKey, peers.AllowedCNs = file(PeerCertificate+".crt"), file(PeerCertificate+".key"),
		[]string{memberName}
	listen := func(scheme string, port int) string { return fmt.Sprintf("%s://0.0.0.0:%d", scheme, port) }
	return Config{
		DataDir: DataDir, ListenPeerURLs: listen("https", PortPeers), ListenClientURLs: listen("https", PortClients),
		ListenMetricsURLs:   listen("http", PortHTTP),
		InitialClusterToken: token, Clients: clients, Peers: peers, TLSMinVersion: "TLS1.3",
		QuotaBackendBytes: QuotaBytes, AutoCompactionMode: "periodic", AutoCompactionRetention: compactionRetention,
		LogLevel: "info",
	}
}

// start returns the configuration with which a member starts, in a cluster of the given members.
func (c *Cluster) start(own Member, state string, members []Member) Config {
	var all []string
	for _, m := range members {
		all = append(all, m.Name+"="+m.PeerURL)
	}
	config := c.Config
	config.Name, config.InitialAdvertisePeerURLs, config.AdvertiseClientURLs = own.Name, own.PeerURL, own.ClientURL
	config.InitialCluster, config.InitialClusterState = strings.Join(all, ","), state
	return config
}

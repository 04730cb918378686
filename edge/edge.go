// Package edge translates the data centers of a store to the configuration of an Envoy edge. It is pure: it reads and
// writes nothing.
//
// Parts dial the egress of their data center instead of a part in another region; it takes the name of that part
// (contract.PartName) from the TLS server name of the part's own connection, and tunnels the bytes by HTTP/2 CONNECT to
// the ingress of the other data center, inside mutual TLS between the two edges. An ingress accepts the edges of the
// given peers only, and connects to the given parts only. The parts' own mutual TLS stays end to end: an edge never
// sees inside it, and speaks for no part.
//
// An egress asks for no certificate, so that every pod of an application that reaches it can take all that it has.
// Therefore there are two: one for sidecars, and one for the store's own parts. They share no bound, up to the part at
// the other end.
//
// Envoy reads all of it from files: the ConfigMap with what Configure returns is mounted at ConfigDir, the Secret with
// the edge's certificate at CertificateDir. Envoy watches both, so that only a change of BootstrapFile needs a restart.
package edge

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
)

// Where an edge finds its files. The certificate is in 0.crt and 0.key of CertificateDir.
const (
	ConfigDir      = "/etc/causalstore-edge"
	CertificateDir = "/etc/causalstore-tls"
	// BootstrapFile, in ConfigDir, is what Envoy is started with. It depends on nothing but the store and the data
	// center.
	BootstrapFile = "bootstrap.yaml"
)

// Ports of an edge.
const (
	// PortEgress is for sidecars in the pods of applications, PortEgressParts for the store's own pods.
	PortEgress      = 7500
	PortEgressParts = 7503
	PortIngress     = 7501
	// PortHTTP serves GET /ready and GET /stats/prometheus, and nothing else.
	PortHTTP = 7502
)

// Arguments returns the arguments that Envoy is started with.
//
// Draining: a listener or peer that is removed closes its connections within drainSeconds, so that a region that is not
// trusted any more is cut off. Hot restart is off: it needs shared memory, and a Deployment replaces pods.
func Arguments() []string {
	return []string{"--config-path", ConfigDir + "/" + BootstrapFile, "--disable-hot-restart", "--concurrency", workers,
		"--drain-strategy", "immediate", "--drain-time-s", drainSeconds,
		"--file-flush-interval-msec", "1000", "--log-format", "%Y-%m-%dT%T.%e %l %n %v"}
}

// Files of a configuration. The bundle of a peer is in a file of its own, see trustName.
const (
	listenersFile   = "listeners.yaml"
	clustersFile    = "clusters.yaml"
	routesFile      = "routes.yaml"
	certificateName = "certificate"
)

// Input is what the edge of one data center depends on.
type Input struct {
	StoreID, DataCenter, TrustDomain string
	// Bundle holds the authorities of TrustDomain, in PEM.
	Bundle string
	// Parts are those of the data center.
	Parts []Part
	// Peers are the data centers of other regions that are trusted.
	Peers []Peer
}

// Part is a part of the data center.
type Part struct {
	// Name is its contract.PartName.
	Name string
	// Address is its host:port inside of the cluster. Its host may have no address yet.
	Address string
}

// Peer is a data center of another region.
type Peer struct {
	DataCenter string
	// Address is host:port of the peer's edge.
	Address string
	// TrustDomain is that of the peer's certificates, and Bundle its authorities in PEM.
	TrustDomain, Bundle string
}

// Configure returns the files of an edge, by name. The same input, in any order, gives the same files.
func Configure(in Input) (map[string]string, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	in.Parts, in.Peers = slices.Clone(in.Parts), slices.Clone(in.Peers)
	slices.SortFunc(in.Parts, func(a, b Part) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(in.Peers, func(a, b Peer) int { return cmp.Compare(a.DataCenter, b.DataCenter) })

	f := files{}
	f.add(BootstrapFile, in.bootstrap())
	f.add(listenersFile, resources(in.listeners()...))
	f.add(clustersFile, resources(in.clusters()...))
	f.add(routesFile, resources(in.routes()))
	f.add(logRateName+".yaml", resources(logRate()))
	f.add(certificateName+".yaml", resources(certificate()))
	for _, p := range in.Peers {
		f.add(p.trustName()+".yaml", resources(p.trust()))
	}
	return f.content, f.err
}

// listeners returns those that carry bytes. An egress without peers has nothing to do, and would have no filter chains,
// which Envoy refuses; the same is true of an ingress.
func (in Input) listeners() []proto.Message {
	if len(in.Peers) == 0 {
		return nil
	}
	return []proto.Message{in.egress(sidecars), in.egress(parts), in.ingress()}
}

func (in Input) clusters() []proto.Message {
	var all []proto.Message
	for _, p := range in.Peers {
		all = append(all, in.peerCluster(p, sidecars), in.peerCluster(p, parts))
	}
	for _, p := range in.Parts {
		all = append(all, partCluster(p))
	}
	return all
}

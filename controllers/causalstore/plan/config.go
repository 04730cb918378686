package plan

import (
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Ports of the pods.
const (
	PortRedis     = 6379
	PortParts     = 7400
	PortHTTP      = 7480
	PortFrontHTTP = 7481
)

// Files and folders inside of containers.
const (
	configDir  = "/etc/causalstore"
	keysDir    = "/etc/causalstore-keys"
	dataDir    = "/data"
	socketDir  = "/run/storage"
	partsFile  = "causalstore.yaml"
	frontFile  = "front.yaml"
	socketFile = socketDir + "/redis.sock"
)

// processConfig is the configuration file of the parts. It is what package process reads, which must not be imported here:
// it brings the whole data plane with it. A test reads what is written here with that package.
type processConfig struct {
	DataCenter   string                   `json:"dataCenter"`
	Topology     topology.File            `json:"topology"`
	Addresses    map[string]partAddresses `json:"addresses"`
	Storage      *storageConfig           `json:"storage,omitempty"`
	DataDir      string                   `json:"dataDir,omitempty"`
	Limits       *limitsConfig            `json:"limits,omitempty"`
	Session      sessionConfig            `json:"session"`
	Binding      string                   `json:"binding"`
	TokenKeyFile string                   `json:"tokenKeyFile"`
	Log          logConfig                `json:"log"`
}

type partAddresses struct {
	Coordinators []string `json:"coordinators,omitempty"`
	Middlemen    []string `json:"middlemen,omitempty"`
	Caches       []string `json:"caches,omitempty"`
}

type storageConfig struct {
	Engine   string          `json:"engine"`
	Embedded *embeddedConfig `json:"embedded,omitempty"`
	Redis    *redisConfig    `json:"redis,omitempty"`
}

type embeddedConfig struct {
	Dir string `json:"dir"`
}

type redisConfig struct {
	Socket       string `json:"socket"`
	Username     string `json:"username"`
	PasswordFile string `json:"passwordFile"`
}

type limitsConfig struct {
	LogBytes   int64 `json:"logBytes"`
	CacheBytes int64 `json:"cacheBytes"`
}

type sessionConfig struct {
	Scope string `json:"scope"`
	Reads string `json:"reads"`
}

type logConfig struct {
	Format string `json:"format"`
}

// configMap holds the file of a data centre's parts, and that of the fronts in its coordinators' pods, whose clients are many
// and have a session for each connection. Addresses and numbers in it are taken over by running parts.
func (b *builder) configMap(dc *v1alpha1.DataCenter) (*corev1.ConfigMap, error) {
	c := processConfig{
		DataCenter: dc.Name, Topology: b.layout, Addresses: map[string]partAddresses{},
		Session: sessionConfig{string(b.spec.Session.Scope), string(b.spec.Session.Reads)}, Binding: string(b.spec.Binding),
		TokenKeyFile: keysDir + "/" + KeyToken, Log: logConfig{"json"},
	}
	for i := range b.spec.DataCenters {
		to := &b.spec.DataCenters[i]
		c.Addresses[to.Name] = b.addresses(to)
	}
	front := c
	front.Session.Scope = string(v1alpha1.ScopeConnection)
	c.DataDir, c.Storage, c.Limits = dataDir, b.storageConfig(), limits(dc)
	data := map[string]string{}
	for name, file := range map[string]processConfig{partsFile: c, frontFile: front} {
		text, err := yaml.Marshal(file)
		if err != nil {
			return nil, fmt.Errorf("write %s of %s: %w", name, dc.Name, err)
		}
		data[name] = string(text)
	}
	return &corev1.ConfigMap{ObjectMeta: b.meta(DataCenterName(b.store.Name, dc.Name), b.dcLabels(dc)), Data: data}, nil
}

func (b *builder) storageConfig() *storageConfig {
	if b.spec.Storage.Engine == v1alpha1.EngineEmbedded {
		return &storageConfig{Engine: "embedded", Embedded: &embeddedConfig{dataDir}}
	}
	return &storageConfig{Engine: "redis", Redis: &redisConfig{socketFile, storageUser, keysDir + "/" + keyStorage}}
}

// limits: the log is given three quarters of its volume, and a cache three quarters of its memory.
func limits(dc *v1alpha1.DataCenter) *limitsConfig {
	volume, memory := dc.Coordinators.Volume.Size.Quantity(), dc.Caches.Memory.Quantity()
	return &limitsConfig{LogBytes: volume.Value() / 4 * 3, CacheBytes: memory.Value() / 4 * 3}
}

// addresses are those of a data centre's parts: names of pods here, names in front of the edge elsewhere.
func (b *builder) addresses(dc *v1alpha1.DataCenter) partAddresses {
	var a partAddresses
	store := b.store.Name
	for i := range coordinators(findDataCenter(&b.layout, dc.Name)) {
		a.Coordinators = append(a.Coordinators, b.address(dc, coordinatorName(store, dc.Name, int(i))))
	}
	for i := range dc.Caches.Replicas {
		a.Caches = append(a.Caches, b.address(dc, fmt.Sprintf("%s-%d", cachesName(store, dc.Name), i)))
	}
	for i := range b.middlemen(dc) {
		a.Middlemen = append(a.Middlemen, b.address(dc, shardName(store, dc.Name, i)+"-0"))
	}
	return a
}

// address of a pod. The port of an edge is its own, and tells nothing apart: the name in front of its host does.
func (b *builder) address(dc *v1alpha1.DataCenter, pod string) string {
	if dc.Region != b.in.Region {
		return pod + "." + dc.Edge.Address
	}
	host := fmt.Sprintf("%s.%s.%s.svc", pod, partsName(b.store.Name, dc.Name), b.store.Namespace)
	return net.JoinHostPort(host, strconv.Itoa(PortParts))
}

package plan

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// FrontContainer is the name of the front's container in the pods of coordinators.
const FrontContainer = "front"

// PortRedisTLS is the port of the fronts for clients with TLS.
const PortRedisTLS = contract.RedisTLSPort

// Folders of the front's container.
const (
	UsersDir    = "/etc/causalstore-users"
	frontTLSDir = "/etc/causalstore-redis-tls"
	clientCADir = "/etc/causalstore-client-ca"
)

// frontInputs are the part of spec.clients and spec.nearCopies that the pods of coordinators depend on.
type frontInputs struct {
	Off         bool   `json:"off,omitempty"`
	Users       bool   `json:"users,omitempty"`
	TLS         string `json:"tls,omitempty"`
	ClientCA    string `json:"clientCA,omitempty"`
	NoPlaintext bool   `json:"noPlaintext,omitempty"`
	NearCopies  string `json:"nearCopies,omitempty"`
}

// frontInputs returns nil for what a store without spec.clients and near copies has.
func (b *builder) frontInputs() *frontInputs {
	c := &b.spec.Clients
	in := frontInputs{Off: !c.Front.IsEnabled(), Users: c.UsersSecret != "", NoPlaintext: !c.Front.ServesPlaintext()}
	if n := nearBytes(b.spec); n > 0 {
		in.NearCopies = strconv.FormatInt(int64(n), 10)
	}
	if in.Off {
		in = frontInputs{Off: true}
	} else if t := c.Front.TLS; t != nil {
		in.TLS, in.ClientCA = t.SecretName, t.ClientCASecretName
	}
	if in == (frontInputs{}) {
		return nil
	}
	return &in
}

// frontPort is a port at which fronts serve clients.
type frontPort struct {
	name string
	port int32
}

func (b *builder) frontPorts() (all []frontPort) {
	f := &b.spec.Clients.Front
	if f.ServesPlaintext() {
		all = append(all, frontPort{"redis", PortRedis})
	}
	if f.ServesTLS() {
		all = append(all, frontPort{"redis-tls", PortRedisTLS})
	}
	return all
}

// front builds the container for clients without a sidecar, and the volumes that only it has. Those of TLS are optional
// for the kubelet: a missing Secret must not keep the coordinator beside the front from starting. The front then
// refuses clients with TLS, and is not ready.
func (b *builder) front(dc *v1alpha1.DataCenter) (corev1.Container, []corev1.Volume) {
	f := &b.spec.Clients.Front
	plain := fmt.Sprintf("--listen-redis=:%d", PortRedis)
	if !f.ServesPlaintext() {
		plain = "--listen-redis=" + contract.ListenNone
	}
	args := []string{topology.Sidecar.String(), "--config=" + configDir + "/" + frontFile, plain,
		fmt.Sprintf("--drain-delay=%ds", frontDelaySeconds), fmt.Sprintf("--drain-timeout=%ds", frontDrainSeconds)}
	// A front is a sidecar: with the certificate of its coordinator it could do more than a client may.
	own, ownMount := certificates("front-tls", SidecarCertificatesName(b.store.Name, dc.Name))
	volumes, mounts := []corev1.Volume{own}, []corev1.VolumeMount{ownMount}
	mount := func(name, dir, secret string, optional bool, keys ...string) {
		source := &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr(int32(0o440))}
		if optional {
			source.Optional = ptr(true)
		}
		for _, key := range keys {
			source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
		}
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: source}})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: dir, ReadOnly: true})
	}
	if b.spec.Clients.UsersSecret != "" {
		args = append(args, "--users-file="+UsersDir+"/"+KeyUsersFile)
		mount("users", UsersDir, UsersName(b.store.Name), false)
	}
	if t := f.TLS; t != nil {
		args = append(args, fmt.Sprintf("--listen-redis-tls=:%d", PortRedisTLS),
			"--redis-tls-cert="+frontTLSDir+"/"+corev1.TLSCertKey,
			"--redis-tls-key="+frontTLSDir+"/"+corev1.TLSPrivateKeyKey)
		mount("redis-tls", frontTLSDir, t.SecretName, true, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
		if t.ClientCASecretName != "" {
			args = append(args, "--redis-tls-client-ca="+clientCADir+"/"+corev1.ServiceAccountRootCAKey)
			mount("redis-client-ca", clientCADir, t.ClientCASecretName, true, corev1.ServiceAccountRootCAKey)
		}
	}
	c := b.container(FrontContainer, args, PortFrontHTTP, resourcesOr(b.spec.Clients.Front.Resources, FrontDemand),
		mounts...)
	for _, p := range b.frontPorts() {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: p.name, ContainerPort: p.port})
	}
	return c, volumes
}

// servicePorts returns the ports of Services for clients.
func (b *builder) servicePorts() (all []corev1.ServicePort) {
	for _, p := range b.frontPorts() {
		all = append(all, corev1.ServicePort{Name: p.name, Port: p.port, Protocol: corev1.ProtocolTCP,
			TargetPort: intstr.FromString(p.name)})
	}
	return all
}

// admitClients returns the rule that admits clients to the fronts.
func (b *builder) admitClients(from []networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
	var ports []int32
	for _, p := range b.frontPorts() {
		ports = append(ports, p.port)
	}
	return ingress(from, ports...)
}

// FrontPort returns the port of the fronts that clients use best, or 0 if there are no fronts.
func FrontPort(f *v1alpha1.Front) int32 {
	switch {
	case f.ServesTLS():
		return PortRedisTLS
	case f.ServesPlaintext():
		return PortRedis
	}
	return 0
}

package inject

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/trust"
)

// Container is the name of the sidecar's container. Address is the loopback address on which it listens, at the store's
// port; nothing else uses this address.
const (
	Container = "causalstore-sidecar"
	Address   = "127.67.83.1"
)

// configDir and tlsDir are the folders of the sidecar's container with a folder for each data center that it may start
// with: its configuration, and its certificate. envDataCenter is the variable with the name of the one to use, if there
// are several.
const (
	configDir     = "/etc/causalstore"
	tlsDir        = "/etc/causalstore-tls"
	envDataCenter = "CAUSALSTORE_DATA_CENTER"
)

// image returns the image of the sidecar, which is that of the data center's parts.
func (r *Request) image(dc string) string { return cmp.Or(r.Store.Spec.Image, r.Images[dc], r.Image) }

// addSidecar adds the sidecar as the first init container, so that other init containers can use it too. It is a native
// sidecar: Kubernetes starts it before the app and stops it after the app.
func addSidecar(p *corev1.Pod, r *Request, choice choice) {
	resources := plan.SidecarResources(&r.Store.Spec)
	always, yes, no, user := corev1.ContainerRestartPolicyAlways, true, false, int64(65532)
	c := corev1.Container{
		Name: Container, Image: r.image(choice.dataCenter), RestartPolicy: &always,
		Args: []string{"sidecar", "--config=" + plan.SidecarConfigDir(choice.dataCenter) + "/" + plan.SidecarFile,
			fmt.Sprintf("--listen-redis=%s:%d", Address,
				plan.PortRedis),
			fmt.Sprintf("--listen-http=:%d", plan.PortHTTP)},
		Env:       plan.GoMemoryLimit(resources),
		Resources: resources,
		Ports: []corev1.ContainerPort{{Name: "causal-http", ContainerPort: plan.PortHTTP,
			Protocol: corev1.ProtocolTCP}},
		// The app starts once the sidecar listens. It does not wait for the store, because it may work without.
		StartupProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz",
			Port: intstr.FromInt32(plan.PortHTTP)}},
			PeriodSeconds: 1, FailureThreshold: 60},
		LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz",
			Port: intstr.FromInt32(plan.PortHTTP)}},
			PeriodSeconds: 10, TimeoutSeconds: 6, FailureThreshold: 6},
		SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user,
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		VolumeMounts: []corev1.VolumeMount{{Name: "causalstore-config", MountPath: configDir, ReadOnly: true},
			{Name: "causalstore-tls", MountPath: tlsDir, ReadOnly: true}},
	}
	if choice.byNode {
		// Kubernetes resolves the variable when the container starts: the pod is bound to its node by then.
		c.Env = append(c.Env, corev1.EnvVar{Name: envDataCenter,
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
				FieldPath: fmt.Sprintf("metadata.annotations['%s']", AnnotationSidecarDataCenter)}}})
		c.Args[1] = fmt.Sprintf("--config=%s/%s", plan.SidecarConfigDir(fmt.Sprintf("$(%s)", envDataCenter)),
			plan.SidecarFile)
	}
	if r.Store.Spec.Clients.SidecarPasswords {
		addUsers(p, &c, r)
	}
	p.Spec.InitContainers = slices.Insert(p.Spec.InitContainers, 0, c)
	if r.Namespace == r.Store.Namespace { // other namespaces do not have these Secrets
		addPullSecrets(p, r.Store.Spec.ImagePullSecrets)
	}
	config, certificates := filesOfEach(r, choice.candidates(r))
	p.Spec.Volumes = append(p.Spec.Volumes,
		corev1.Volume{Name: "causalstore-config", VolumeSource: corev1.VolumeSource{Projected: config}},
		corev1.Volume{Name: "causalstore-tls", VolumeSource: corev1.VolumeSource{Projected: certificates}})
}

// addUsers makes the sidecar ask for passwords.
func addUsers(p *corev1.Pod, c *corev1.Container, r *Request) {
	readable := int32(0o444)
	c.Args = append(c.Args, "--users-file="+plan.UsersDir+"/"+plan.KeyUsersFile)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "causalstore-users", MountPath: plan.UsersDir,
		ReadOnly: true})
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "causalstore-users", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: r.StoreRef.usersSecret(r.Namespace), DefaultMode: &readable}}})
}

// filesOfEach returns volumes with the configuration and the certificate for each data center, in a folder with its
// name.
func filesOfEach(r *Request, dataCenters []string) (config, certificates *corev1.ProjectedVolumeSource) {
	readable := int32(0o444)
	config, certificates = &corev1.ProjectedVolumeSource{}, &corev1.ProjectedVolumeSource{DefaultMode: &readable}
	for _, dc := range dataCenters {
		items := func(names ...string) (all []corev1.KeyToPath) {
			for _, name := range names {
				all = append(all, corev1.KeyToPath{Key: name, Path: dc + "/" + name})
			}
			return all
		}
		config.Sources = append(config.Sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: r.StoreRef.configMap(r.Namespace, dc)},
			Items:                items(plan.SidecarFile, plan.TrustFile)}})
		certificates.Sources = append(certificates.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: r.StoreRef.certificatesSecret(r.Namespace, dc)},
			Items: items(trust.CertFile(plan.SidecarCertificate),
				trust.KeyFile(plan.SidecarCertificate))}})
	}
	return config, certificates
}

// addPullSecrets adds the Secrets with which the store's own pods pull the image.
func addPullSecrets(p *corev1.Pod, all []v1alpha1.PullSecret) {
	for _, s := range all {
		if r := (corev1.LocalObjectReference{Name: s.Name}); !slices.Contains(p.Spec.ImagePullSecrets, r) {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, r)
		}
	}
}

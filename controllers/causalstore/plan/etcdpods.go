package plan

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/etcd"
)

// EtcdDemand is what a member asks for. Its memory is a few MiB and the pages of its database, which its quota bounds.
var EtcdDemand = Demand{CPU: "50m", Memory: "128Mi", MemoryLimit: "512Mi"}

// etcdInputs are the part of a spec that the pods of an etcd depend on.
type etcdInputs struct {
	inputs
	Etcd v1alpha1.Etcd `json:"etcd"`
	// Cluster is what the members read at a start, but for what they need only without data.
	Cluster etcd.Cluster `json:"cluster"`
	// Bundle is the digest of the authorities that members accept, which etcd reads at a start.
	Bundle string `json:"bundle"`
}

// etcdSet builds the members of an etcd. The operator restarts them one at a time, like all pods with data. An init
// container decides how a member starts (package etcd).
func (b *builder) etcdSet(dc *v1alpha1.DataCenter, image, bundle string, cluster etcd.Cluster) *appsv1.StatefulSet {
	zones := b.spec.EtcdZonesOf(dc)
	cluster.Founded = false
	in := etcdInputs{inputs: b.inputs(dc, zones), Etcd: dc.Etcd.WithDefaults(), Cluster: cluster, Bundle: bundle}
	// It depends neither on the topology nor on the binding.
	in.RestartEpoch, in.Binding, in.Etcd.Image, in.Etcd.Volume = 0, "", image, v1alpha1.Volume{}
	name := EtcdName(b.store.Name, dc.Name)
	tls, mount := certificates("tls", name+"-tls")
	mount.MountPath = etcd.CertificateDir
	data := corev1.VolumeMount{Name: "data", MountPath: etcd.DataDir}
	config := corev1.VolumeMount{Name: "etcd", MountPath: etcd.ConfigDir}
	volume := dc.Etcd.WithDefaults().Volume
	s := b.statefulSet(dc, workload{
		name: name, component: ComponentEtcd, labels: b.partLabels(dc, ComponentEtcd), replicas: in.Etcd.Replicas,
		zones: zones, volume: &volume,
		containers: []corev1.Container{etcdContainer(image, resourcesOr(dc.Etcd.Resources, EtcdDemand), data,
			mount, config)},
		volumes: []corev1.Volume{tls, {Name: "etcd",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}, grace: graceSeconds,
		inputs: in,
	})
	s.Spec.ServiceName = name
	t := &s.Spec.Template
	t.Annotations[annotationEtcdBundle] = bundle
	t.Spec.Volumes[0].ConfigMap.Name = name
	t.Spec.InitContainers = []corev1.Container{b.etcdInit(data, mount, config,
		corev1.VolumeMount{Name: "config", MountPath: etcd.ClusterDir, ReadOnly: true})}
	if !b.spec.SingleZone() {
		b.separateEtcd(t, dc)
	}
	return s
}

// separateEtcd keeps two members off one host, and spreads them evenly over the zones: with three, each has one.
func (b *builder) separateEtcd(t *corev1.PodTemplateSpec, dc *v1alpha1.DataCenter) {
	members := &metav1.LabelSelector{MatchLabels: b.etcdSelector(dc)}
	t.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: members}}}
	for i := range t.Spec.TopologySpreadConstraints {
		if c := &t.Spec.TopologySpreadConstraints[i]; c.TopologyKey == b.spec.ZoneLabel {
			c.WhenUnsatisfiable = corev1.DoNotSchedule
		}
	}
}

// etcdInit builds the container that writes the configuration of a member.
func (b *builder) etcdInit(mounts ...corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name: "prepare", Image: b.image(),
		Args: []string{"etcd-member", "--cluster=" + etcd.ClusterDir + "/" + etcd.ClusterFile,
			"--name=$(POD_NAME)", "--out=" + etcd.ConfigDir},
		Env: []corev1.EnvVar{{Name: "POD_NAME",
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
		Resources: EtcdDemand.Resources(), SecurityContext: containerSecurity(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             mounts,
	}
}

// etcdContainer builds the container of etcd. It is ready while it has a leader and answers reads that a quorum
// confirms, and alive while it reads its own data, so that a member without a quorum is not restarted for it.
func etcdContainer(image string, r corev1.ResourceRequirements, mounts ...corev1.VolumeMount) corev1.Container {
	probe := func(path string, period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path,
				Port: intstr.FromInt32(etcd.PortHTTP)}},
			PeriodSeconds: period, TimeoutSeconds: 6, FailureThreshold: failures}
	}
	return corev1.Container{
		Name: "etcd", Image: image, Command: []string{"etcd"},
		Args:      []string{"--config-file=" + etcd.ConfigDir + "/" + etcd.ConfigFile},
		Resources: r, Env: GoMemoryLimit(r), SecurityContext: containerSecurity(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		StartupProbe:             probe("/livez", 2, 150), ReadinessProbe: probe("/readyz", 2, 2),
		LivenessProbe: probe("/livez", 10, 6),
		Ports: []corev1.ContainerPort{{Name: "etcd-clients", ContainerPort: etcd.PortClients},
			{Name: "etcd-peers", ContainerPort: etcd.PortPeers},
			{Name: "etcd-http", ContainerPort: etcd.PortHTTP}},
		VolumeMounts: mounts,
	}
}

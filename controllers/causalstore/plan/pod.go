package plan

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
)

// nobody is the user id of all containers. Images must not need another one.
const nobody = 65532

// workload describes a StatefulSet.
type workload struct {
	name, component string
	labels          map[string]string
	replicas        int32
	zones           []string
	volume, log     *v1alpha1.Volume // log is that of a member of a shard
	containers      []corev1.Container
	volumes         []corev1.Volume
	// grace is how long the pod may take to stop, in seconds.
	grace int64
	// inputs are the part of the spec that the pods depend on.
	inputs any
	// hasMembers says that the pod may be one of several members of a group: those with its number, or of a shard those
	// of that shard.
	hasMembers bool
}

// statefulSet builds a StatefulSet with the update strategy OnDelete: the operator restarts its pods zone by zone,
// while Kubernetes would go by index, and so through all zones.
func (b *builder) statefulSet(dc *v1alpha1.DataCenter, s workload) *appsv1.StatefulSet {
	selector := map[string]string{LabelInstance: b.store.Name, LabelDataCenter: dc.Name, LabelComponent: s.component}
	for _, key := range []string{LabelShard, LabelMember} {
		if value, ok := s.labels[key]; ok {
			selector[key] = value
		}
	}
	out := &appsv1.StatefulSet{
		ObjectMeta: b.meta(s.name, s.labels),
		Spec: appsv1.StatefulSetSpec{
			Replicas: &s.replicas, ServiceName: partsName(b.store.Name, dc.Name),
			Selector:             &metav1.LabelSelector{MatchLabels: selector},
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			RevisionHistoryLimit: ptr(int32(3)),
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType},
			Template: b.podTemplate(dc, s),
		},
	}
	for _, of := range []struct {
		name   string
		volume *v1alpha1.Volume
	}{{dataClaim, s.volume}, {logClaim, s.log}} {
		if of.volume != nil {
			out.Spec.VolumeClaimTemplates = append(out.Spec.VolumeClaimTemplates,
				b.claimTemplate(of.name, s.labels, of.volume))
		}
	}
	out.Annotations = map[string]string{annotationInputs: digest(s.inputs),
		annotationRestartEpoch: strconv.FormatInt(b.record.RestartEpoch, 10)}
	return out
}

func (b *builder) claimTemplate(name string, labels map[string]string,
	v *v1alpha1.Volume) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: b.claimLabels(labels)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: v.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: v.Size.Quantity()},
			},
		},
	}
}

func (b *builder) podTemplate(dc *v1alpha1.DataCenter, s workload) corev1.PodTemplateSpec {
	spec := corev1.PodSpec{
		ServiceAccountName: b.store.Name, AutomountServiceAccountToken: ptr(false), EnableServiceLinks: ptr(false),
		TerminationGracePeriodSeconds: &s.grace,
		SecurityContext:               podSecurity(), ImagePullSecrets: b.pullSecrets(),
		Containers: s.containers,
		Volumes: append([]corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: DataCenterName(b.store.Name, dc.Name)}}}},
		}, s.volumes...),
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: s.labels, Annotations: map[string]string{
			annotationInputs: digest(s.inputs), "kubectl.kubernetes.io/default-container": s.containers[0].Name}},
		Spec: spec,
	}
	b.place(&template, dc, s)
	return template
}

func (b *builder) pullSecrets() (all []corev1.LocalObjectReference) {
	for _, p := range b.spec.ImagePullSecrets {
		all = append(all, corev1.LocalObjectReference{Name: p.Name})
	}
	return all
}

// certificates returns a volume with certificates, and where a container has it. Of names, if any are given, it has
// only those.
func certificates(volume, secret string, names ...string) (corev1.Volume, corev1.VolumeMount) {
	source := &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr(int32(0o440))}
	for _, name := range names {
		for _, file := range []string{name + ".crt", name + ".key"} {
			source.Items = append(source.Items, corev1.KeyToPath{Key: file, Path: file})
		}
	}
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Secret: source}},
		corev1.VolumeMount{Name: volume, MountPath: tlsDir, ReadOnly: true}
}

// image returns the image of the parts.
func (b *builder) image() string {
	if b.spec.Image != "" {
		return b.spec.Image
	}
	return b.record.Image
}

// container builds the container of one part, whose program is the entry point of the image.
func (b *builder) container(name string, args []string, http int32, r corev1.ResourceRequirements,
	mounts ...corev1.VolumeMount) corev1.Container {
	probe := func(path string, period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path,
				Port: intstr.FromInt32(http)}},
			PeriodSeconds: period, TimeoutSeconds: 6, FailureThreshold: failures}
	}
	return corev1.Container{
		Name: name, Image: b.image(), Args: append(args, fmt.Sprintf("--listen-http=:%d", http)), Resources: r,
		Env: GoMemoryLimit(r),
		// The last lines of the log say why a container has ended; the operator shows them.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          containerSecurity(), ReadinessProbe: probe(contract.PathReady, 2, 2),
		LivenessProbe: probe(contract.PathHealth, 10, 6),
		Ports:         []corev1.ContainerPort{{Name: httpPort(http), ContainerPort: http}},
		VolumeMounts:  append([]corev1.VolumeMount{{Name: "config", MountPath: configDir, ReadOnly: true}}, mounts...),
	}
}

func httpPort(port int32) string {
	if port == PortFrontHTTP {
		return "front-http"
	}
	return "http"
}

// podIndex is an environment variable with the number of the pod in its StatefulSet, for use in arguments.
func podIndex() corev1.EnvVar {
	return corev1.EnvVar{Name: "POD_INDEX", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		FieldPath: fmt.Sprintf("metadata.labels['%s']", appsv1.PodIndexLabel)}}}
}

// podSecurity runs containers as nobody, who can read the Secrets that are mounted.
func podSecurity() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr(true), RunAsUser: ptr(int64(nobody)), RunAsGroup: ptr(int64(nobody)),
		FSGroup:             ptr(int64(nobody)),
		FSGroupChangePolicy: ptr(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
}

// containerSecurity satisfies the level "restricted" of the Pod Security Standards, with a read-only root file system.
func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
}

func ptr[T any](v T) *T { return &v }

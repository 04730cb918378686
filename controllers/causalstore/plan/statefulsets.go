package plan

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// How long parts may take to stop, in seconds. A coordinator uses the time to complete the writes that it has accepted.
// The front in its pod, which is told to stop at the same time, first serves for the delay, so that all nodes can
// remove the pod from the Service's endpoints, and then completes the commands under way. Kubernetes kills what takes
// longer than the grace period of the pod.
const (
	coordinatorDrainSeconds = 45
	frontDelaySeconds       = 5
	frontDrainSeconds       = 30
	coordinatorGraceSeconds = max(coordinatorDrainSeconds, frontDelaySeconds+frontDrainSeconds) + marginSeconds
	graceSeconds            = 30
	marginSeconds           = 15
)

// inputs are the part of a spec that the pods of one component depend on. A change of anything else restarts none of
// them.
type inputs struct {
	// RestartEpoch represents everything in the layout that running parts do not apply live.
	RestartEpoch int64                 `json:"epoch"`
	Restart      string                `json:"restart,omitempty"`
	Image        string                `json:"image"`
	PullSecrets  []v1alpha1.PullSecret `json:"pullSecrets,omitempty"`
	ZoneLabel    string                `json:"zoneLabel"`
	Binding      v1alpha1.Binding      `json:"binding"`
	Zones        []string              `json:"zones"`
	v1alpha1.PodSettings
	Reads        v1alpha1.Reads         `json:"reads,omitempty"`
	Coordinators *v1alpha1.Coordinators `json:"coordinators,omitempty"`
	Caches       *v1alpha1.Caches       `json:"caches,omitempty"`
	Storage      *v1alpha1.Storage      `json:"storage,omitempty"`
	Front        *frontInputs           `json:"front,omitempty"`
	// Register is what members of groups read only at a start, Log the volume of those of shards, and Member which ones
	// they are, if not the first.
	Register *contract.Register `json:"register,omitempty"`
	Log      *v1alpha1.Volume   `json:"log,omitempty"`
	Member   int                `json:"member,omitempty"`
}

func (b *builder) inputs(dc *v1alpha1.DataCenter, zones []string) inputs {
	return inputs{RestartEpoch: b.record.RestartEpoch, Restart: b.store.Annotations[AnnotationRestart],
		Image:       b.image(),
		PullSecrets: b.spec.ImagePullSecrets, ZoneLabel: b.spec.ZoneLabel, Binding: b.spec.Binding, Zones: zones,
		PodSettings: b.spec.PodsOf(dc)}
}

// coordinatorSet builds one member of all coordinators. Each pod also has a front for clients without a sidecar, unless
// fronts are off: so these are served while any zone of coordinators is.
func (b *builder) coordinatorSet(dc *v1alpha1.DataCenter, member int) *appsv1.StatefulSet {
	zones, name := b.spec.MemberZonesOf(dc, member), coordinatorsName(b.store.Name, dc.Name, member)
	in := b.inputs(dc, zones)
	in.Reads, in.Front, in.Register = b.spec.Session.Reads, b.frontInputs(), b.register(dc, topology.Coordinator)
	labels := b.partLabels(dc, ComponentCoordinator)
	if member > 1 {
		in.Member, labels = member, withLabel(labels, LabelMember, strconv.Itoa(member))
	}
	b.setCoordinatorInputs(&in, dc, name)
	cc := b.container("coordinator", []string{topology.Coordinator.String(), "--config=" + configDir + "/" + PartsFile,
		"--index=$(POD_INDEX)",
		fmt.Sprintf("--drain-timeout=%ds", coordinatorDrainSeconds)},
		PortHTTP, resourcesOr(dc.Coordinators.Resources, CoordinatorDemand),
		corev1.VolumeMount{Name: dataClaim, MountPath: dataDir})
	cc.Args = append(cc.Args, memberArgs(member)...)
	cc.Env = append(cc.Env, podIndex())
	own, mount := certificates("tls", certificatesName(b.store.Name, dc.Name, contract.RoleCoordinator))
	cc.VolumeMounts = append(cc.VolumeMounts, mount)
	cc.Ports = append(cc.Ports, corev1.ContainerPort{Name: "parts", ContainerPort: PortParts})
	volumes := []corev1.Volume{own}
	if in.Register != nil {
		v, mount := b.registerVolume(dc)
		volumes, cc.VolumeMounts = append(volumes, v), append(cc.VolumeMounts, mount)
	}
	containers := []corev1.Container{cc}
	if b.spec.Clients.Front.IsEnabled() {
		front, ofFront := b.front(dc)
		containers, volumes = append(containers, front), append(volumes, ofFront...)
	}
	counts := b.counts(dc)
	return b.statefulSet(dc, workload{
		name: name, component: ComponentCoordinator, labels: labels,
		replicas: int32(counts.RunningCoordinators()), zones: zones, volume: &dc.Coordinators.Volume,
		containers: containers, volumes: volumes, grace: coordinatorGraceSeconds, inputs: in,
		hasMembers: in.Register != nil,
	})
}

// setCoordinatorInputs adds the part of the spec of coordinators that pods depend on, which is all but their numbers.
// Versions of the operator from before that number could change included it, so pods that were built for any number are
// up to date.
func (b *builder) setCoordinatorInputs(in *inputs, dc *v1alpha1.DataCenter, set string) {
	like := dc.Coordinators
	like.Members = 0 // a change of their number restarts none of them
	in.Coordinators = &like
	was := findStatefulSet(b.in.StatefulSets, set)
	for like.Replicas = topology.MaxCoordinators; like.Replicas > 0; like.Replicas-- {
		if was != nil && was.Annotations[annotationInputs] == digest(in) {
			return
		}
	}
}

func (b *builder) cacheSet(dc *v1alpha1.DataCenter) *appsv1.StatefulSet {
	in := b.inputs(dc, b.spec.ZonesOf(dc).Frontend)
	like := dc.Caches
	like.Replicas = 0 // a change of the number restarts none of them
	in.Caches = &like
	c := b.container("cache", []string{topology.Cache.String(), "--config=" + configDir + "/" + PartsFile,
		"--index=$(POD_INDEX)"}, PortHTTP,
		CacheDemand(string(dc.Caches.Memory)).Resources())
	c.Env = append(c.Env, podIndex())
	own, mount := certificates("tls", certificatesName(b.store.Name, dc.Name, contract.RoleCache))
	c.VolumeMounts = append(c.VolumeMounts, mount)
	c.Ports = append(c.Ports, corev1.ContainerPort{Name: "parts", ContainerPort: PortParts})
	return b.statefulSet(dc, workload{
		name: cachesName(b.store.Name, dc.Name), component: ComponentCache, labels: b.partLabels(dc, ComponentCache),
		replicas: dc.Caches.Replicas, zones: b.spec.ZonesOf(dc).Frontend, containers: []corev1.Container{c},
		volumes: []corev1.Volume{own}, grace: graceSeconds, inputs: in,
	})
}

// memberArgs returns the arguments that say which member of its group a process is.
func memberArgs(member int) []string {
	if member == 1 {
		return nil
	}
	return []string{"--member=" + strconv.Itoa(member)}
}

// shardSet builds one member of one shard, whose pod has the middleman and its storage. With a register it also has a
// log, on a volume of its own: that the storage is full or slow does not concern the log.
func (b *builder) shardSet(dc *v1alpha1.DataCenter, i, member int) *appsv1.StatefulSet {
	zones := b.spec.ZonesOf(dc).Backend
	in := b.inputs(dc, zones)
	storage := b.spec.Storage
	// volumes grow, and members come and go, without a restart
	storage.Volume, storage.Log, storage.Replicas = v1alpha1.Volume{}, v1alpha1.Volume{}, 1
	in.Storage, in.Register = &storage, b.register(dc, topology.Middleman)
	labels := withLabel(b.partLabels(dc, ComponentShard), LabelShard, strconv.Itoa(i))
	if member > 1 {
		in.Member, labels = member, withLabel(labels, LabelMember, strconv.Itoa(member))
	}
	own, mount := certificates("tls", certificatesName(b.store.Name, dc.Name, contract.RoleMiddleman), strconv.Itoa(i))
	s := workload{
		name: shardName(b.store.Name, dc.Name, i, member), component: ComponentShard, labels: labels, replicas: 1,
		zones:  zones,
		volume: &b.spec.Storage.Volume, volumes: []corev1.Volume{own}, grace: graceSeconds,
		hasMembers: in.Register != nil,
	}
	file, demand := PartsFile, MiddlemanDemand
	mounts := []corev1.VolumeMount{mount}
	if in.Register != nil {
		log := b.spec.Storage.LogVolume()
		v, certificate := b.registerVolume(dc)
		s.volumes, s.log, in.Log = append(s.volumes, v), &log, &log
		mounts = append(mounts, certificate, corev1.VolumeMount{Name: logClaim, MountPath: logDir})
		file, demand = ShardsFile, MemberDemand
	}
	s.inputs = in
	mm := b.container("middleman", append([]string{topology.Middleman.String(), "--config=" + configDir + "/" + file,
		"--index=" + strconv.Itoa(i)}, memberArgs(member)...), PortHTTP,
		resourcesOr(b.spec.Storage.Middleman.Resources, demand), mounts...)
	mm.Ports = append(mm.Ports, corev1.ContainerPort{Name: "parts", ContainerPort: PortParts})
	data := corev1.VolumeMount{Name: "data", MountPath: dataDir}
	if b.spec.Storage.Engine == v1alpha1.EngineEmbedded {
		mm.VolumeMounts = append(mm.VolumeMounts, data)
		s.containers = []corev1.Container{mm}
		return b.statefulSet(dc, s)
	}
	socket := corev1.VolumeMount{Name: "socket", MountPath: socketDir}
	if in.Register == nil { // the watermark of the storage has no other disk
		mm.VolumeMounts = append(mm.VolumeMounts, data)
	}
	mm.VolumeMounts = append(mm.VolumeMounts, socket,
		corev1.VolumeMount{Name: "keys", MountPath: keysDir, ReadOnly: true})
	s.volumes = append(s.volumes, corev1.Volume{Name: "socket",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "keys",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: KeysName(b.store.Name),
				DefaultMode: ptr(int32(0o440))}}})
	s.containers = []corev1.Container{mm, b.redis(data, socket)}
	return b.statefulSet(dc, s)
}

// redis builds a stock server without a port: only containers of the pod can reach it, and only with the password. It
// acknowledges a write when it is on disk, and evicts nothing. With a memory limit it refuses writes before the kernel
// would kill it, and with it its shard.
func (b *builder) redis(mounts ...corev1.VolumeMount) corev1.Container {
	r := resourcesOr(b.spec.Storage.Resources, RedisDemand)
	return corev1.Container{
		Name: "storage", Image: b.spec.Storage.Image,
		Command: []string{"redis-server"},
		Args: append([]string{"--port", "0", "--unixsocket", socketFile, "--unixsocketperm", "700", "--dir", dataDir,
			"--aclfile", keysDir + "/" + keyUsers, "--appendonly", "yes", "--appendfsync", "always",
			"--no-appendfsync-on-rewrite", "no", "--save", "", "--maxmemory-policy", "noeviction"}, maxMemory(r)...),
		Resources: r, SecurityContext: containerSecurity(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		// Any answer is enough: without a password it is that authentication is required.
		LivenessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{
				Exec: &corev1.ExecAction{Command: []string{"redis-cli", "-s", socketFile, "ping"}},
			},
			InitialDelaySeconds: 10, PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 6},
		VolumeMounts: append([]corev1.VolumeMount{
			{Name: "keys", MountPath: keysDir + "/" + keyUsers, SubPath: keyUsers, ReadOnly: true}}, mounts...),
	}
}

// maxMemory bounds the data of a Redis to three quarters of its container's memory limit. The rest is for its buffers,
// and for the pages that change while it rewrites its log. Without a limit there is nothing to derive the bound from.
func maxMemory(r corev1.ResourceRequirements) []string {
	limit, ok := r.Limits[corev1.ResourceMemory]
	if !ok {
		return nil
	}
	return []string{"--maxmemory", strconv.FormatInt(limit.Value()/4*3, 10)}
}

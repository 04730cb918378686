package drill

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/canary"
)

// LabelCanary on the pod of a canary is its data center, LabelThrough how it connects.
const (
	LabelCanary  = "causalstore.io/drill-canary"
	LabelThrough = "causalstore.io/drill-through"
)

const (
	usersDir       = "/etc/causalstore/users"
	certificateDir = "/etc/causalstore/front"
	canaryScratch  = "/scratch" // a volume for experiments with disks; a canary does not use it
	startTimeout   = 2 * time.Minute
	requestTimeout = 15 * time.Second
)

// Pods are canaries in pods, in the namespace of the store. They connect to the Service of their data center, or to the
// sidecar that the webhook injects, and are asked through the API server's proxy.
type Pods struct {
	Client client.Client
	// REST sends requests to the core API.
	REST  rest.Interface
	Store *v1alpha1.CausalStore
	// Image is that of CausalStore.
	Image string

	run   *record.Run
	token string
	uids  map[string]string
}

func (c *Pods) podName(id CanaryID) string { return podName(c.Store.Name, c.run.ID, id) }

func podName(store, run string, id CanaryID) string {
	name := id.DataCenter
	if id.Through == record.Sidecar {
		name += "-sidecar"
	}
	return fmt.Sprintf("%s-drill-%s-%s", store, name, strings.ToLower(run[len(run)-4:]))
}

// Start implements Canaries.
func (c *Pods) Start(ctx context.Context, r *record.Run, s Settings, owner *metav1.OwnerReference,
	all []CanaryID) (failed map[CanaryID]error, err error) {
	c.run, c.token, c.uids, failed = r, rand.Text(), map[string]string{}, map[CanaryID]error{}
	secret := rand.Text()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, id := range all {
		p := CanaryPod(c.Store, r, c.Image, id, secret, c.token, s.Longest())
		if owner != nil {
			p.OwnerReferences = append(p.OwnerReferences, *owner)
		}
		switch err := c.Client.Create(ctx, p); {
		case err == nil && id.Through == record.Sidecar:
			c.uids[p.Name] = string(p.UID)
			failed[id] = sidecarProblem(c.Store, id.DataCenter, p)
		case err != nil && id.Through == record.Sidecar:
			failed[id] = err
		case err != nil:
			return nil, fmt.Errorf("create the canary of %s: %w", id, err)
		}
	}
	for _, id := range all {
		if failed[id] != nil {
			continue
		}
		err := c.await(ctx, id)
		if err != nil && id.Through != record.Sidecar {
			return nil, err
		}
		failed[id] = err
	}
	for id, err := range failed {
		if err == nil {
			continue
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.Store.Namespace, Name: c.podName(id)}}
		if err := c.Client.Delete(context.WithoutCancel(ctx), p); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("remove the canary of %s: %w", id, err)
		}
	}
	return failed, nil
}

// UIDs implements Canaries.
func (c *Pods) UIDs() map[string]string { return c.uids }

// await waits until a canary writes.
func (c *Pods) await(ctx context.Context, id CanaryID) error {
	for {
		r, err := c.Report(ctx, id, canary.Position{})
		if err == nil && strings.Contains(r.History, `"ok":true`) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("no operation has succeeded: errors by kind %v", r.Errors)
		}
		if !sleep(ctx, time.Second) {
			return fmt.Errorf(
				"the canary of %s does not work after %s: %w%s; see kubectl -n %s describe pod %s, and its log", id,
				startTimeout, err, c.podProblem(ctx, id), c.Store.Namespace, c.podName(id))
		}
	}
}

// CanaryPod builds the pod of a canary. It ends by itself.
func CanaryPod(s *v1alpha1.CausalStore, r *record.Run, image string, id CanaryID, secret, token string,
	longest time.Duration) *corev1.Pod {
	dc := id.DataCenter
	port := int32(plan.PortRedis)
	if t := s.Spec.Clients.Front.TLS; t != nil && t.ClientCASecretName == "" && id.Through == record.Front {
		port = plan.PortRedisTLS
	}
	address := net.JoinHostPort(plan.DataCenterName(s.Name, dc)+"."+s.Namespace+".svc", strconv.Itoa(int(port)))
	if id.Through == record.Sidecar {
		address = "$(" + inject.EnvAddress + ")" // the webhook sets it
	}
	listen := id.portHTTP()
	args := []string{"canary", "--data-center=" + dc, "--address=" + address,
		"--prefix=causalstore:drill:" + r.ID + ":" + secret[:8], "--duration=" + longest.String(),
		"--ttl=" + (2 * longest).String(), fmt.Sprintf("--listen-http=:%d", listen)}
	labels := record.Labels(s.Name, r.Drill, r.ID)
	labels[LabelCanary], labels[LabelThrough] = dc, string(id.Through)
	if id.Through == record.Front {
		labels[inject.LabelInject] = "false"
	}
	seconds := int64(longest / time.Second)
	no, yes, nobody := false, true, int64(65532)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName(s.Name, r.ID, id), Namespace: s.Namespace,
		Labels: labels},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: &seconds,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &nobody, RunAsGroup: &nobody,
				FSGroup:        &nobody,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		}}
	for _, pull := range s.Spec.ImagePullSecrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: pull.Name})
	}
	mount := func(name, secret, dir string, items ...corev1.KeyToPath) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: items}}})
	}
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	mounts := []corev1.VolumeMount{{Name: "scratch", MountPath: canaryScratch}}
	if users := s.Spec.Clients.UsersSecret; users != "" &&
		(id.Through == record.Front || s.Spec.Clients.SidecarPasswords) {
		mount("users", users, usersDir)
		mounts, args = append(mounts, corev1.VolumeMount{Name: "users", MountPath: usersDir, ReadOnly: true}),
			append(args, "--users-dir="+usersDir)
	}
	if id.Through == record.Sidecar {
		p.Annotations = map[string]string{inject.AnnotationDataCenter: dc,
			inject.AnnotationMode: string(v1alpha1.InjectExplicit)}
		p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure // as an app's, it comes back after it was stopped
		p.Spec.Affinity = inFrontZone(s, dc)
		args = append(args, "--name="+dc+"/sidecar",
			fmt.Sprintf("--one-session=%t", s.Spec.Session.Scope != v1alpha1.ScopeConnection))
	}
	if port == plan.PortRedisTLS {
		mount("front", s.Spec.Clients.Front.TLS.SecretName, certificateDir,
			corev1.KeyToPath{Key: corev1.TLSCertKey, Path: corev1.TLSCertKey})
		mounts, args = append(mounts, corev1.VolumeMount{Name: "front", MountPath: certificateDir, ReadOnly: true}),
			append(args, "--front-certificate-dir="+certificateDir)
	}
	p.Spec.Containers = []corev1.Container{{
		Name: "canary", Image: image, Args: args, VolumeMounts: mounts,
		Env: []corev1.EnvVar{{Name: "CAUSALSTORE_CANARY_SECRET", Value: secret},
			{Name: "CAUSALSTORE_CANARY_TOKEN", Value: token}},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: listen}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: canary.PathReady,
				Port: intstr.FromInt32(listen)}}, PeriodSeconds: 2,
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
				corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")}},
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
	}}
	return p
}

func (c *Pods) request(ctx context.Context, r *rest.Request, id CanaryID, path string,
	parameters map[string]string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r = r.Namespace(c.Store.Namespace).Resource("pods").Name(net.JoinHostPort(c.podName(id),
		strconv.Itoa(int(id.portHTTP())))).SubResource("proxy").Suffix(c.token, path)
	for name, value := range parameters {
		r = r.Param(name, value)
	}
	b, err := r.DoRaw(ctx)
	if err != nil {
		// The path has the token, which is nobody's business.
		return nil,
			errors.New(strings.ReplaceAll(fmt.Sprintf("ask the canary of %s to %s: %v: %.200s", id, path, err,
				strings.TrimSpace(string(b))), c.token, "TOKEN"))
	}
	return b, nil
}

// Report implements Canaries.
func (c *Pods) Report(ctx context.Context, id CanaryID, from canary.Position) (r canary.Report, err error) {
	b, err := c.request(ctx, c.REST.Get(), id, canary.PathReport,
		map[string]string{"incarnation": from.Incarnation, "bytes": strconv.Itoa(from.Bytes),
			"samples": strconv.Itoa(from.Samples)})
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// Stop implements Canaries.
func (c *Pods) Stop(ctx context.Context, id CanaryID) error {
	_, err := c.request(ctx, c.REST.Post(), id, canary.PathStop, nil)
	return err
}

// ReadFinally implements Canaries.
func (c *Pods) ReadFinally(ctx context.Context, id CanaryID, round int) (history.History, error) {
	b, err := c.request(ctx, c.REST.Post(), id, canary.PathFinal, map[string]string{"round": strconv.Itoa(round)})
	if err != nil {
		return nil, err
	}
	return history.ReadAll(strings.NewReader(string(b)))
}

// DeleteKeys implements Canaries.
func (c *Pods) DeleteKeys(ctx context.Context, id CanaryID) error {
	_, err := c.request(ctx, c.REST.Post(), id, canary.PathDelete, nil)
	return err
}

// Remove implements Canaries.
func (c *Pods) Remove(ctx context.Context) error {
	if c.run == nil {
		return nil
	}
	return c.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(c.Store.Namespace),
		client.MatchingLabels(record.Labels(c.run.Store, c.run.Drill, c.run.ID)))
}

// ImageOf returns the image of CausalStore that a store runs.
func ImageOf(ctx context.Context, c client.Reader, s *v1alpha1.CausalStore) (string, error) {
	if s.Spec.Image != "" {
		return s.Spec.Image, nil
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(s.Namespace),
		client.MatchingLabels(plan.Labels(s.Name))); err != nil {
		return "", fmt.Errorf("list the pods of %s: %w", s.Name, err)
	}
	for _, p := range pods.Items {
		if slices.Contains([]string{plan.ComponentCoordinator, plan.ComponentCache}, p.Labels[plan.LabelComponent]) &&
			len(p.Spec.Containers) > 0 {
			return p.Spec.Containers[0].Image, nil
		}
	}
	return "", fmt.Errorf("store %s has no pods whose image canaries could run: set --image", s.Name)
}

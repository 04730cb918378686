package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// collect adds everything about a store to a bundle. What cannot be read is noted in it, and the rest is collected all
// the same: the cluster is not well when somebody needs a bundle.
func (k *connection) collect(ctx context.Context, b *bundle, s *v1alpha1.CausalStore, logLines int64) {
	now := time.Now()
	k.addObject(b, "store.yaml", s.DeepCopy())
	parts, err := k.partPods(ctx, s)
	if err != nil {
		b.fail("pods of the store", err)
	}
	k.collectReports(ctx, b, s, now)
	ours := []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels(plan.Labels(s.Name))}
	for name, list := range map[string]client.ObjectList{
		"statefulsets": &appsv1.StatefulSetList{}, "deployments": &appsv1.DeploymentList{}, "pods": &corev1.PodList{},
		"services": &corev1.ServiceList{}, "configmaps": &corev1.ConfigMapList{},
		"claims": &corev1.PersistentVolumeClaimList{}, "budgets": &policyv1.PodDisruptionBudgetList{},
		"networkpolicies": &networkingv1.NetworkPolicyList{},
	} {
		k.addList(ctx, b, "store/"+name+".yaml", list, ours...)
	}
	k.addList(ctx, b, "events.yaml", &eventsv1.EventList{}, client.InNamespace(s.Namespace))
	k.addList(ctx, b, "nodes.yaml", &corev1.NodeList{})
	var operator corev1.PodList
	if k.addList(ctx, b, "operator/pods.yaml", &operator, labelsOfOperator) {
		k.addList(ctx, b, "operator/deployments.yaml", &appsv1.DeploymentList{}, labelsOfOperator)
	}
	apps, err := k.appPods(ctx, s)
	if err != nil {
		b.fail("pods of apps", err)
	}
	k.addObject(b, "apps/pods.yaml", sidecarsOnly(apps))

	pods, err := typedv1.NewForConfig(k.config)
	if err != nil {
		b.fail("logs", err)
		return
	}
	c := partCollector{pods: pods, bundle: b, lines: logLines}
	for i := range operator.Items {
		c.logs(ctx, "operator/", &operator.Items[i], "")
	}
	for i := range parts {
		c.logs(ctx, "store/", &parts[i], "")
	}
	for i := range apps {
		c.logs(ctx, "apps/"+apps[i].Namespace+"/", &apps[i], inject.Container)
	}
	for _, p := range processesOf(parts, apps) {
		c.answers(ctx, p)
	}
}

// collectReports adds what status, doctor and topology would print.
func (k *connection) collectReports(ctx context.Context, b *bundle, s *v1alpha1.CausalStore, now time.Time) {
	pods, err := k.readStorePods(ctx, s)
	if err != nil {
		b.fail("pods of status.txt", err)
	}
	var out bytes.Buffer
	if err := writeStatus(&out, s, pods, now); err != nil {
		b.fail("status.txt", err)
	}
	b.add("status.txt", out.Bytes())
	e, err := k.examine(ctx, s)
	if err != nil {
		b.fail("doctor.txt", err)
		return
	}
	out.Reset()
	if err := writeFindings(&out, s, e.findings()); err != nil {
		b.fail("doctor.txt", err)
	}
	b.add("doctor.txt", out.Bytes())
}

// addList lists objects and adds them as YAML. It reports whether they could be listed.
func (k *connection) addList(ctx context.Context, b *bundle, name string, list client.ObjectList,
	options ...client.ListOption) bool {
	if err := k.List(ctx, list, options...); err != nil {
		b.fail(name, err)
		return false
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		b.fail(name, err)
		return false
	}
	for _, o := range items {
		hide(o)
	}
	if err := meta.SetList(list, items); err != nil {
		b.fail(name, err)
		return false
	}
	k.addObject(b, name, list)
	return true
}

func (k *connection) addObject(b *bundle, name string, o runtime.Object) {
	hide(o)
	if gvk, err := apiutil.GVKForObject(o, k.Scheme()); err == nil {
		o.GetObjectKind().SetGroupVersionKind(gvk)
	}
	text, err := yaml.Marshal(o)
	if err != nil {
		b.fail(name, err)
		return
	}
	b.add(name, text)
}

// lastApplied is the annotation in which kubectl apply keeps the whole manifest, with all values of environment
// variables.
const lastApplied = corev1.LastAppliedConfigAnnotation

// hide removes from an object what nobody needs to find a fault, and what may be secret: the values of environment
// variables.
func hide(o runtime.Object) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
		annotations := m.GetAnnotations()
		delete(annotations, lastApplied)
		delete(annotations, plan.AnnotationTemplate)
		m.SetAnnotations(annotations)
	}
	var spec *corev1.PodSpec
	switch o := o.(type) {
	case *corev1.Pod:
		spec = &o.Spec
	case *appsv1.StatefulSet:
		spec = &o.Spec.Template.Spec
	case *appsv1.Deployment:
		spec = &o.Spec.Template.Spec
	default:
		return
	}
	for _, all := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range all {
			for j := range all[i].Env {
				if all[i].Env[j].Value != "" {
					all[i].Env[j].Value = "(left out)"
				}
			}
		}
	}
}

// sidecarsOnly reduces the pods of apps to their sidecars: what else they run is not ours to collect.
func sidecarsOnly(pods []corev1.Pod) *corev1.PodList {
	list := &corev1.PodList{}
	for i := range pods {
		p := &corev1.Pod{ObjectMeta: *pods[i].ObjectMeta.DeepCopy(), Status: *pods[i].Status.DeepCopy()}
		p.Annotations = map[string]string{}
		for _, name := range []string{inject.AnnotationInjected, inject.AnnotationNotInjected,
			inject.AnnotationDataCenter, inject.AnnotationMode} {
			if v, ok := pods[i].Annotations[name]; ok {
				p.Annotations[name] = v
			}
		}
		p.Spec.NodeName = pods[i].Spec.NodeName
		for _, c := range pods[i].Spec.InitContainers {
			if c.Name == inject.Container || c.Name == inject.RedirectContainer {
				p.Spec.InitContainers = append(p.Spec.InitContainers, *c.DeepCopy())
			}
		}
		p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses = nil, nil
		hide(p)
		list.Items = append(list.Items, *p)
	}
	return list
}

// partCollector reads logs and HTTP answers of pods.
type partCollector struct {
	pods   typedv1.CoreV1Interface
	bundle *bundle
	lines  int64
}

// logTimeout bounds the reading of one log.
const logTimeout = 15 * time.Second

// logs adds the logs of the containers of a pod, or of one of them, and of their previous lives.
func (c *partCollector) logs(ctx context.Context, folder string, p *corev1.Pod, only string) {
	for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, s := range all {
			if only != "" && s.Name != only {
				continue
			}
			c.log(ctx, folder, p, s.Name, false)
			if s.RestartCount > 0 {
				c.log(ctx, folder, p, s.Name, true)
			}
		}
	}
}

func (c *partCollector) log(ctx context.Context, folder string, p *corev1.Pod, container string, previous bool) {
	name := fmt.Sprintf("%slogs/%s/%s.log", folder, p.Name, container)
	if previous {
		name = fmt.Sprintf("%slogs/%s/%s.previous.log", folder, p.Name, container)
	}
	limit := int64(maxBundleFile)
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	from, err := c.pods.Pods(p.Namespace).GetLogs(p.Name,
		&corev1.PodLogOptions{Container: container, Previous: previous, Timestamps: true,
			TailLines: &c.lines, LimitBytes: &limit}).Stream(ctx)
	c.addStream(name, from, err)
}

// answers adds the metrics and the readiness report of a process, through the API server.
func (c *partCollector) answers(ctx context.Context, p process) {
	for path, extension := range map[string]string{contract.PathMetrics: "metrics", contract.PathReady: "readyz.json"} {
		name := fmt.Sprintf("processes/%s/%s-%d.%s", p.namespace, p.pod, p.port, extension)
		c.answer(ctx, p, path, name)
	}
}

func (c *partCollector) answer(ctx context.Context, p process, path, name string) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	result := c.pods.RESTClient().Get().Namespace(p.namespace).Resource("pods").SubResource("proxy").
		Name(p.pod + ":" + strconv.Itoa(p.port)).Suffix(path).Do(ctx)
	content, err := result.Raw()
	if err != nil && (path != contract.PathReady || !isReport(content)) {
		c.bundle.fail(name, err)
		return
	}
	c.bundle.add(name, content)
}

// isReport reports whether an answer is a readiness report: a part that is not ready sends one as well, with the status
// 503.
func isReport(content []byte) bool {
	var report contract.Readiness
	return json.Unmarshal(content, &report) == nil && report.Phase != ""
}

func (c *partCollector) addStream(name string, from io.ReadCloser, err error) {
	if err != nil {
		c.bundle.fail(name, err)
		return
	}
	defer func() { _ = from.Close() }()
	content, err := io.ReadAll(io.LimitReader(from, maxBundleFile))
	if err != nil {
		c.bundle.fail(name, err)
	}
	c.bundle.add(name, content)
}

package drill

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/drill/record"
)

// Rights are what whoever runs drills of a store needs in its namespace.
func Rights() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"causalstores"},
			Verbs: []string{"get", "list"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"causalstores/status"},
			Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"},
			Verbs: []string{"get", "list", "create", "delete", "deletecollection"}},
		{APIGroups: []string{""}, Resources: []string{"pods/proxy"}, Verbs: []string{"get", "create"}},
		{APIGroups: []string{eventsv1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"get", "list", "create", "update", "patch", "delete"}},
		{APIGroups: []string{chaosAPI.Group}, Resources: []string{"podchaos", "networkchaos", "timechaos", "iochaos"},
			Verbs: []string{"get", "list", "create", "patch", "delete"}},
		{APIGroups: []string{chaosAPI.Group}, Resources: []string{"podnetworkchaos", "podiochaos"},
			Verbs: []string{"get", "list", "update", "delete"}},
	}
}

// Schedule is when a drill is repeated.
type Schedule struct {
	Drill  *Drill
	Choice Choice
	// Cron is when, in UTC; Window when it may run.
	Cron, Window string
	Settings     Settings
	Image        string
}

// Objects are a CronJob that runs a drill, its ServiceAccount, and the rights that this needs in the namespace of the
// store. It has no rights elsewhere: zones are then told by what pods run, and pods of apps in other namespaces are not
// cut off.
func (s *Schedule) Objects(store *v1alpha1.CausalStore) ([]client.Object, error) {
	if _, err := ParseWindow(s.Window); err != nil {
		return nil, err
	}
	name := store.Name + "-drill"
	of := func(n string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: n, Namespace: store.Namespace,
			Labels: map[string]string{"app.kubernetes.io/name": "causalstore-drill",
				"app.kubernetes.io/instance": store.Name}}
	}
	args := []string{"kubectl", "drill", "run", s.Drill.Name, "--store=" + store.Name, "--namespace=" + store.Namespace,
		"--yes", "--image=" + s.Image,
		"--baseline=" + s.Settings.Baseline.String(), "--injection=" + s.Settings.Injection.String()}
	for _, f := range [][2]string{{"--data-center", s.Choice.DataCenter}, {"--to", s.Choice.To},
		{"--ring", s.Choice.Ring}, {"--window", s.Window},
		{"--sidecar-canaries", unlessDefault(s.Settings.Sidecars)}} {
		if f[1] != "" {
			args = append(args, f[0]+"="+f[1])
		}
	}
	no, yes, nobody, never := false, true, int64(65532), int32(0)
	deadline := int64(s.Settings.Longest().Seconds())
	job := &batchv1.CronJob{ObjectMeta: of(name + "-" + s.Drill.Name)}
	job.Labels[record.LabelDrill] = s.Drill.Name
	utc := "Etc/UTC"
	job.Spec = batchv1.CronJobSpec{Schedule: s.Cron, TimeZone: &utc, ConcurrencyPolicy: batchv1.ForbidConcurrent,
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			BackoffLimit: &never, ActiveDeadlineSeconds: &deadline, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"causalstore.io/inject": "false"}},
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: name,
					EnableServiceLinks: &no,
					SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &nobody,
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					Containers: []corev1.Container{{Name: "drill", Image: s.Image, Args: args,
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"),
								corev1.ResourceMemory: resource.MustParse("64Mi")},
							Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}},
						SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no,
							ReadOnlyRootFilesystem: &yes,
							Capabilities:           &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}},
			}}}}
	if len(job.Name) > 52 { // Kubernetes appends 11 characters to the names of jobs
		return nil,
			fmt.Errorf("the CronJob would be called %s, which is longer than the 52 characters that Kubernetes allows",
				job.Name)
	}
	for _, pull := range store.Spec.ImagePullSecrets {
		pod := &job.Spec.JobTemplate.Spec.Template.Spec
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: pull.Name})
	}
	objects := []client.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: of(name)},
		&rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
			ObjectMeta: of(name), Rules: Rights()},
		&rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
			ObjectMeta: of(name),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: store.Namespace}}},
	}
	job.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"}
	return append(objects, job), nil
}

// unlessDefault is empty for the mode that the command has by itself.
func unlessDefault(m SidecarMode) string {
	if m == SidecarsIfPossible {
		return ""
	}
	return string(m)
}

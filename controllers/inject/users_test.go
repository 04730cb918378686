package inject_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/inject"
)

func TestSidecarsAskForPasswordsIfTheStoreSaysSo(t *testing.T) {
	for secret, given := range map[string]func(*inject.Request){"orders-acl": func(*inject.Request) {},
		"orders-acl.shop": otherNamespace} {
		r := request(t, app)
		given(&r)
		r.Store.Spec.Clients = v1alpha1.Clients{UsersSecret: "people", SidecarPasswords: true}
		p := inject.Decide(r).Pod
		i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "causalstore-users" })
		c := p.Spec.InitContainers[0]
		if i < 0 || p.Spec.Volumes[i].Secret.SecretName != secret ||
			!slices.Contains(c.Args, "--users-file=/etc/causalstore-users/users.acl") ||
			!slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == "causalstore-users" && m.MountPath == "/etc/causalstore-users"
			}) {
			t.Errorf("%s is not used: %+v %+v", secret, c, p.Spec.Volumes)
		}
		r.Store.Spec.Clients.SidecarPasswords = false
		if p := inject.Decide(r).Pod; slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == "causalstore-users"
		}) {
			t.Error("the pod has users although sidecars ask for no passwords")
		}
	}
}

func TestServicesThatDoNotExistAreNotRedirected(t *testing.T) {
	r := request(t, strings.Replace(app, "name: app}",
		"name: app, annotations: {causalstore.io/injection-mode: Redirect}}", 1))
	off := false
	r.Store.Spec.Clients.Front.Enabled, r.Addresses = &off, nil
	if d := inject.Decide(r); d.Reason != inject.RedirectImpossible ||
		!strings.Contains(d.Message, "its front is off") {
		t.Errorf("%s: %s", d.Reason, d.Message)
	}
	delete(r.Pod.Annotations, inject.AnnotationMode)
	if d := inject.Decide(r); d.Reason != inject.Injected {
		t.Errorf("%s: %s", d.Reason, d.Message)
	}
}

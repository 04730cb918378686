package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// withClients returns the plan of a store with users and TLS.
func withClients(t *testing.T, change func(*v1alpha1.Clients)) plan.Plan {
	t.Helper()
	in := observed(t, "one.yaml", "local")
	in.Store.Spec.Clients = v1alpha1.Clients{UsersSecret: "people",
		Front: v1alpha1.Front{TLS: &v1alpha1.FrontTLS{SecretName: "certificate", ClientCASecretName: "authorities"}}}
	in.Clients = plan.ClientSecrets{Users: "user app off ~* &* +@all\n", UsersVersion: "7"}
	if change != nil {
		change(&in.Store.Spec.Clients)
	}
	if wrong := in.Store.Validate(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	return planned(t, in)
}

// has reports whether a plan has an object of that type and name.
func has(p plan.Plan, kind, name string) bool {
	for _, o := range p.Apply {
		if o.GetName() == name && strings.HasSuffix(fmt.Sprintf("%T", o), "."+kind) {
			return true
		}
	}
	return false
}

// frontPolicy returns the ports to which the policy for fronts admits clients.
func frontPolicy(t *testing.T, p plan.Plan) (ports []int32) {
	for _, port := range named[*networkingv1.NetworkPolicy](t, p, "try-front").Spec.Ingress[0].Ports {
		ports = append(ports, port.Port.IntVal)
	}
	return ports
}

func TestFrontsServeUsersWithTLS(t *testing.T) {
	p := withClients(t, nil)
	pod := named[*appsv1.StatefulSet](t, p, "try-here-cc").Spec.Template.Spec
	front := pod.Containers[1]
	args := strings.Join(front.Args, " ")
	for _, want := range []string{"--listen-redis=none", "--listen-redis-tls=:6380",
		"--redis-tls-cert=/etc/causalstore-redis-tls/tls.crt", "--redis-tls-key=/etc/causalstore-redis-tls/tls.key",
		"--redis-tls-client-ca=/etc/causalstore-client-ca/ca.crt", "--users-file=/etc/causalstore-users/users.acl"} {
		if !strings.Contains(args, want) {
			t.Errorf("the front lacks %s: %s", want, args)
		}
	}
	for name, secret := range map[string]string{"users": "try-acl", "redis-tls": "certificate",
		"redis-client-ca": "authorities"} {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		if i < 0 || pod.Volumes[i].Secret.SecretName != secret {
			t.Errorf("volume %s is not of Secret %s: %+v", name, secret, pod.Volumes)
			continue
		}
		// A missing certificate must not keep the coordinator from starting.
		if optional := pod.Volumes[i].Secret.Optional != nil; optional != (name != "users") {
			t.Errorf("volume %s: optional is %t", name, optional)
		}
		mounts := func(m corev1.VolumeMount) bool { return m.Name == name }
		if !slices.ContainsFunc(front.VolumeMounts, mounts) ||
			slices.ContainsFunc(pod.Containers[0].VolumeMounts, mounts) {
			t.Errorf("volume %s is not mounted in the front alone", name)
		}
	}
	if got := string(
		named[*corev1.Secret](t, p, "try-acl").Data[plan.KeyUsersFile]); got != "user app off ~* &* +@all\n" {
		t.Errorf("users: %q", got)
	}
	for _, name := range []string{"try", "try-here"} {
		ports := named[*corev1.Service](t, p, name).Spec.Ports
		if len(ports) != 1 || ports[0].Port != 6380 || ports[0].TargetPort.StrVal != "redis-tls" {
			t.Errorf("Service %s has the ports %+v", name, ports)
		}
	}
	if got := frontPolicy(t, p); !slices.Equal(got, []int32{6380}) {
		t.Errorf("the policy admits to %v", got)
	}
	both := withClients(t, func(c *v1alpha1.Clients) { c.Front.TLS.Plaintext = true })
	if got := frontPolicy(t, both); !slices.Equal(got, []int32{6379, 6380}) ||
		len(named[*corev1.Service](t, both, "try").Spec.Ports) != 2 {
		t.Errorf("with plaintext the policy admits to %v", got)
	}
}

func TestNothingOfTheFrontRemainsWhenItIsOff(t *testing.T) {
	off := false
	p := withClients(t, func(c *v1alpha1.Clients) { *c = v1alpha1.Clients{Front: v1alpha1.Front{Enabled: &off}} })
	if n := len(named[*appsv1.StatefulSet](t, p, "try-here-cc").Spec.Template.Spec.Containers); n != 1 {
		t.Errorf("the pods of coordinators have %d containers", n)
	}
	for _, o := range [][2]string{{"Service", "try"}, {"Service", "try-here"}, {"NetworkPolicy", "try-front"},
		{"Secret", "try-acl"}} {
		if has(p, o[0], o[1]) {
			t.Errorf("there is a %s %s", o[0], o[1])
		}
	}
	if !has(p, "Service", "try-here-parts") || !has(p, "NetworkPolicy", "try-parts") {
		t.Error("the Service or policy of the parts is missing")
	}
	if rules := named[*networkingv1.NetworkPolicy](t, p, "try-parts").Spec.Ingress; len(rules[1].Ports) != 1 {
		t.Errorf("the policy of the parts admits to the health port of the front: %+v", rules)
	}
}

// Pods restart only for what is in their containers: which users there are is not, nor whether sidecars ask for
// passwords.
func TestOnlyWhatFrontsNeedRestartsThem(t *testing.T) {
	template := func(change func(*v1alpha1.Clients)) string {
		return named[*appsv1.StatefulSet](t, withClients(t, change),
			"try-here-cc").Spec.Template.Annotations["causalstore.io/inputs"]
	}
	before := template(nil)
	for what, c := range map[string]struct {
		change   func(*v1alpha1.Clients)
		restarts bool
	}{
		"another Secret of users":    {func(c *v1alpha1.Clients) { c.UsersSecret = "others" }, false},
		"passwords for sidecars":     {func(c *v1alpha1.Clients) { c.SidecarPasswords = true }, false},
		"no users":                   {func(c *v1alpha1.Clients) { c.UsersSecret = "" }, true},
		"another certificate Secret": {func(c *v1alpha1.Clients) { c.Front.TLS.SecretName = "other" }, true},
		"no TLS":                     {func(c *v1alpha1.Clients) { c.Front.TLS = nil }, true},
	} {
		if before == "" || (template(c.change) != before) != c.restarts {
			t.Errorf("%s: restarts is not %t", what, c.restarts)
		}
	}
}

func TestPodsAreNotifiedOfNewUsers(t *testing.T) {
	in := observed(t, "one.yaml", "local")
	in.Store.Spec.Clients.UsersSecret, in.Clients.UsersVersion = "people", "8"
	for i, version := range []string{"", "7", "8"} {
		p := corev1.Pod{}
		p.Name, p.Labels = fmt.Sprint("try-here-cc-", i),
			map[string]string{plan.LabelComponent: plan.ComponentCoordinator, plan.LabelDataCenter: "here"}
		p.Annotations = map[string]string{plan.AnnotationUsers: version}
		in.Pods = append(in.Pods, p)
	}
	if got := planned(t, in).NotifyUsers; !slices.Equal(got, []string{"try-here-cc-0", "try-here-cc-1"}) {
		t.Errorf("notified are %v", got)
	}
}

func TestASecretWithUsersIsReadWithoutShowingIt(t *testing.T) {
	users, err := plan.UsersOf(map[string][]byte{"report": []byte("secret\r\n\nolder"),
		"app": []byte("#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b")})
	hash := func(p string) contract.PasswordHash { return contract.HashPassword([]byte(p)) }
	want := []contract.User{{Name: "app", Passwords: []contract.PasswordHash{hash("secret")}},
		{Name: "report", Passwords: []contract.PasswordHash{hash("secret"), hash("older")}}}
	if d := cmp.Diff(want, users); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	for want, data := range map[string]map[string][]byte{
		"has no user":               {},
		"user app has no password":  {"app": []byte("\n")},
		"user app has 3 passwords":  {"app": []byte("hunter\nhunter2\nhunter3")},
		"is not the name of a user": {"a b": []byte("hunter")},
	} {
		if _, err := plan.UsersOf(data); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

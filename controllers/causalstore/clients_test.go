package causalstore_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// users returns the file of users that fronts of the store "try" have.
func (k *cluster) users() string {
	k.t.Helper()
	s := &corev1.Secret{}
	k.get(plan.UsersName("try"), s)
	return string(s.Data[plan.KeyUsersFile])
}

func TestUsersFollowTheirSecretAndAMissingSecretIsNamed(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.Clients = v1alpha1.Clients{UsersSecret: "people",
			Front: v1alpha1.Front{TLS: &v1alpha1.FrontTLS{SecretName: "certificate", Plaintext: true}}}
	})
	c := k.awaitCondition("try", v1alpha1.ConditionClientsReady, no, v1alpha1.ReasonSecretMissing)
	for _, want := range []string{"Secret people does not exist",
		"create secret generic people --from-literal=USER=PASSWORD", "Secret certificate does not exist",
		"create secret tls certificate"} {
		if !strings.Contains(c.Message, want) {
			t.Errorf("the condition does not say %q: %s", want, c.Message)
		}
	}
	k.awaitCondition("try", v1alpha1.ConditionReady, no, v1alpha1.ReasonSecretMissing)
	k.await("the fronts to have no users", func() (bool, string) {
		return k.exists(plan.UsersName("try"), &corev1.Secret{}) && k.users() == "", ""
	})

	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Clients.Front.TLS = nil })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "people"},
		Data: map[string][]byte{"app": []byte("hunter2")}}
	k.create(secret)
	first := contract.FormatUsers([]contract.User{{Name: "app",
		Passwords: []contract.PasswordHash{contract.HashPassword([]byte("hunter2"))}}})
	k.await("the fronts to have the users", func() (bool, string) { return k.users() == first, k.users() })
	k.awaitCondition("try", v1alpha1.ConditionClientsReady, yes, v1alpha1.ReasonClientsConfigured)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.await("the pod of the front to be notified", func() (bool, string) {
		p := &corev1.Pod{}
		if !k.exists("try-here-cc-0", p) {
			return false, "it is being replaced"
		}
		return p.Annotations[plan.AnnotationUsers] == secret.ResourceVersion, p.Annotations[plan.AnnotationUsers]
	})

	// What cannot be used leaves the users as they are.
	secret.Data = map[string][]byte{"app": []byte("hunter3\nhunter4\nhunter5")}
	if err := k.client.Update(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
	c = k.awaitCondition("try", v1alpha1.ConditionClientsReady, no, v1alpha1.ReasonSecretInvalid)
	if !strings.Contains(c.Message, "Secret people: user app has 3 passwords") ||
		strings.Contains(c.Message, "hunter") {
		t.Errorf("the condition says %s", c.Message)
	}
	if got := k.users(); got != first {
		t.Errorf("the users are %q", got)
	}

	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.Clients = v1alpha1.Clients{Front: v1alpha1.Front{Enabled: ptr(false)}}
	})
	k.await("the users and Services to go", func() (bool, string) {
		return !k.exists(plan.UsersName("try"), &corev1.Secret{}) && !k.exists("try", &corev1.Service{}) &&
			!k.exists("try-here", &corev1.Service{}), ""
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.await("no endpoint in the status", func() (bool, string) {
		e := k.store("try").Status.Endpoint
		return e == "", e
	})
}

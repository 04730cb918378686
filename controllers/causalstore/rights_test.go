package causalstore_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// grantInNamespace gives a user the rights of the operator in the namespace only, as the chart does for
// watchNamespaces.
func (k *cluster) grantInNamespace(user string) {
	k.t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "role.yaml"))
	if err != nil {
		k.t.Fatal(err)
	}
	all := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(b, all); err != nil {
		k.t.Fatal(err)
	}
	inCluster := func(r rbacv1.PolicyRule) bool {
		return slices.Contains([]string{"nodes", "namespaces", "persistentvolumes", "leases"}, r.Resources[0])
	}
	meta := metav1.ObjectMeta{Namespace: k.namespace, Name: user}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	clusterRole := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}}
	role := &rbacv1.Role{ObjectMeta: meta}
	for _, r := range all.Rules {
		if inCluster(r) {
			clusterRole.Rules = append(clusterRole.Rules, r)
		} else {
			role.Rules = append(role.Rules, r)
		}
	}
	k.create(clusterRole)
	k.create(role)
	k.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user}})
	k.create(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}})
}

func TestAnOperatorWithRightsInOneNamespaceRunsAStoreThere(t *testing.T) {
	k := newCluster(t)
	k.user = "operator-of-" + k.namespace
	k.grantInNamespace(k.user)
	k.prober = k.parts
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:v2" })
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.delete("try")
	k.await("all claims to be deleted", func() (bool, string) { return k.claims() == 0, "some exist" })
}

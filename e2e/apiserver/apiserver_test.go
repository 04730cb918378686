package apiserver_test

import (
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

func TestTheServerAcceptsAnAdministrator(t *testing.T) {
	fromFile, err := clientcmd.BuildConfigFromFlags("", apiserver.Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range []*rest.Config{apiserver.ForTest(t), fromFile} {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		v, err := client.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		t.Log("kube-apiserver", v.GitVersion)
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestCRDsAreInstalledTwiceAtTheSameTime(t *testing.T) {
	for range 2 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			apiserver.InstallCRDs(t, filepath.Join("..", "..", "config", "crd", "bases"))
		})
	}
}

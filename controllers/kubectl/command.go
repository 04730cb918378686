// Package kubectl is what people ask of stores in a cluster: `causalstore kubectl`, or `kubectl causal` where the binary is
// installed under the name kubectl-causal.
package kubectl

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// PluginName is what the binary is called as a plugin of kubectl.
const PluginName = "kubectl-causal"

// cluster is which cluster and namespace is meant.
type cluster struct{ kubeconfig, context, namespace string }

// NewCommand returns the command with its subcommands.
func NewCommand() *cobra.Command {
	var c cluster
	cmd := &cobra.Command{
		Use:   "kubectl",
		Short: "Look at stores in a Kubernetes cluster; also a plugin of kubectl",
		Long: `Shows how stores are. As a plugin: ln -s $(command -v causalstore) /usr/local/bin/kubectl-causal, and then for example
kubectl causal status.`,
	}
	fs := cmd.PersistentFlags()
	fs.StringVar(&c.kubeconfig, "kubeconfig", "", "file with clusters; default: KUBECONFIG, or ~/.kube/config")
	fs.StringVar(&c.context, "context", "", "context in that file; default: the current one")
	fs.StringVarP(&c.namespace, "namespace", "n", "", "namespace; default: that of the context")
	status := &cobra.Command{
		Use:   "status [STORE]",
		Short: "Show rings, data centres, parts, lags and what is wrong, in one screen",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return c.status(cmd, name)
		},
	}
	explain := &cobra.Command{Use: "explain", Short: "Explain a pod"}
	explain.AddCommand(&cobra.Command{
		Use:   "pod POD",
		Short: "Say whether an app's pod has a sidecar, and which, or why not",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.explainPod(cmd, args[0]) },
	})
	cmd.AddCommand(status, explain)
	return cmd
}

// connect returns a client, and the namespace that is meant.
func (c *cluster) connect() (client.Client, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
	namespace := c.namespace
	if namespace == "" {
		var err error
		if namespace, _, err = config.Namespace(); err != nil {
			return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
		}
	}
	rest, err := config.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		return nil, "", err
	}
	k, err := client.New(rest, client.Options{Scheme: s})
	return k, namespace, err
}

func (c *cluster) status(cmd *cobra.Command, name string) error {
	k, namespace, err := c.connect()
	if err != nil {
		return err
	}
	var stores v1alpha1.CausalStoreList
	if err := k.List(cmd.Context(), &stores, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list the stores of namespace %s: %w", namespace, err)
	}
	shown := 0
	for i := range stores.Items {
		s := &stores.Items[i]
		if name != "" && s.Name != name {
			continue
		}
		var pods corev1.PodList
		if err := k.List(cmd.Context(), &pods, client.InNamespace(namespace),
			client.MatchingLabels(plan.Labels(s.Name))); err != nil {
			return fmt.Errorf("list the pods of %s: %w", s.Name, err)
		}
		if shown++; shown > 1 {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := Status(cmd.OutOrStdout(), s, pods.Items, time.Now()); err != nil {
			return err
		}
	}
	switch {
	case shown == 0 && name != "":
		return fmt.Errorf("namespace %s has no CausalStore %s; give another with --namespace, or see: kubectl get causalstores --all-namespaces",
			namespace, name)
	case shown == 0:
		return fmt.Errorf("namespace %s has no CausalStore; give another with --namespace, or see: kubectl get causalstores --all-namespaces",
			namespace)
	}
	return nil
}

func (c *cluster) explainPod(cmd *cobra.Command, name string) error {
	k, namespace, err := c.connect()
	if err != nil {
		return err
	}
	p := &corev1.Pod{}
	if err := k.Get(cmd.Context(), client.ObjectKey{Namespace: namespace, Name: name}, p); err != nil {
		return err
	}
	ns := &corev1.Namespace{}
	if err := k.Get(cmd.Context(), client.ObjectKey{Name: namespace}, ns); err != nil {
		return err
	}
	return ExplainPod(cmd.OutOrStdout(), p, ns)
}

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// cluster is which cluster and namespace is meant.
type cluster struct{ kubeconfig, context, namespace string }

// connection is what a command reads from.
type connection struct {
	client.Client
	config    *rest.Config
	namespace string
}

func (c *cluster) connect() (*connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	files := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
	out := &connection{namespace: c.namespace}
	if out.namespace == "" {
		var err error
		if out.namespace, _, err = files.Namespace(); err != nil {
			return nil, fmt.Errorf("read the kubeconfig: %w", err)
		}
	}
	var err error
	if out.config, err = files.ClientConfig(); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; name a file with --kubeconfig or KUBECONFIG", err)
	}
	out.config.QPS = -1 // the API server has its own fair queues
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		return nil, err
	}
	out.Client, err = client.New(out.config, client.Options{Scheme: s})
	return out, err
}

// stores of the namespace, or the one of that name.
func (k *connection) stores(ctx context.Context, name string) ([]v1alpha1.CausalStore, error) {
	var all v1alpha1.CausalStoreList
	if err := k.List(ctx, &all, client.InNamespace(k.namespace)); err != nil {
		return nil, fmt.Errorf("list the stores of namespace %s: %w", k.namespace, err)
	}
	const remedy = "give another with --namespace, or see: kubectl get causalstores --all-namespaces"
	if len(all.Items) == 0 {
		return nil, fmt.Errorf("namespace %s has no CausalStore; %s", k.namespace, remedy)
	}
	if name == "" {
		return all.Items, nil
	}
	for _, s := range all.Items {
		if s.Name == name {
			return []v1alpha1.CausalStore{s}, nil
		}
	}
	return nil, fmt.Errorf("namespace %s has no CausalStore %s; %s", k.namespace, name, remedy)
}

// store is the one of that name, or the only one.
func (k *connection) store(ctx context.Context, name string) (*v1alpha1.CausalStore, error) {
	all, err := k.stores(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 {
		return nil, fmt.Errorf("namespace %s has several stores; name one: %s", k.namespace, strings.Join(names(all), ", "))
	}
	return &all[0], nil
}

func names(stores []v1alpha1.CausalStore) (all []string) {
	for _, s := range stores {
		all = append(all, s.Name)
	}
	return all
}

// parts are the pods of a store.
func (k *connection) parts(ctx context.Context, s *v1alpha1.CausalStore) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := k.List(ctx, &pods, client.InNamespace(s.Namespace), client.MatchingLabels(plan.Labels(s.Name))); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", s.Name, err)
	}
	return pods.Items, nil
}

// apps are the pods that have a sidecar of a store, in all namespaces that may be looked into.
func (k *connection) apps(ctx context.Context, s *v1alpha1.CausalStore) ([]corev1.Pod, error) {
	var pods corev1.PodList
	ours := client.MatchingLabels{inject.LabelStore: s.Name}
	err := k.List(ctx, &pods, ours)
	if apierrors.IsForbidden(err) {
		err = k.List(ctx, &pods, ours, client.InNamespace(s.Namespace))
	}
	if err != nil {
		return nil, fmt.Errorf("list the pods with a sidecar of %s: %w", s.Name, err)
	}
	var all []corev1.Pod
	for _, p := range pods.Items {
		if of, ok := inject.SidecarOf(&p); ok && of.Namespace == s.Namespace {
			all = append(all, p)
		}
	}
	return all, nil
}

// zones of the nodes; nil if they must not be looked at.
func (k *connection) zones(ctx context.Context, s *v1alpha1.CausalStore) (map[string]string, error) {
	var nodes corev1.NodeList
	err := k.List(ctx, &nodes)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	zones := map[string]string{}
	for _, n := range nodes.Items {
		zones[n.Name] = n.Labels[s.Spec.ZoneLabel]
	}
	return zones, nil
}

// completionTime bounds what a shell waits for.
const completionTime = 3 * time.Second

// completeStore completes the name of a store.
func (c *cluster) completeStore(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	k, err := c.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	all, _ := k.stores(ctx, "") // a shell cannot show why there are none
	return names(all), cobra.ShellCompDirectiveNoFileComp
}

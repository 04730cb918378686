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

// cluster selects a cluster and a namespace; the fields are flags.
type cluster struct{ kubeconfig, context, namespace string }

// connection is a client of the cluster, and the namespace of the command.
type connection struct {
	client.Client
	config    *rest.Config
	namespace string
}

// connect returns a client of the cluster. Each of its requests is bounded by contextTimeout.
func (c *cluster) connect() (*connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	files := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.context})
	out := &connection{namespace: c.namespace}
	if out.namespace == "" {
		var err error
		if out.namespace, _, err = files.Namespace(); err != nil {
			return nil, fmt.Errorf("read the kubeconfig: %w", err)
		}
	}
	var err error
	if out.config, err = files.ClientConfig(); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; set --kubeconfig or KUBECONFIG to a file", err)
	}
	out.config.Timeout = contextTimeout
	out.config.QPS = -1 // no client-side limit: the API server has priority and fairness
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		return nil, err
	}
	out.Client, err = client.New(out.config, client.Options{Scheme: s, Mapper: newMapper()})
	return out, err
}

// allStores returns the stores of the namespace.
func (k *connection) allStores(ctx context.Context) ([]v1alpha1.CausalStore, error) {
	var all v1alpha1.CausalStoreList
	if err := k.List(ctx, &all, client.InNamespace(k.namespace)); err != nil {
		return nil, fmt.Errorf("list the stores of namespace %s: %w", k.namespace, err)
	}
	return all.Items, nil
}

// remedyNoStore says how to find a store that a namespace does not have.
const remedyNoStore = "set --namespace to another one, or run: kubectl get causalstores --all-namespaces"

// listStores returns the stores of the namespace, or only the named one.
func (k *connection) listStores(ctx context.Context, name string) ([]v1alpha1.CausalStore, error) {
	all, err := k.allStores(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("namespace %s has no CausalStore; %s", k.namespace, remedyNoStore)
	}
	if name == "" {
		return all, nil
	}
	for _, s := range all {
		if s.Name == name {
			return []v1alpha1.CausalStore{s}, nil
		}
	}
	return nil, fmt.Errorf("namespace %s has no CausalStore %s; %s", k.namespace, name, remedyNoStore)
}

// findStore returns the named store, or the only one of the namespace.
func (k *connection) findStore(ctx context.Context, name string) (*v1alpha1.CausalStore, error) {
	all, err := k.listStores(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 {
		return nil, errSeveralStores(k.namespace, storeNames(all))
	}
	return &all[0], nil
}

func errSeveralStores(namespace string, names []string) error {
	return fmt.Errorf("namespace %s has several stores; name one of: %s", namespace, strings.Join(names, ", "))
}

func storeNames(stores []v1alpha1.CausalStore) (all []string) {
	for _, s := range stores {
		all = append(all, s.Name)
	}
	return all
}

// partPods returns the pods of a store.
func (k *connection) partPods(ctx context.Context, s *v1alpha1.CausalStore) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := k.List(ctx, &pods, client.InNamespace(s.Namespace),
		client.MatchingLabels(plan.Labels(s.Name))); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", s.Name, err)
	}
	return pods.Items, nil
}

// appPods returns the pods that have a sidecar of a store: in all namespaces, or if pods cannot be listed there, in the
// store's.
func (k *connection) appPods(ctx context.Context, s *v1alpha1.CausalStore) ([]corev1.Pod, error) {
	var pods corev1.PodList
	hasSidecar := client.MatchingLabels{inject.LabelStore: s.Name}
	err := k.List(ctx, &pods, hasSidecar)
	if apierrors.IsForbidden(err) {
		err = k.List(ctx, &pods, hasSidecar, client.InNamespace(s.Namespace))
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

// nodeZones returns the zone of each node, or nil if the user may not list nodes.
func (k *connection) nodeZones(ctx context.Context, s *v1alpha1.CausalStore) (map[string]string, error) {
	all, allowed, err := k.readNodes(ctx)
	if err != nil || !allowed {
		return nil, err
	}
	zones := map[string]string{}
	for name, n := range all {
		zones[name] = n.Labels[s.Spec.ZoneLabel]
	}
	return zones, nil
}

// completionTime bounds how long a shell waits for completions.
const completionTime = 3 * time.Second

// completeStore completes store names.
func (c *cluster) completeStore(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	k, err := c.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	all, _ := k.listStores(ctx, "") // completion has no place to show an error
	return storeNames(all), cobra.ShellCompDirectiveNoFileComp
}

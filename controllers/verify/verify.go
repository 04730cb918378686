// Package verify checks an installation from inside its cluster by using it. `helm test` runs it.
//
// Each check is retried until it succeeds or the time is up, because it may run right after the installation. A failure
// names the remedy.
package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Installation is the installation to check.
type Installation struct {
	Client client.Reader
	// Namespace and Selector select the operator's pods. Replicas is how many there should be.
	Namespace string
	Selector  labels.Selector
	Replicas  int
	// WatchNamespaces are those whose stores the operator serves; if empty, all.
	WatchNamespaces []string
	// Lease is the name of the leader's lease.
	Lease string
	// Webhook is the name of the MutatingWebhookConfiguration; if empty, the webhook is not checked.
	Webhook string
	// Store is the store to write to and read from; if its name is empty, no store is checked.
	Store types.NamespacedName
	// Dial opens connections; nil uses the default dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// retryInterval is the time between two attempts of a check.
const retryInterval = 500 * time.Millisecond

// check is a named check; run returns what it found, or an error that names the remedy.
type check struct {
	name string
	run  func(context.Context) (string, error)
}

// Run runs all checks, each until it succeeds or the context ends, and writes their results.
func (i *Installation) Run(ctx context.Context, w io.Writer) error {
	checks := []check{{"CRD", i.checkCRD}, {"operator", i.checkOperator}, {"leader", i.newLeaderCheck()}}
	if i.Webhook != "" {
		checks = append(checks, check{"webhook", i.checkWebhook})
	}
	if i.Store.Name != "" {
		checks = append(checks, check{"store", i.checkStore})
	}
	failed := 0
	for _, c := range checks {
		result, err := retry(ctx, c.run)
		if err != nil {
			failed++
			fmt.Fprintf(w, "FAIL  %s: %v\n", c.name, err)
			continue
		}
		fmt.Fprintf(w, "ok    %s: %s\n", c.name, result)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(checks))
	}
	return nil
}

// retry runs a check at least once, and again until it succeeds or ctx ends.
func retry(ctx context.Context, run func(context.Context) (string, error)) (string, error) {
	result, err := run(context.WithoutCancel(ctx))
	for err != nil {
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(retryInterval):
		}
		result, err = run(context.WithoutCancel(ctx))
	}
	return result, nil
}

// requestTimeout bounds one request.
const requestTimeout = 10 * time.Second

func (i *Installation) checkCRD(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	namespaces := i.WatchNamespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var errs []error
	for _, namespace := range namespaces {
		errs = append(errs, i.Client.List(ctx, &v1alpha1.CausalStoreList{}, client.Limit(1),
			client.InNamespace(namespace)))
	}
	if err := errors.Join(errs...); err != nil {
		return "",
			fmt.Errorf(
				"list CausalStores: %w; if the chart was installed with crds.install=false, run: kubectl apply -k "+
					"config/crd", err)
	}
	return "the API server serves CausalStores", nil
}

func (i *Installation) checkOperator(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var pods corev1.PodList
	if err := i.Client.List(ctx, &pods, client.InNamespace(i.Namespace),
		client.MatchingLabelsSelector{Selector: i.Selector}); err != nil {
		return "", fmt.Errorf("list the operator's pods: %w", err)
	}
	ready := 0
	for n := range pods.Items {
		if plan.Ready(&pods.Items[n]) {
			ready++
		}
	}
	if ready < i.Replicas {
		return "", fmt.Errorf("%d of %d pods are ready; run: kubectl -n %s describe pods -l %s", ready, i.Replicas,
			i.Namespace, i.Selector)
	}
	return fmt.Sprintf("%d of %d pods are ready", ready, i.Replicas), nil
}

// newLeaderCheck returns a check that the lease is being renewed. It compares two readings of the lease and no clock,
// because the clocks of nodes may differ.
func (i *Installation) newLeaderCheck() func(context.Context) (string, error) {
	var previous *coordinationv1.Lease
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		lease := &coordinationv1.Lease{}
		err := i.Client.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: i.Lease}, lease)
		if apierrors.IsNotFound(err) {
			return "", fmt.Errorf("lease %s does not exist yet; see the operator's log", i.Lease)
		}
		if err != nil {
			return "", fmt.Errorf("read lease %s: %w", i.Lease, err)
		}
		before := previous
		previous = lease
		if before == nil || lease.Spec.RenewTime.Equal(before.Spec.RenewTime) || lease.Spec.HolderIdentity == nil ||
			*lease.Spec.HolderIdentity == "" {
			return "", errors.New("no operator renews lease " + i.Lease + "; see the operator's log")
		}
		return *lease.Spec.HolderIdentity + " is the leader", nil
	}
}

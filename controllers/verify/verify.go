// Package verify checks an installation from inside of its cluster, by using it: what `helm test` runs.
//
// Each check is tried until it succeeds or the time is over, since it may be called right after the installation. A failure names
// the remedy.
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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Installation is what is checked.
type Installation struct {
	Client client.Reader
	// Namespace and Selector are where the operator's pods are, Replicas how many there should be.
	Namespace string
	Selector  labels.Selector
	Replicas  int
	// Lease is what the operator that works holds.
	Lease string
	// Webhook is the MutatingWebhookConfiguration; none: sidecars are not injected.
	Webhook string
	// Store to write to and read from; none if it has no name.
	Store types.NamespacedName
	// Dial connects; nil is as usual.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// again is how long is waited between two tries of a check.
const again = 500 * time.Millisecond

// check returns what is well, or what is not.
type check struct {
	name string
	do   func(context.Context) (string, error)
}

// Run does all checks, each until it succeeds or the context ends, and writes how they went.
func (i *Installation) Run(ctx context.Context, w io.Writer) error {
	checks := []check{{"CRD", i.crd}, {"operator", i.operator}, {"leader", i.leader()}}
	if i.Webhook != "" {
		checks = append(checks, check{"webhook", i.webhook})
	}
	if i.Store.Name != "" {
		checks = append(checks, check{"store", i.store})
	}
	failed := 0
	for _, c := range checks {
		says, err := until(ctx, c.do)
		if err != nil {
			failed++
			fmt.Fprintf(w, "FAIL  %s: %v\n", c.name, err)
			continue
		}
		fmt.Fprintf(w, "ok    %s: %s\n", c.name, says)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks have failed", failed, len(checks))
	}
	return nil
}

// until tries a check at least once.
func until(ctx context.Context, do func(context.Context) (string, error)) (string, error) {
	says, err := do(context.WithoutCancel(ctx))
	for err != nil {
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(again):
		}
		says, err = do(context.WithoutCancel(ctx))
	}
	return says, nil
}

// askTimeout bounds one question.
const askTimeout = 10 * time.Second

func (i *Installation) crd(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var stores v1alpha1.CausalStoreList
	if err := i.Client.List(ctx, &stores, client.Limit(1)); err != nil {
		return "", fmt.Errorf("list CausalStores: %w; was the chart installed with crds.install=false? Then: kubectl apply -k config/crd", err)
	}
	return "CausalStores are served", nil
}

func (i *Installation) operator(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
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
		return "", fmt.Errorf("%d of %d pods are ready; see: kubectl -n %s describe pods -l %s", ready, i.Replicas,
			i.Namespace, i.Selector)
	}
	return fmt.Sprintf("%d of %d pods are ready", ready, i.Replicas), nil
}

// leader: the lease is renewed, which is seen from two looks at it. Clocks of nodes may differ.
func (i *Installation) leader() func(context.Context) (string, error) {
	var seen *coordinationv1.Lease
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		lease := &coordinationv1.Lease{}
		err := i.Client.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: i.Lease}, lease)
		if apierrors.IsNotFound(err) {
			return "", fmt.Errorf("no operator has lease %s yet; see the operator's log", i.Lease)
		}
		if err != nil {
			return "", fmt.Errorf("read lease %s: %w", i.Lease, err)
		}
		before := seen
		seen = lease
		if before == nil || lease.Spec.RenewTime.Equal(before.Spec.RenewTime) || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return "", errors.New("nobody renews lease " + i.Lease + "; see the operator's log")
		}
		return *lease.Spec.HolderIdentity + " works", nil
	}
}

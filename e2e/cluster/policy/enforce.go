//go:build linux

package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// settle is the least time between two changes of the rules, and retry that until a failed one is tried again.
const (
	settle = 50 * time.Millisecond
	retry  = time.Second
)

// Enforce keeps the rules of a node current, until the context ends. It runs in the node's network. Rules that are
// there when it starts, and when it ends, stay in force.
func Enforce(ctx context.Context, client kubernetes.Interface, node string) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(stripManagedFields))
	pods, namespaces, policies := factory.Core().V1().Pods(), factory.Core().V1().Namespaces(),
		factory.Networking().V1().NetworkPolicies()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // what is read next includes this change
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) {
		notify()
	}, DeleteFunc: func(any) { notify() }}
	for _, i := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), policies.Informer()} {
		if _, err := i.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch the cluster: %w", err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	notify()
	list := func() (c Cluster, err error) {
		var errs [3]error
		c.Pods, errs[0] = pods.Lister().List(labels.Everything())
		c.Namespaces, errs[1] = namespaces.Lister().List(labels.Everything())
		c.Policies, errs[2] = policies.Lister().List(labels.Everything())
		return c, errors.Join(errs[:]...)
	}
	current := ""
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		pause := settle
		if next, err := program(ctx, node, current, list); err != nil {
			fmt.Fprintln(os.Stderr, "policies:", err)
			pause = retry
			notify()
		} else {
			current = next
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// stripManagedFields saves memory.
func stripManagedFields(object any) (any, error) {
	if m, err := meta.Accessor(object); err == nil {
		m.SetManagedFields(nil)
	}
	return object, nil
}

// program installs the rules for the present cluster, unless they are the current ones, and returns them.
func program(ctx context.Context, node, current string, list func() (Cluster, error)) (string, error) {
	c, err := list()
	if err != nil {
		return "", err
	}
	script, err := Render(node, c)
	if err != nil || script == current {
		return script, err
	}
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install the rules: %w: %s", err, bytes.TrimSpace(output))
	}
	return script, nil
}

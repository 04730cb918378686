package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// sidecarCheck are the flags of `check`.
type sidecarCheck struct {
	allNamespaces, restart bool
	interval, timeout      time.Duration
}

func (c *cluster) checkCommand() *cobra.Command {
	var f sidecarCheck
	cmd := &cobra.Command{
		Use:   "check",
		Short: "List the pods whose sidecar is missing or old, and restart them one by one on request",
		Long: `Lists the pods that should have a sidecar, by the label of their namespace, and
have none, an old one, or one of another store. It fails if it finds any.

With --restart it evicts them one by one, which respects their PodDisruptionBudgets. Before the next
one it waits for --interval, and until their owner has as many ready pods as before. It leaves alone
pods that no controller would replace, and those that were refused a sidecar for a reason that a
restart does not remove.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.check(cmd, f) },
	}
	fs := cmd.Flags()
	fs.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "check all namespaces that ask for sidecars")
	fs.BoolVar(&f.restart, "restart", false, "restart the pods that are found, one by one")
	fs.DurationVar(&f.interval, "interval", 10*time.Second, "shortest time between two restarts")
	fs.DurationVar(&f.timeout, "timeout", 5*time.Minute, "longest time to wait until a restarted pod is ready again")
	return cmd
}

func (c *cluster) check(cmd *cobra.Command, f sidecarCheck) error {
	if f.interval < 0 || f.timeout <= 0 {
		return errors.New("--interval and --timeout must be positive")
	}
	k, err := c.connect()
	if err != nil {
		return err
	}
	namespaces, err := k.injectedNamespaces(cmd.Context(), f.allNamespaces)
	if err != nil {
		return err
	}
	var all []sidecarProblem
	for i := range namespaces {
		found, err := k.checkNamespace(cmd.Context(), &namespaces[i])
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	cmd.SilenceUsage = true
	for _, p := range all {
		fmt.Fprintln(cmd.OutOrStdout(), p)
	}
	switch {
	case len(all) == 0:
		fmt.Fprintf(cmd.OutOrStdout(), "every pod that should have a sidecar has a current one (%d namespaces)\n",
			len(namespaces))
		return nil
	case f.restart:
		return k.restartPods(cmd.Context(), cmd.OutOrStdout(), all, f)
	}
	return fmt.Errorf("%d pods have no sidecar, or an old one; --restart restarts them one by one", len(all))
}

// injectedNamespaces returns the namespaces that ask for sidecars: all of them, or the present one.
func (k *connection) injectedNamespaces(ctx context.Context, all bool) ([]corev1.Namespace, error) {
	if !all {
		ns := &corev1.Namespace{}
		if err := k.Get(ctx, client.ObjectKey{Name: k.namespace}, ns); err != nil {
			return nil, fmt.Errorf("read namespace %s: %w", k.namespace, err)
		}
		if _, ok := inject.ParseStoreRef(ns.Name, ns.Labels); !ok {
			return nil,
				fmt.Errorf(
					"namespace %s has no label %s=<store>, so its pods get no sidecars; set --namespace or "+
						"--all-namespaces", ns.Name, inject.LabelInject)
		}
		return []corev1.Namespace{*ns}, nil
	}
	var list corev1.NamespaceList
	if err := k.List(ctx, &list, client.HasLabels{inject.LabelInject}); err != nil {
		return nil, fmt.Errorf("list the namespaces with label %s: %w", inject.LabelInject, err)
	}
	return list.Items, nil
}

// restartPods restarts pods one by one. It stops at the first one that does not come back, so that a restart that does
// not help takes one pod of an app at most.
func (k *connection) restartPods(ctx context.Context, w io.Writer, all []sidecarProblem, f sidecarCheck) error {
	left := 0
	for _, p := range all {
		if p.owner == nil {
			left++
			fmt.Fprintf(w, "%s/%s is left alone: nothing would create it again\n", p.namespace, p.pod)
			continue
		}
		before, err := k.countReadyOf(ctx, p)
		if err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, f.timeout)
		err = k.restartPod(bounded, p, before)
		cancel()
		if err != nil {
			return fmt.Errorf("restart pod %s/%s: %w; the others were not restarted", p.namespace, p.pod, err)
		}
		fmt.Fprintf(w, "%s/%s was restarted\n", p.namespace, p.pod)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.interval):
		}
	}
	if left > 0 {
		return fmt.Errorf("%d pods are left alone", left)
	}
	return nil
}

// pollInterval is the time between two looks at a pod that restarts.
const pollInterval = 500 * time.Millisecond

// restartPod evicts a pod, and waits until its owner has as many ready pods as before.
func (k *connection) restartPod(ctx context.Context, p sidecarProblem, before int) error {
	uid := types.UID(p.uid)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.pod}}
	evicted := false
	for {
		if !evicted {
			err := k.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &uid}}})
			switch {
			case err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
				evicted = true
			case !apierrors.IsTooManyRequests(err): // its PodDisruptionBudget holds it back
				return err
			}
		}
		if evicted {
			gone, err := k.isGone(ctx, p)
			if err != nil {
				return err
			}
			now, err := k.countReadyOf(ctx, p)
			if err != nil {
				return err
			}
			if gone && now >= before {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			if !evicted {
				return errors.New("its PodDisruptionBudget does not allow it")
			}
			return errors.New("its owner does not have as many ready pods as before")
		case <-time.After(pollInterval):
		}
	}
}

func (k *connection) isGone(ctx context.Context, p sidecarProblem) (bool, error) {
	pod := &corev1.Pod{}
	err := k.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.pod}, pod)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return string(pod.UID) != p.uid, err
}

// countReadyOf counts the ready pods of the owner of a pod.
func (k *connection) countReadyOf(ctx context.Context, p sidecarProblem) (n int, err error) {
	var pods corev1.PodList
	if err := k.List(ctx, &pods, client.InNamespace(p.namespace)); err != nil {
		return 0, fmt.Errorf("list the pods of namespace %s: %w", p.namespace, err)
	}
	for i := range pods.Items {
		o := metav1.GetControllerOf(&pods.Items[i])
		if o != nil && o.UID == p.owner.UID && plan.Ready(&pods.Items[i]) && pods.Items[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n, nil
}

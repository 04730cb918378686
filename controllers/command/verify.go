package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/verify"
)

// newVerifyCommand returns `causalstore operator verify`.
func newVerifyCommand() *cobra.Command {
	var region, selector, store string
	var timeout time.Duration
	in := &verify.Installation{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check an installation from inside of its cluster; `helm test` runs it",
		Long: `Checks that CausalStores are served, that the operator's pods are ready and one of them works, that the webhook can be called, and,
if --store is given, that a session's write is seen wherever its token is taken. It must run in a pod, since it uses the names of
Services, with the rights of the operator.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if in.Selector, err = labels.Parse(selector); err != nil {
				return fmt.Errorf("--selector %q: %w", selector, err)
			}
			if in.Store, err = storeName(store); err != nil {
				return err
			}
			in.Lease = leaseName(region)
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("find the cluster: %w; run in a pod", err)
			}
			scheme, err := NewScheme()
			if err != nil {
				return err
			}
			if in.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return in.Run(ctx, cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&region, "region", "", "region of the operator (required)")
	fs.StringVar(&in.Namespace, "namespace", "", "namespace of the operator (required)")
	fs.StringVar(&selector, "selector", "app.kubernetes.io/name=causalstore-operator", "labels of the operator's pods")
	fs.IntVar(&in.Replicas, "replicas", 1, "how many pods of the operator must be ready")
	fs.StringVar(&in.Webhook, "webhook-configuration", "", "MutatingWebhookConfiguration that calls the operator; none: the webhook is not checked")
	fs.StringVar(&store, "store", "", "namespace/name of a CausalStore to write to and read from; none: no store is checked")
	fs.DurationVar(&timeout, "timeout", time.Minute, "how long to try what does not succeed at once")
	_ = cmd.MarkFlagRequired("region") // they exist
	_ = cmd.MarkFlagRequired("namespace")
	return cmd
}

// leaseName is the lease that the operator of a region holds while it works.
func leaseName(region string) string { return "operator." + region + ".causalstore.io" }

func storeName(text string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if text != "" && (!ok || namespace == "" || name == "") {
		return types.NamespacedName{}, fmt.Errorf("--store %q: give namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

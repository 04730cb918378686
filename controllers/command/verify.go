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

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/verify"
)

// newVerifyCommand returns `causalstore operator verify`.
func newVerifyCommand() *cobra.Command {
	var region, selector, store string
	var timeout time.Duration
	in := &verify.Installation{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check an installation from inside its cluster; `helm test` runs it",
		Long: `Checks that the API server serves CausalStores, that the operator's pods are
ready and one of them is the leader, that the webhook answers, and, with --store, that a session's
write is visible wherever its token is resumed. It must run in a pod with the rights of the
operator, because it uses the names of Services.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if in.Selector, err = labels.Parse(selector); err != nil {
				return fmt.Errorf("--selector %q: %w", selector, err)
			}
			if in.Store, err = parseStoreName(store); err != nil {
				return err
			}
			in.Lease = plan.LeaseName(region)
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
	fs.StringSliceVar(&in.WatchNamespaces, "watch-namespaces", nil,
		"namespaces whose stores the operator serves; if empty, all")
	fs.IntVar(&in.Replicas, "replicas", 1, "number of the operator's pods that must be ready")
	fs.StringVar(&in.Webhook, "webhook-configuration", "",
		"MutatingWebhookConfiguration that calls the operator; if empty, the webhook is not checked")
	fs.StringVar(&store, "store", "",
		"namespace/name of a CausalStore to write to and read from; if empty, no store is checked")
	fs.DurationVar(&timeout, "timeout", time.Minute, "how long to retry failing checks")
	_ = cmd.MarkFlagRequired("region") // the flags exist
	_ = cmd.MarkFlagRequired("namespace")
	return cmd
}

func parseStoreName(text string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if text != "" && (!ok || namespace == "" || name == "") {
		return types.NamespacedName{}, fmt.Errorf("--store %q: use namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

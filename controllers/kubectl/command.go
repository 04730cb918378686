// Package kubectl is what people ask of stores in a cluster: `causalstore kubectl`, or `kubectl causal` where the binary is
// installed under the name kubectl-causal. What is shown is made by functions of what was read, without a cluster.
package kubectl

import (
	"time"

	"github.com/spf13/cobra"
)

// PluginName is what the binary is called as a plugin of kubectl, CompletionName what kubectl calls to complete its arguments.
const (
	PluginName     = "kubectl-causal"
	CompletionName = "kubectl_complete-causal"
)

// NewCommand returns the command with its subcommands.
func NewCommand() *cobra.Command {
	var c cluster
	cmd := &cobra.Command{
		Use:   "kubectl",
		Short: "Look at stores in a Kubernetes cluster; also a plugin of kubectl",
		Long: `Shows how stores are. As a plugin: ln -s $(command -v causalstore) /usr/local/bin/kubectl-causal, and then for example
kubectl causal status. A second link, kubectl_complete-causal, lets kubectl complete names of stores.

STORE may be left out where the namespace has only one.`,
	}
	fs := cmd.PersistentFlags()
	fs.StringVar(&c.kubeconfig, "kubeconfig", "", "file with clusters; default: KUBECONFIG, or ~/.kube/config")
	fs.StringVar(&c.context, "context", "", "context in that file; default: the current one")
	fs.StringVarP(&c.namespace, "namespace", "n", "", "namespace; default: that of the context")
	cmd.AddCommand(c.statusCommand(), c.topologyCommand(), c.topCommand(), c.explainCommand(), c.pauseCommand(), c.resumeCommand())
	return cmd
}

func (c *cluster) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status [STORE]",
		Short: "Show rings, data centres, parts, lags and what is wrong, in one screen",
		Args:  cobra.MaximumNArgs(1), ValidArgsFunction: c.completeStore,
		RunE: func(cmd *cobra.Command, args []string) error { return c.status(cmd, first(args)) },
	}
}

func (c *cluster) topologyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "topology [STORE]",
		Short: "Draw the rings with their data centres, zones and parts, and the round trips between data centres",
		Args:  cobra.MaximumNArgs(1), ValidArgsFunction: c.completeStore,
		RunE: func(cmd *cobra.Command, args []string) error { return c.topology(cmd, first(args)) },
	}
}

func (c *cluster) topCommand() *cobra.Command {
	var once bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top [STORE]",
		Short: "Show what a store does: operations, where reads are answered, ring restrictions and lags",
		Long: `Reads the metrics of all parts and sidecars twice, through the API server, and shows what has happened in between. Beside
reading pods it needs the right to get pods/proxy.

  OWN CACHE LOCAL REMOTE  where reads were answered: from the session's own writes, the data centre's cache, a shard in the data
                          centre, a shard elsewhere; IN REGION is all but the last
  RESTRICTED              share of reads by sessions that may not read every ring
  STABILITY LAG           age of what its coordinators have written and is in every ring
  VISIBILITY LAG          age of what anybody has written and its sidecars know to be in every ring
  INCOMPLETE              writes that are not in every ring yet`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: c.completeStore,
		RunE: func(cmd *cobra.Command, args []string) error { return c.top(cmd, first(args), once, interval) },
	}
	cmd.Flags().BoolVar(&once, "once", false, "read once, and show totals since each part has started")
	cmd.Flags().DurationVar(&interval, "interval", 5*time.Second, "time between the two readings")
	return cmd
}

func (c *cluster) explainCommand() *cobra.Command {
	var store, from string
	explain := &cobra.Command{Use: "explain", Short: "Explain a pod or a key"}
	explain.AddCommand(&cobra.Command{
		Use:   "pod POD",
		Short: "Say whether an app's pod has a sidecar, and which, or why not",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.explainPod(cmd, args[0]) },
	})
	key := &cobra.Command{
		Use:     "key KEY",
		Short:   "Say which shard of each ring has a key, and which of them is near",
		Example: `  kubectl causal explain key '{user:1}:cart' --from us-east-1`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.explainKey(cmd, args[0], store, from) },
	}
	key.Flags().StringVar(&store, "store", "", "store; may be left out where the namespace has only one")
	key.Flags().StringVar(&from, "from", "", "data centre from which the nearest shard is looked for")
	_ = key.RegisterFlagCompletionFunc("store", func(cmd *cobra.Command, _ []string, begun string) ([]string,
		cobra.ShellCompDirective) {
		return c.completeStore(cmd, nil, begun)
	}) // the flag exists
	explain.AddCommand(key)
	return explain
}

func (c *cluster) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pause STORE",
		Short: "Let the operator change nothing of a store; its status goes on, and so does the store",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: c.completeStore,
		RunE: func(cmd *cobra.Command, args []string) error { return c.pause(cmd, args[0], true) },
	}
}

func (c *cluster) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resume STORE",
		Short: "Let the operator carry out a store again",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: c.completeStore,
		RunE: func(cmd *cobra.Command, args []string) error { return c.pause(cmd, args[0], false) },
	}
}

func first(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return ""
}

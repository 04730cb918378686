// Package kubectl implements `causalstore kubectl`, which is also the plugin `kubectl causal` when the binary is
// installed under the name kubectl-causal. Commands read from the cluster first; pure functions then render what was
// read.
package kubectl

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/version"
)

// PluginName is the name of the binary as a kubectl plugin, CompletionName the one that kubectl runs to complete its
// arguments.
const (
	PluginName     = "kubectl-causal"
	CompletionName = "kubectl_complete-causal"
)

// NewCommand returns the command with its subcommands.
func NewCommand() *cobra.Command {
	var c cluster
	cmd := &cobra.Command{
		Use:     "kubectl",
		Short:   "Inspect stores in a Kubernetes cluster; also a kubectl plugin",
		Version: version.Describe(),
		Long: `Inspects stores in a Kubernetes cluster. To install it as a kubectl plugin:

  ln -s $(command -v causalstore) /usr/local/bin/kubectl-causal

Then run, for example, kubectl causal status. A second link named kubectl_complete-causal makes
kubectl complete store names.

STORE can be omitted if the namespace has only one store.`,
	}
	fs := cmd.PersistentFlags()
	fs.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file; default: KUBECONFIG, or ~/.kube/config")
	fs.StringVar(&c.context, "context", "", "context of the kubeconfig; default: the current one")
	fs.StringVarP(&c.namespace, "namespace", "n", "", "namespace of the store or pod; default: that of the context")
	cmd.AddCommand(c.statusCommand(), c.topologyCommand(), c.topCommand(), c.explainCommand(), c.doctorCommand(),
		c.checkCommand(), c.consoleCommand(),
		c.supportBundleCommand(), c.pauseCommand(), c.resumeCommand(), c.recoverCommand(), c.forgetCommand(),
		c.trustCommand(), c.untrustCommand(), c.rotateCommand(), c.drillCommand(),
		&cobra.Command{Use: "version", Short: "Show the version of this program", Args: cobra.NoArgs,
			Run: func(cmd *cobra.Command, _ []string) {
				fmt.Fprintln(cmd.OutOrStdout(), "kubectl causal version "+version.Describe())
			}})
	return cmd
}

// ofRegions documents what commands do with several contexts.
const ofRegions = `

With several --context it shows a store in all of these clusters: the one that has the same name, in
the namespace of --namespace, or of the first context. A cluster that cannot be read within 20s is a
line that says why. The command fails only if no cluster has the store.`

// storeCommand returns a command that looks at a store in one cluster, or in several, after it has checked its flags.
func (c *cluster) storeCommand(cmd *cobra.Command, check func() error, one func(*cluster, *cobra.Command, string) error,
	several func(*cobra.Command, []*cluster, string) error) *cobra.Command {
	var f contextFlags
	f.register(cmd)
	cmd.Args, cmd.ValidArgsFunction = cobra.MaximumNArgs(1), c.completeStoreOf(&f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return err
		}
		clusters := c.selected(&f)
		if len(clusters) == 1 {
			return one(clusters[0], cmd, firstOrEmpty(args))
		}
		return several(cmd, clusters, firstOrEmpty(args))
	}
	return cmd
}

func (c *cluster) statusCommand() *cobra.Command {
	var o outputFlag
	cmd := c.storeCommand(&cobra.Command{
		Use:   "status [STORE]",
		Short: "Show rings, data centers, lags and problems of a store",
		Long: `Shows rings, data centers, lags and problems of a store. It succeeds whether or
not the store is ready; kubectl causal doctor fails if it finds a problem.` + ofRegions + `

Each data center is then as the cluster that runs it reports it, and each ring as the worst of its
data centers; LAG is that of the region where it is greatest. What differs between the manifests and
makes parts refuse each other comes first.`,
		Example: `  kubectl causal status orders -n shop
  kubectl causal status orders -n shop --context us --context eu
  kubectl causal status orders -n shop -o json`,
	}, o.check, func(of *cluster, cmd *cobra.Command, name string) error {
		if o.isJSON() {
			return statusJSON(cmd, []*cluster{of}, name)
		}
		return of.status(cmd, name)
	}, func(cmd *cobra.Command, clusters []*cluster, name string) error {
		if o.isJSON() {
			return statusJSON(cmd, clusters, name)
		}
		return statusOfRegions(cmd, clusters, name)
	})
	o.register(cmd)
	return cmd
}

func (c *cluster) topologyCommand() *cobra.Command {
	return c.storeCommand(&cobra.Command{
		Use:   "topology [STORE]",
		Short: "Draw rings, data centers, zones and pods as a tree, with round trips between data centers",
		Long: `Draws rings, data centers, zones and pods as a tree, with round trips between
data centers. Round trips are read from the parts, which needs the right to get pods/proxy.` + ofRegions + `

Links between regions are then listed as the first coordinator at either end finds them.`,
		Example: `  kubectl causal topology orders -n shop
  kubectl causal topology orders -n shop --context us --context eu`,
	}, func() error { return nil }, (*cluster).topology, topologyOfRegions)
}

func (c *cluster) topCommand() *cobra.Command {
	var f topFlags
	cmd := c.storeCommand(&cobra.Command{
		Use:   "top [STORE]",
		Short: "Show operation rates, read sources, ring restrictions and lags of a store",
		Long: `Reads the metrics of all parts and sidecars twice, through the API server, and
shows the difference. It needs the rights to list pods and to get pods/proxy.

  OWN NEAR CACHE LOCAL REMOTE  share of reads answered from the session's own writes, a near copy in the
                               sidecar, the data center's cache, a shard in the data center, or a
                               shard in another data center; IN REGION is the sum of all but the last
  RESTRICTED                   share of reads by sessions that may not read from every ring
  STABILITY LAG                age of the newest write of its coordinators up to which every ring has all of them
  VISIBILITY LAG               age of the newest write of any coordinator up to which its sidecars know
                               that every ring has all of them
  INCOMPLETE                   writes that are not in every ring yet` + ofRegions + `

It then also shows, for each data center and each one of another region, how its first coordinator
finds that one (links that are up of all, round trip), and the bytes between its coordinators and
the parts there.`,
		Example: `  kubectl causal top orders -n shop --interval 10s
  kubectl causal top orders -n shop --context us --context eu`,
	}, f.check, func(of *cluster, cmd *cobra.Command, name string) error { return of.top(cmd, name, f) },
		func(cmd *cobra.Command, clusters []*cluster, name string) error {
			return topOfRegions(cmd, clusters, name, f)
		})
	f.output.register(cmd)
	cmd.Flags().BoolVar(&f.once, "once", false, "read once and show totals since each process started")
	cmd.Flags().DurationVar(&f.interval, "interval", 5*time.Second, "time between the two readings")
	return cmd
}

func (c *cluster) explainCommand() *cobra.Command {
	var store, from string
	explain := &cobra.Command{Use: "explain", Short: "Explain where a key is, or why a pod has a sidecar or not"}
	explain.AddCommand(&cobra.Command{
		Use:   "pod POD",
		Short: "Show which sidecar an app's pod has, or why it has none",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.explainPod(cmd, args[0]) },
	})
	key := &cobra.Command{
		Use:     "key KEY",
		Short:   "Show which shard of each ring owns a key, and which one is nearest",
		Example: `  kubectl causal explain key '{user:1}:cart' --from us-east-1`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.explainKey(cmd, args[0], store, from) },
	}
	key.Flags().StringVar(&store, "store", "", "store; can be omitted if the namespace has only one")
	key.Flags().StringVar(&from, "from", "", "data center whose nearest shard to show")
	_ = key.RegisterFlagCompletionFunc("store", func(cmd *cobra.Command, _ []string, prefix string) ([]string,
		cobra.ShellCompDirective) {
		return c.completeStore(cmd, nil, prefix)
	}) // the flag exists
	explain.AddCommand(key)
	return explain
}

func (c *cluster) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pause STORE",
		Short: "Stop the operator from changing a store; the store keeps serving and its status is updated",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: c.completeStore,
		RunE: func(cmd *cobra.Command, args []string) error { return c.pause(cmd, args[0], true) },
	}
}

func (c *cluster) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resume STORE",
		Short: "Let the operator apply changes to a store again",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: c.completeStore,
		RunE: func(cmd *cobra.Command, args []string) error { return c.pause(cmd, args[0], false) },
	}
}

func firstOrEmpty(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return ""
}

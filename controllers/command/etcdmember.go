package command

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/controllers/etcd"
)

// NewEtcdMemberCommand returns `causalstore etcd-member`.
func NewEtcdMemberCommand() *cobra.Command {
	var cluster, name, out string
	cmd := &cobra.Command{
		Use:   "etcd-member",
		Short: "Write the configuration with which a member of a data center's etcd starts",
		Long: `Runs before etcd in the pods that the operator makes. A member that has its data
goes on with it. One that has lost it asks the others for a new id, and joins them. One that has
never had any founds the etcd with the others, unless that has already served.`,
		Example: `  causalstore etcd-member --cluster /etc/etcd-cluster/cluster.yaml --name orders-us-1-etcd-0 --out /run/etcd`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := os.ReadFile(cluster)
			if err != nil {
				return fmt.Errorf("read the cluster: %w", err)
			}
			c, err := etcd.ParseCluster(text)
			if err != nil {
				return fmt.Errorf("read %s: %w", cluster, err)
			}
			return etcd.Prepare(cmd.Context(), c, name, out)
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "",
		"file with the members and their configuration, which the operator writes (required)")
	cmd.Flags().StringVar(&name, "name", "", "name of this member (required)")
	cmd.Flags().StringVar(&out, "out", "", "folder for etcd.yaml (required)")
	for _, flag := range []string{"cluster", "name", "out"} {
		_ = cmd.MarkFlagRequired(flag) // the flags exist
	}
	return cmd
}

//go:build linux

// Command cluster runs a real Kubernetes of several nodes on one Linux machine, for end-to-end tests. Each node has its
// own network, mounts, processes, host name and cgroups, in which containerd, kubelet and kube-proxy run. The control
// plane is one more such machine. Only a few Debian packages are installed, and `cluster down` leaves nothing else
// behind: all processes are in namespaces that end with their first process, and all files are in one directory.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// The main goroutine stays on the first thread. If another thread called exec, the process would have no namespaces for
// a moment, and nobody could enter its network by its PID.
func init() { runtime.LockOSThread() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{Use: "cluster", Short: "A real Kubernetes of several nodes on this machine",
		SilenceUsage: true, SilenceErrors: true}
	dir := root.PersistentFlags().String("dir", defaultDir(), "directory of the cluster; default: "+envDir)
	root.PersistentPreRunE = func(*cobra.Command, []string) (err error) {
		*dir, err = filepath.Abs(*dir)
		return err
	}
	var (
		zones             []string
		perZone, clusters int
	)
	add := func(use, short string, args cobra.PositionalArgs,
		run func(context.Context, []string) error) *cobra.Command {
		c := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), args)
		}}
		root.AddCommand(c)
		return c
	}
	var upCommand *cobra.Command
	upCommand = add("up", "Start the cluster, or those of its machines that are not running", cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			chosen := upCommand.Flags().Changed("zones") || upCommand.Flags().Changed("nodes-per-zone")
			if clusters > 1 {
				if !upCommand.Flags().Changed("zones") {
					zones = defaultZones[:2]
				}
				return upJoined(ctx, *dir, clusters, zones, perZone, chosen)
			}
			b, err := newBed(*dir, zones, perZone)
			if err != nil {
				return err
			}
			return up(ctx, b, chosen)
		})
	upCommand.Flags().StringSliceVar(&zones, "zones", defaultZones, "zones of the nodes")
	upCommand.Flags().IntVar(&clusters, "clusters", 1,
		fmt.Sprintf(
			"start up to %d clusters, which a router joins; they are in folders %s, %s, ..., and have two "+
				"zones by default",
			maxClusters, clusterName(0), clusterName(1)))
	upCommand.Flags().IntVar(&perZone, "nodes-per-zone", 1, "nodes in each zone")
	add("down", "Stop the cluster and remove all of it", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return down(ctx, *dir)
	})
	add("kubeconfig", "Print the path of the cluster's kubeconfig", cobra.NoArgs,
		func(context.Context, []string) error {
			b, err := openBed(*dir)
			if err == nil {
				fmt.Println(b.kubeconfig())
			}
			return err
		})
	add("load-image ARCHIVE...", "Import image archives on all nodes", cobra.MinimumNArgs(1),
		func(ctx context.Context, archives []string) error {
			b, err := openBed(*dir)
			if err != nil {
				return err
			}
			return b.loadImages(ctx, archives)
		})
	add("stop-node NODE", "Kill a node, as a power cut would", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			b, n, err := openNode(*dir, args[0])
			if err != nil {
				return err
			}
			return b.stopMachine(ctx, n.Name)
		})
	add("start-node NODE", "Start a stopped node", cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		b, n, err := openNode(*dir, args[0])
		if err != nil {
			return err
		}
		return b.startNode(ctx, n)
	})
	add("check", "Install missing packages and check whether this machine can run a cluster", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return check(ctx) })
	add("build", "Find the programs of Kubernetes or build them from their Go modules", cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			folder, err := binaries.FindOrBuild(ctx, os.Stdout, binaries.All()...)
			if err == nil {
				fmt.Println("the programs of Kubernetes are in", folder.Dir)
			}
			return err
		})
	add("build-cert-manager", "Build cert-manager from its Go module, unless it is in the cache", cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			built, err := binaries.BuildCertManager(ctx, os.Stdout)
			if err == nil {
				fmt.Println("the controller of cert-manager is", built.Controller)
			}
			return err
		})
	addImageCommands(add)
	addChaosCommands(dir, add)
	addCutCommands(dir, add)
	root.AddCommand(wanCommand(dir))
	machine := add("machine NAME", "Run the first process of a machine", cobra.ExactArgs(1),
		func(_ context.Context, args []string) error {
			return runMachine(*dir, args[0])
		})
	machine.Hidden = true
	enforcer := add("enforce-policies NODE", "Enforce NetworkPolicies in the network of a node", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return enforcePolicies(ctx, *dir, args[0])
		})
	enforcer.Hidden = true
	return root
}

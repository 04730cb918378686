package kubectl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/topology"
)

// recoverFlags are the flags of recover.
type recoverFlags struct {
	accept, loss, yes, shard bool
	confirm                  string
}

// part returns whose group is meant: its name for people and in the readiness reports, its component, container, and
// folder of the log.
func (f recoverFlags) part() groupPart {
	if f.shard {
		return groupPart{"shard", plan.ComponentShard, topology.Middleman.String(), plan.ShardLogDir}
	}
	return groupPart{"coordinator", plan.ComponentCoordinator, topology.Coordinator.String(), plan.DataDir}
}

// groupPart is a kind of part with groups.
type groupPart struct{ name, component, container, dir string }

func (c *cluster) recoverCommand() *cobra.Command {
	var f recoverFlags
	cmd := &cobra.Command{
		Use: "recover STORE DATA-CENTER/INDEX",
		Short: "Let the frozen group of a coordinator or shard go on with another register, or give up " +
			"one that is lost",
		Long: `Shows the group of members that holds the log of a coordinator, or with --shard
the data of a shard, and with --accept-register lets it go on if it is frozen: because its etcd was
replaced by an empty one, or restored from a backup. The configuration that the member knows which
serves goes on in the etcd that is there now. If no member serves, it is that of the member with the
highest epoch, and all of them have to answer.

With --accept-loss it gives up a log that is lost with all of its copies: it says what is lost, asks
for the name of the coordinator, and lets the log start over with what the shards hold. All members
have to run, with empty volumes. With --shard it gives up what the members of a shard held: the
shard starts over with nothing, and gets its data from other rings. A member that does not answer is
given up too, and has to be off.

It runs kubectl exec in the pod of that member, which needs kubectl, and the rights to get
pods/proxy and to create pods/exec.`,
		Example: `  kubectl causal recover orders us-east-1/0 --namespace shop
  kubectl causal recover orders us-east-1/0 --namespace shop --accept-register
  kubectl causal recover orders us-east-1/1 --shard --namespace shop
  kubectl causal recover orders us-east-1/0 --namespace shop --accept-loss
  kubectl causal recover orders us-east-1/1 --shard --namespace shop --accept-loss`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: c.completeStore,
		RunE: func(cmd *cobra.Command, args []string) error { return c.recover(cmd, args[0], args[1], f) },
	}
	cmd.Flags().BoolVar(&f.accept, "accept-register", false,
		"let a frozen group go on with the register that is there now")
	cmd.Flags().BoolVar(&f.loss, "accept-loss", false,
		"give up a log, or the members of a shard, that are lost with all of their copies")
	cmd.Flags().StringVar(&f.confirm, "confirm", "",
		"with --accept-loss: the coordinator or shard, DATA-CENTER/INDEX, instead of being asked for it")
	cmd.Flags().BoolVar(&f.shard, "shard", false, "INDEX is that of a shard, not of a coordinator")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --accept-register: do not ask")
	cmd.MarkFlagsMutuallyExclusive("accept-loss", "accept-register")
	return cmd
}

func (c *cluster) recover(cmd *cobra.Command, store, of string, f recoverFlags) error {
	dc, number, ok := strings.Cut(of, "/")
	index, err := strconv.Atoi(number)
	if !ok || err != nil || index < 0 {
		return fmt.Errorf("%q is no %s: name one as DATA-CENTER/INDEX, for example us-east-1/0", of, f.part().name)
	}
	k, err := c.connect()
	if err != nil {
		return err
	}
	s, err := k.findStore(cmd.Context(), store)
	if err != nil {
		return err
	}
	parts, err := k.partPods(cmd.Context(), s)
	if err != nil {
		return err
	}
	reports, err := k.readGroupReports(cmd.Context(), parts, dc, f.part().component)
	if err != nil {
		return err
	}
	target, err := chooseMember(reports, f.part(), dc, index, f.accept, f.loss)
	if err != nil {
		return err
	}
	cmd.SilenceUsage = true
	fmt.Fprintf(cmd.OutOrStdout(), "%s/%s, %s %d of %s, at pod %s:\n", s.Namespace, s.Name, f.part().name, index,
		dc, target)
	run := exec.CommandContext(cmd.Context(), "kubectl", c.execArguments(s.Namespace, target, f)...)
	run.Stdin, run.Stdout, run.Stderr, run.Env = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), os.Environ()
	if err := run.Run(); err != nil {
		return fmt.Errorf("run kubectl exec in pod %s: %w", target, err)
	}
	return nil
}

// execArguments returns the arguments of kubectl that run causalstore recover in a pod.
func (c *cluster) execArguments(namespace, pod string, f recoverFlags) []string {
	args := []string{"exec", "--stdin", pod, "--namespace", namespace, "--container", f.part().container}
	if c.kubeconfig != "" {
		args = append(args, "--kubeconfig", c.kubeconfig)
	}
	if c.context != "" {
		args = append(args, "--context", c.context)
	}
	args = append(args, "--", "/causalstore", "recover", "--data-dir", f.part().dir)
	if f.accept {
		args = append(args, "--accept-register")
	}
	if f.loss {
		args = append(args, "--accept-loss")
	}
	if f.confirm != "" {
		args = append(args, "--confirm", f.confirm)
	}
	if f.yes {
		args = append(args, "--yes")
	}
	return args
}

// groupReport is the report of a pod of a coordinator or shard, or why there is none.
type groupReport struct {
	pod    string
	report contract.Readiness
	err    error
}

// readGroupReports asks all coordinators or shards of a data center.
func (k *connection) readGroupReports(ctx context.Context, parts []corev1.Pod,
	dc, component string) ([]groupReport, error) {
	pods, err := typedv1.NewForConfig(k.config)
	if err != nil {
		return nil, err
	}
	var all []groupReport
	var writing sync.Mutex
	var running sync.WaitGroup
	for i := range parts {
		p := &parts[i]
		if p.Labels[plan.LabelComponent] != component || p.Labels[plan.LabelDataCenter] != dc {
			continue
		}
		running.Go(func() {
			report, err := readReadiness(ctx, pods, p)
			writing.Lock()
			defer writing.Unlock()
			all = append(all, groupReport{p.Name, report, err})
		})
	}
	running.Wait()
	slices.SortFunc(all, func(a, b groupReport) int { return strings.Compare(a.pod, b.pod) })
	return all, nil
}

// chooseMember returns the pod of the member that decides for a group: the one that serves. Without one, to decide
// needs the report of all, since only the member with the highest epoch may. To give up a log, any member does that
// runs, and a coordinator with one member is chosen too.
func chooseMember(reports []groupReport, part groupPart, dc string, index int, decide, giveUp bool) (string, error) {
	if giveUp {
		for _, r := range reports {
			if r.err == nil && r.report.Index == index && r.report.Group == nil && r.report.Membership != "" {
				return r.pod, nil
			}
		}
	}
	var best *groupReport
	var silent []string
	heard := map[int]bool{}
	wanted := 0
	for i := range reports {
		r := &reports[i]
		if r.err != nil || r.report.Group == nil && r.report.Index == index && r.report.Membership == "" &&
			r.report.Shards == "" {
			silent = append(silent, fmt.Sprintf("%s (%s)", r.pod, silence(r)))
			continue
		}
		g := r.report.Group
		if g == nil || r.report.Index != index {
			continue
		}
		heard[g.Member], wanted = true, max(wanted, len(g.Wanted), len(g.Members))
		serves := g.Role == contract.GroupServing
		if best == nil || serves && best.report.Group.Role != contract.GroupServing ||
			serves == (best.report.Group.Role == contract.GroupServing) && g.Epoch > best.report.Group.Epoch {
			best = r
		}
	}
	switch {
	case best == nil && len(silent) > 0:
		return "", fmt.Errorf("no member of %s %d of %s answers: %s", part.name, index, dc, strings.Join(silent, ", "))
	case best == nil:
		return "", fmt.Errorf("no pod runs a member of %s %d of %s, or it has one member only, which needs no register",
			part.name, index, dc)
	case !decide || best.report.Group.Role == contract.GroupServing:
		return best.pod, nil
	case len(heard) < wanted:
		return "",
			errors.New(
				"no member serves, and not all of them answer, so it is not known which one has the highest epoch. " +
					"Bring them back first: " +
					orDash(strings.Join(silent, ", ")))
	}
	return best.pod, nil
}

func silence(r *groupReport) string {
	if r.err != nil {
		return oneLine(r.err)
	}
	return orDash(r.report.Reason)
}

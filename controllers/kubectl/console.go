package kubectl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// consoleFlags are the flags of `kubectl causal console`.
type consoleFlags struct {
	contextFlags
	port              int
	noBrowser         bool
	operatorNamespace string
}

func (c *cluster) consoleCommand() *cobra.Command {
	var f consoleFlags
	cmd := &cobra.Command{
		Use:   "console [STORE]",
		Short: "Open the live page of a store: its rings on a map, lags, bound sessions and problems",
		Long: `Forwards a port to the operator of each region, and serves a live page of the
store at a loopback address until it is interrupted. The page changes nothing. It needs the rights
to list the pods of the operator, and to create pods/portforward in its namespace.

With several --context it shows the data centers of all of these clusters in one page. Where a
region cannot be read, the page says so.`,
		Example: `  kubectl causal console orders -n shop
  kubectl causal console orders -n shop --context us --context eu`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: c.completeStoreOf(&f.contextFlags),
		RunE: func(cmd *cobra.Command, args []string) error { return c.console(cmd, firstOrEmpty(args), &f) },
	}
	f.register(cmd)
	fs := cmd.Flags()
	fs.IntVar(&f.port, "port", 0, "port of the page on this machine; default: a free one")
	fs.BoolVar(&f.noBrowser, "no-browser", false, "print the address, and open no browser")
	fs.StringVar(&f.operatorNamespace, "operator-namespace", "",
		"namespace of the operator, if you may not list pods in all of them")
	return cmd
}

func (c *cluster) console(cmd *cobra.Command, name string, f *consoleFlags) error {
	v, err := c.storeToShow(cmd.Context(), name, f)
	if err != nil {
		return err
	}
	p := newStorePage(v, f.operatorNamespace)
	defer p.close()
	if _, err := p.Layout(cmd.Context()); err != nil {
		return err
	}
	l, err := listenPage(cmd.Context(), f.port)
	if err != nil {
		return err
	}
	address := "http://" + l.Addr().String() + "/"
	fmt.Fprintf(cmd.OutOrStdout(), "The live page of %s/%s is at %s until this command is interrupted.\n", v.namespace,
		v.name, address)
	for _, r := range v.all {
		if r.err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "context %s is not shown: %s\n", r.context, describeContextError(r.err))
		} else if r.sameAs != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "context %s leads to the same cluster as %s\n", r.context, r.sameAs)
		}
	}
	if !f.noBrowser {
		if err := openBrowser(cmd.Context(), address); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "no browser was opened: %v; open the address yourself\n", err)
		}
	}
	return servePage(cmd.Context(), l, console.NewOnDemand(p, pageInterval, pageIdle))
}

// storeToShow finds the store in all contexts.
func (c *cluster) storeToShow(ctx context.Context, name string, f *consoleFlags) (*storeRegions, error) {
	clusters := c.selected(&f.contextFlags)
	if len(clusters) > 1 {
		return findOneStore(ctx, clusters, name)
	}
	k, err := clusters[0].connect()
	if err != nil {
		return nil, err
	}
	s, err := k.findStore(ctx, name)
	if err != nil {
		return nil, err
	}
	return &storeRegions{namespace: s.Namespace, name: s.Name,
		all: []*regionStore{{context: clusters[0].context, k: k, store: s}}}, nil
}

// listenPage listens at a loopback address.
func listenPage(ctx context.Context, port int) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil && port != 0 {
		return nil, fmt.Errorf("--port %d cannot be used: %w; give another one, or leave it out for a free one", port,
			err)
	}
	return l, err
}

// servePage serves the page until the context ends.
func servePage(ctx context.Context, l net.Listener, page *console.OnDemand) error {
	server := &http.Server{Handler: console.RefuseWebPages(page), ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // streams would keep it from a graceful end
	defer stop()
	defer page.Close()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}

// operatorPod is a pod that serves the page for one region.
type operatorPod struct {
	region, namespace, name string
	port                    int
}

// findOperators returns one ready pod for each region of a store that has an operator in the cluster.
func (k *connection) findOperators(ctx context.Context, s *v1alpha1.CausalStore,
	namespace string) ([]operatorPod, error) {
	var pods corev1.PodList
	if err := k.List(ctx, &pods, labelsOfOperator, client.InNamespace(namespace)); err != nil {
		if apierrors.IsForbidden(err) {
			return nil,
				fmt.Errorf(
					"list the pods of the operator: %w; with the right to list pods in its namespace only, name that "+
						"by --operator-namespace", err)
		}
		return nil, fmt.Errorf("list the pods of the operator: %w", err)
	}
	where := "this cluster"
	if namespace != "" {
		where = "namespace " + namespace
	}
	if len(pods.Items) == 0 {
		return nil, fmt.Errorf("no pod of an operator is in %s; run: kubectl causal doctor %s --namespace %s", where,
			s.Name, s.Namespace)
	}
	found := map[string]operatorPod{}
	var regions, problems []string
	for i := range pods.Items {
		p := &pods.Items[i]
		region, address := operatorArguments(p)
		if !slices.ContainsFunc(s.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool { return dc.Region == region }) {
			problems = append(problems, fmt.Sprintf("%s/%s runs region %q, which is none of the store's", p.Namespace,
				p.Name, region))
			continue
		}
		port, err := consolePort(address)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s/%s: %v", p.Namespace, p.Name, err))
		case !plan.Ready(p):
			problems = append(problems, fmt.Sprintf("%s/%s is not ready", p.Namespace, p.Name))
		default:
			if _, ok := found[region]; !ok {
				regions = append(regions, region)
			}
			found[region] = operatorPod{region, p.Namespace, p.Name, port}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no operator in %s can show the store: %s", where, strings.Join(problems, "; "))
	}
	slices.Sort(regions)
	all := make([]operatorPod, 0, len(regions))
	for _, r := range regions {
		all = append(all, found[r])
	}
	return all, nil
}

// operatorArguments returns the region of an operator, and where it serves the page.
func operatorArguments(p *corev1.Pod) (region, address string) {
	address = contract.OperatorConsole
	for _, c := range p.Spec.Containers {
		for _, a := range c.Args {
			if v, ok := strings.CutPrefix(a, "--region="); ok {
				region = v
			} else if v, ok := strings.CutPrefix(a, "--console-address="); ok {
				address = v
			}
		}
	}
	return region, address
}

func consolePort(address string) (int, error) {
	if address == "0" {
		return 0, errors.New("it serves no page: its flag --console-address is 0")
	}
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("its flag --console-address: %w", err)
	}
	port, err := net.LookupPort("tcp", text)
	if err != nil {
		return 0, fmt.Errorf("its flag --console-address: %w", err)
	}
	return port, nil
}

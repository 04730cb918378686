// Package command implements the commands that run in Kubernetes besides the data plane: operator, operator verify and
// redirect.
package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/eventnote"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/controllers/storepage"
	"github.com/causalstore/causalstore/controllers/trust"
	partmetrics "github.com/causalstore/causalstore/sidecar/metrics"
)

// operatorFlags are the flags of `causalstore operator`.
type operatorFlags struct {
	region, image       string
	edgeImage           string
	etcdImage           string
	metrics, health     string
	metricsAuth         bool
	console             string
	leaderElect         bool
	leaderNamespace     string
	logLevel, logFormat string
	namespaces          []string
	limits              v1alpha1.Limits
	authoritySecret     string
	authorityNamespace  string
	trustDomain         string
	issuer              trust.Issuer
	webhook             webhookFlags
}

// NewOperatorCommand returns `causalstore operator`.
func NewOperatorCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run the Kubernetes operator of one region",
		Long: `Runs the operator of one region. It reconciles CausalStore resources: it creates
and updates the StatefulSets, Services and other objects of the data centers in that region, in the
cluster that it runs in (or that KUBECONFIG names). It neither changes other regions nor waits for
them.

It serves /healthz and /readyz at --health-address, metrics at --metrics-address, and a live page of
each store at --console-address.`,
		Example: `  causalstore operator --region us-east-1 --image registry.example.com/causalstore:v1`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.region, "region", "", "region whose data centers to run (required)")
	fs.StringVar(&f.image, "image", os.Getenv("CAUSALSTORE_IMAGE"),
		"image of the parts, for stores that set none; default: CAUSALSTORE_IMAGE")
	fs.StringVar(&f.edgeImage, "edge-image", "",
		"image of Envoy, for the edges of stores that have data centers in other clusters; without it they "+
			"have no new edges")
	fs.StringVar(&f.etcdImage, "etcd-image", "",
		"image of etcd, for stores whose coordinators have several members; without it they have no new ones")
	fs.StringVar(&f.metrics, "metrics-address", ":8080", "host:port of metrics; 0 disables them")
	fs.BoolVar(&f.metricsAuth, "metrics-authentication", false,
		"serve metrics by TLS, with a certificate of its own, and only to those whom RBAC allows to get "+
			"the URL /metrics")
	fs.StringVar(&f.health, "health-address", ":8081", "host:port of /healthz and /readyz")
	fs.StringVar(&f.console, "console-address", contract.OperatorConsole,
		"host:port of the live page of stores, for kubectl causal console; a loopback address, because it has no "+
			"authentication; 0 disables it")
	fs.BoolVar(&f.leaderElect, "leader-elect", true,
		"elect a leader among the replicas of this region's operator; only the leader reconciles")
	fs.StringVar(&f.leaderNamespace, "leader-namespace", "", "namespace of the lease; default: the pod's own")
	fs.StringVar(&f.logLevel, "log-level", "info", "lowest level to log: debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "json", "format of the log: text or json")
	fs.StringSliceVar(&f.namespaces, "watch-namespaces", nil,
		"namespaces whose stores and apps to serve, separated by commas; if empty, all")
	fs.StringSliceVar(&f.limits.Images, "allowed-images", nil,
		"images that stores may name; an entry that ends in / or : allows all that begin with it; if empty, "+
			"all are allowed")
	fs.StringSliceVar(&f.limits.NodeLabels, "allowed-node-labels", nil,
		"keys of node labels that stores may use to choose nodes, besides topology.kubernetes.io/zone; if empty, "+
			"all are allowed")
	fs.StringSliceVar(&f.limits.Tolerations, "allowed-tolerations", nil,
		"keys of taints that stores may tolerate; if empty, all are allowed")
	fs.StringSliceVar(&f.limits.PriorityClasses, "allowed-priority-classes", nil,
		"PriorityClasses that pods of stores may have; if empty, all are allowed")
	fs.StringSliceVar(&f.limits.Labels, "allowed-labels", nil,
		"keys of labels that stores may add to their pods; an entry that ends in / allows all that begin with it; if "+
			"empty, all are allowed")
	fs.StringSliceVar(&f.limits.Annotations, "allowed-annotations", nil,
		"keys of annotations that stores may add to their pods and their ServiceAccount; an entry that ends in "+
			"/ allows all that begin with it; if empty, all are allowed")
	fs.StringVar(&f.authoritySecret, "authority-secret", "causalstore-authority",
		"Secret with the authority of the region, which the operator makes; the ConfigMap of that name has its "+
			"bundle, for other regions")
	fs.StringVar(&f.authorityNamespace, "authority-namespace", "",
		"namespace of --authority-secret; default: that of the lease")
	fs.StringVar(&f.trustDomain, "trust-domain", "",
		"trust domain of the region, a DNS name, once for all; default: the region and the UID of "+
			"namespace kube-system")
	fs.StringVar(&f.issuer.Name, "issuer", "",
		"Issuer of cert-manager in --authority-namespace that signs the certificates of parts; without it, the "+
			"operator has an authority of its own")
	fs.StringVar(&f.issuer.Group, "issuer-group", trust.IssuerGroup, "API group of --issuer")
	f.webhook.register(fs)
	_ = cmd.MarkFlagRequired("region") // the flag exists
	cmd.AddCommand(newVerifyCommand())
	return cmd
}

// NewScheme returns a scheme with the types that the operator uses.
func NewScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

func (f *operatorFlags) logger() (logr.Logger, error) {
	o := &slog.HandlerOptions{}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level %q: use debug, info, warn or error", f.logLevel)
	}
	o.Level = level
	switch f.logFormat {
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return logr.Logger{}, fmt.Errorf("--log-format %q: use text or json", f.logFormat)
}

func (f *operatorFlags) run(ctx context.Context) error {
	if f.image == "" {
		return errors.New("--image is required: the image of the parts, which is usually the operator's own")
	}
	if wrong := validation.IsDNS1123Subdomain(f.region); len(wrong) > 0 || len(f.region) > 63 {
		return fmt.Errorf("--region %q: use up to 63 lower-case letters, digits, dots and hyphens, such as us-east-1",
			f.region)
	}
	if err := f.webhook.validate(); err != nil {
		return err
	}
	if f.console != "0" {
		if err := storepage.CheckAddress(f.console); err != nil {
			return fmt.Errorf("--console-address %w", err)
		}
	}
	if f.trustDomain != "" {
		if err := authority.CheckTrustDomain(f.trustDomain); err != nil {
			return fmt.Errorf("--trust-domain: %w", err)
		}
	}
	if wrong := validation.IsDNS1123Subdomain(f.issuer.Name); f.issuer.Name != "" && len(wrong) > 0 {
		return fmt.Errorf("--issuer %q: it is not the name of an Issuer: %s", f.issuer.Name, strings.Join(wrong, "; "))
	}
	log, err := f.logger()
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w; run in a pod, or set KUBECONFIG to a file", err)
	}
	m, err := f.manager(config)
	if err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return fmt.Errorf("operator: %w", err)
	}
	return nil
}

// podNamespaceFile has the namespace of the pod.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// identity tells this operator from others of its region: it is the namespace of its lease. Without leader election it
// is empty.
func (f *operatorFlags) identity() (string, error) {
	if !f.leaderElect || f.leaderNamespace != "" {
		return f.leaderNamespace, nil
	}
	b, err := os.ReadFile(podNamespaceFile)
	if err != nil {
		return "", fmt.Errorf("find the pod's namespace: %w; run in a pod, or set --leader-namespace", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func (f *operatorFlags) metricsOptions() server.Options {
	o := server.Options{BindAddress: f.metrics}
	if f.metricsAuth {
		o.SecureServing, o.FilterProvider = true, newMetricsFilter
	}
	return o
}

func (f *operatorFlags) manager(config *rest.Config) (ctrl.Manager, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no client-side limit: the API server has priority and fairness
	distribution, err := trafficDistribution(config)
	if err != nil {
		return nil, err
	}
	certificate := &inject.ServingCertificate{}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Cache: causalstore.CacheOptions(f.namespaces...),
		Metrics:                       f.metricsOptions(),
		HealthProbeBindAddress:        f.health,
		LeaderElection:                f.leaderElect,
		LeaderElectionID:              plan.LeaseName(f.region),
		LeaderElectionNamespace:       f.leaderNamespace,
		LeaderElectionReleaseOnCancel: true,
		WebhookServer:                 f.webhook.server(certificate),
	})
	if err != nil {
		return nil, fmt.Errorf("operator: %w", err)
	}
	identity, err := f.identity()
	if err != nil {
		return nil, err
	}
	if f.authorityNamespace = cmp.Or(f.authorityNamespace, identity); f.authorityNamespace == "" {
		return nil,
			errors.New(
				"--authority-namespace is required without leader election: the namespace of the Secret with the " +
					"region's authority")
	}
	keeper := &trust.Keeper{Client: m.GetClient(), Uncached: m.GetAPIReader(), Namespace: f.authorityNamespace,
		Name:   f.authoritySecret,
		Region: f.region, TrustDomain: f.trustDomain, Now: time.Now}
	if f.issuer.Name != "" {
		keeper.Requests = &trust.Requests{Client: m.GetClient(), Uncached: m.GetAPIReader(),
			Namespace: keeper.Namespace, Name: keeper.Name, Issuer: f.issuer}
	}
	expiries := &trust.Expiries{}
	r := &causalstore.Reconciler{
		Trust: keeper, Expiries: expiries,
		Limits: f.limits, Namespaces: f.namespaces, Operator: identity, Lease: plan.LeaseName(f.region),
		Client: m.GetClient(), Uncached: m.GetAPIReader(), Scheme: scheme,
		Events: eventnote.Recorder{EventRecorder: m.GetEventRecorder(plan.ManagedBy)},
		Region: f.region, Image: f.image, EdgeImage: f.edgeImage, EtcdImage: f.etcdImage, SameZone: distribution,
		Random: rand.Reader, Now: time.Now,
		Prober: causalstore.HTTPProber{Client: &http.Client{}},
	}
	if f.webhook.configuration != "" {
		r.Webhook = certificate.Serving
		if err := f.webhook.serve(m, certificate, f, keeper, expiries); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(metrics.Registry.Register(partmetrics.Build()),
		metrics.Registry.Register(NewStoreMetrics(m.GetClient()))); err != nil {
		return nil, fmt.Errorf("operator: register metrics: %w", err)
	}
	if err := metrics.Registry.Register(expiries); err != nil {
		return nil, fmt.Errorf("operator: register metrics: %w", err)
	}
	if err := f.addConsole(m); err != nil {
		return nil, err
	}
	return m, errors.Join(m.Add(keeper), r.SetupWithManager(m), m.AddHealthzCheck("ping", healthz.Ping),
		m.AddReadyzCheck("ping", healthz.Ping))
}

// addConsole adds the server of the live page to the manager.
func (f *operatorFlags) addConsole(m ctrl.Manager) error {
	if f.console == "0" {
		return nil
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 10 * time.Second,
		DisableCompression: true}}
	s, err := storepage.NewServer(storepage.Options{Address: f.console, Region: f.region, Client: m.GetClient(),
		Uncached:   m.GetAPIReader(),
		Namespaces: f.namespaces, HTTP: client, Now: time.Now})
	if err != nil {
		return fmt.Errorf("--console-address %w", err)
	}
	return m.Add(s)
}

// Package command is the command line of what runs in Kubernetes beside the data plane.
package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// operatorFlags are the flags of `causalstore operator`.
type operatorFlags struct {
	region, image       string
	metrics, health     string
	leaderElect         bool
	leaderNamespace     string
	logLevel, logFormat string
	webhook             webhookFlags
}

// NewOperatorCommand returns `causalstore operator`.
func NewOperatorCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run the data centres of one region in Kubernetes, as CausalStore resources have them",
		Long: `Runs the operator of one region: it makes the StatefulSets, Services and whatever else the data centres of that region need,
in the cluster that it runs in (or that KUBECONFIG names). It touches no other region, and waits for none.

/healthz and /readyz are served at --health-address, metrics at --metrics-address.`,
		Example: `  causalstore operator --region us-east-1 --image registry.example.com/causalstore:v1`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.region, "region", "", "run the data centres that have this region (required)")
	fs.StringVar(&f.image, "image", os.Getenv("CAUSALSTORE_IMAGE"),
		"image of the parts of stores that name none; default: CAUSALSTORE_IMAGE")
	fs.StringVar(&f.metrics, "metrics-address", ":8080", "host:port of metrics; 0 for none")
	fs.StringVar(&f.health, "health-address", ":8081", "host:port of /healthz and /readyz")
	fs.BoolVar(&f.leaderElect, "leader-elect", true, "work only while no other operator of this region does")
	fs.StringVar(&f.leaderNamespace, "leader-namespace", "", "namespace of the lease; default: the pod's own")
	fs.StringVar(&f.logLevel, "log-level", "info", "least level that is logged: debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "json", "format of the log: text or json")
	f.webhook.register(fs)
	_ = cmd.MarkFlagRequired("region") // it exists
	cmd.AddCommand(newVerifyCommand())
	return cmd
}

// NewScheme knows the types that the operator uses.
func NewScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

func (f *operatorFlags) logger() (logr.Logger, error) {
	o := &slog.HandlerOptions{}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level %q: give debug, info, warn or error", f.logLevel)
	}
	o.Level = level
	switch f.logFormat {
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return logr.Logger{}, fmt.Errorf("--log-format %q: give text or json", f.logFormat)
}

func (f *operatorFlags) run(ctx context.Context) error {
	if f.image == "" {
		return errors.New("--image is missing; give the image of the parts, which is the one that this operator runs from")
	}
	if err := f.webhook.check(); err != nil {
		return err
	}
	log, err := f.logger()
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w; run in a pod, or name a file in KUBECONFIG", err)
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

func (f *operatorFlags) manager(config *rest.Config) (ctrl.Manager, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server has its own fair queues
	zone, err := sameZone(config)
	if err != nil {
		return nil, err
	}
	shown := &inject.Shown{}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Cache: causalstore.CacheOptions(),
		Metrics:                       server.Options{BindAddress: f.metrics},
		HealthProbeBindAddress:        f.health,
		LeaderElection:                f.leaderElect,
		LeaderElectionID:              leaseName(f.region),
		LeaderElectionNamespace:       f.leaderNamespace,
		LeaderElectionReleaseOnCancel: true,
		WebhookServer:                 f.webhook.server(shown),
	})
	if err != nil {
		return nil, fmt.Errorf("operator: %w", err)
	}
	r := &causalstore.Reconciler{
		Client: m.GetClient(), Uncached: m.GetAPIReader(), Scheme: scheme, Events: m.GetEventRecorder(plan.ManagedBy),
		Region: f.region, Image: f.image, SameZone: zone, Random: rand.Reader, Now: time.Now,
		Prober: causalstore.MetricsProber{Client: &http.Client{}},
	}
	if f.webhook.configuration != "" {
		r.Webhook = shown.Serving
		if err := f.webhook.serve(m, shown, f.region, f.image); err != nil {
			return nil, err
		}
	}
	return m, errors.Join(r.SetupWithManager(m), m.AddHealthzCheck("ping", healthz.Ping), m.AddReadyzCheck("ping", healthz.Ping))
}

package command

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// webhookFlags are about the injection of sidecars.
type webhookFlags struct {
	configuration, host, namespace, secret, certDir, clusterDomain string
	port                                                           int
}

func (f *webhookFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.configuration, "webhook-configuration", "",
		"MutatingWebhookConfiguration that calls this operator for pods; none: sidecars are not injected")
	fs.StringVar(&f.host, "webhook-host", "", "host name that the API server calls, which the certificate is made for")
	fs.StringVar(&f.namespace, "webhook-namespace", "", "namespace of the Secret of the certificate")
	fs.StringVar(&f.secret, "webhook-secret", "", "Secret of the certificate; it is made and renewed here")
	fs.StringVar(&f.certDir, "webhook-cert-dir", "",
		"folder with tls.crt and tls.key that something else makes and renews, such as cert-manager; instead of --webhook-secret")
	fs.IntVar(&f.port, "webhook-port", 9443, "port of the webhook")
	fs.StringVar(&f.clusterDomain, "cluster-domain", "cluster.local", "what the names of Services end in")
}

// check says what is missing.
func (f *webhookFlags) check() error {
	switch {
	case f.configuration == "":
		return nil
	case f.host == "":
		return errors.New("--webhook-configuration is given; give --webhook-host as well")
	case (f.certDir == "") == (f.secret == ""):
		return errors.New("--webhook-configuration is given; give --webhook-secret with --webhook-namespace, or --webhook-cert-dir, and not both")
	case f.certDir == "" && f.namespace == "":
		return errors.New("--webhook-secret is given; give --webhook-namespace as well")
	}
	return nil
}

func (f *webhookFlags) server(shown *inject.Shown) webhook.Server {
	return webhook.NewServer(webhook.Options{Port: f.port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion, c.GetCertificate = tls.VersionTLS13, shown.Certificate
	}}})
}

// certificates keep what the server shows up to date.
func (f *webhookFlags) certificates(m ctrl.Manager, shown *inject.Shown) manager.Runnable {
	if f.certDir != "" {
		return &inject.Watcher{Shown: shown, Uncached: m.GetAPIReader(), Dir: f.certDir, Host: f.host,
			Configuration: f.configuration, Now: time.Now}
	}
	return &inject.Keeper{Shown: shown, Client: m.GetClient(), Uncached: m.GetAPIReader(), Namespace: f.namespace,
		Secret: f.secret, Host: f.host,
		Configuration: f.configuration, Now: time.Now}
}

// serve lets every operator answer, the leader and the others.
func (f *webhookFlags) serve(m ctrl.Manager, shown *inject.Shown, region, image string) error {
	injections := inject.NewInjections()
	if err := metrics.Registry.Register(injections); err != nil {
		return err
	}
	copier := &inject.Copier{Client: m.GetClient(), Uncached: m.GetAPIReader(), Scheme: m.GetScheme(), Region: region}
	if err := copier.SetupWithManager(m); err != nil {
		return err
	}
	m.GetWebhookServer().Register(inject.Path, &webhook.Admission{Handler: admission.Handler(&inject.Webhook{
		Client: m.GetClient(), Events: m.GetEventRecorder(plan.ManagedBy), Region: region, Image: image, ClusterDomain: f.clusterDomain, Injections: injections})})
	return m.Add(f.certificates(m, shown))
}

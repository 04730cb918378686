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

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// webhookFlags configure the injection of sidecars.
type webhookFlags struct {
	configuration, host, namespace, secret, certDir, clusterDomain string
	port                                                           int
}

func (f *webhookFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.configuration, "webhook-configuration", "",
		"MutatingWebhookConfiguration that calls this operator for pods; if empty, sidecars are not injected")
	fs.StringVar(&f.host, "webhook-host", "", "host name that the API server calls, for the certificate")
	fs.StringVar(&f.namespace, "webhook-namespace", "", "namespace of --webhook-secret")
	fs.StringVar(&f.secret, "webhook-secret", "", "Secret in which the operator creates and renews the certificate")
	fs.StringVar(&f.certDir, "webhook-cert-dir", "",
		"folder with tls.crt and tls.key that something else, such as cert-manager, creates and renews; instead of --webhook-secret")
	fs.IntVar(&f.port, "webhook-port", 9443, "port of the webhook")
	fs.StringVar(&f.clusterDomain, "cluster-domain", "cluster.local", "DNS domain of the cluster's Services")
}

// validate returns which flags are missing or contradict each other.
func (f *webhookFlags) validate() error {
	switch {
	case f.configuration == "":
		return nil
	case f.host == "":
		return errors.New("--webhook-configuration needs --webhook-host")
	case (f.certDir == "") == (f.secret == ""):
		return errors.New("--webhook-configuration needs either --webhook-secret with --webhook-namespace, or --webhook-cert-dir, not both")
	case f.certDir == "" && f.namespace == "":
		return errors.New("--webhook-secret needs --webhook-namespace")
	}
	return nil
}

func (f *webhookFlags) server(certificate *inject.ServingCertificate) webhook.Server {
	return webhook.NewServer(webhook.Options{Port: f.port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion, c.GetCertificate = tls.VersionTLS13, certificate.Certificate
	}}})
}

// certificateSource returns what keeps the served certificate up to date.
func (f *webhookFlags) certificateSource(m ctrl.Manager, certificate *inject.ServingCertificate) manager.Runnable {
	if f.certDir != "" {
		return &inject.Watcher{ServingCertificate: certificate, Uncached: m.GetAPIReader(), Dir: f.certDir, Host: f.host,
			Configuration: f.configuration, Now: time.Now}
	}
	return &inject.Rotator{ServingCertificate: certificate, Client: m.GetClient(), Uncached: m.GetAPIReader(), Namespace: f.namespace,
		Secret: f.secret, Host: f.host,
		Configuration: f.configuration, Now: time.Now}
}

// serve registers the webhook, which every replica serves, leader or not, and the copier.
func (f *webhookFlags) serve(m ctrl.Manager, certificate *inject.ServingCertificate, region, image string) error {
	injections := inject.NewInjections()
	if err := metrics.Registry.Register(injections); err != nil {
		return err
	}
	copier := &inject.Copier{Client: m.GetClient(), Uncached: m.GetAPIReader(), Scheme: m.GetScheme(), Region: region}
	if err := copier.SetupWithManager(m); err != nil {
		return err
	}
	for path, required := range map[string]bool{inject.Path: false, inject.PathRequired: true} {
		m.GetWebhookServer().Register(path, &webhook.Admission{Handler: &inject.Webhook{Client: m.GetClient(), Events: m.GetEventRecorder(plan.ManagedBy),
			Region: region, Image: image, ClusterDomain: f.clusterDomain, Injections: injections, Required: required}})
	}
	m.GetWebhookServer().Register(inject.PathBind, &webhook.Admission{Handler: &inject.Binder{Client: m.GetClient(), Uncached: m.GetAPIReader(), Region: region}})
	return m.Add(f.certificateSource(m, certificate))
}

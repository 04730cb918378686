package command

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// webhookFlags are about the injection of sidecars.
type webhookFlags struct {
	configuration, host, namespace, secret, clusterDomain string
	port                                                  int
}

func (f *webhookFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.configuration, "webhook-configuration", "",
		"MutatingWebhookConfiguration that calls this operator for pods; none: sidecars are not injected")
	fs.StringVar(&f.host, "webhook-host", "", "host name that the API server calls, which the certificate is made for")
	fs.StringVar(&f.namespace, "webhook-namespace", "", "namespace of the Secret of the certificate")
	fs.StringVar(&f.secret, "webhook-secret", "", "Secret of the certificate; it is made and renewed here")
	fs.IntVar(&f.port, "webhook-port", 9443, "port of the webhook")
	fs.StringVar(&f.clusterDomain, "cluster-domain", "cluster.local", "what the names of Services end in")
}

func (f *webhookFlags) keeper() *inject.Keeper {
	return &inject.Keeper{Namespace: f.namespace, Secret: f.secret, Host: f.host, Configuration: f.configuration, Now: time.Now}
}

func (f *webhookFlags) server(k *inject.Keeper) webhook.Server {
	return webhook.NewServer(webhook.Options{Port: f.port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion, c.GetCertificate = tls.VersionTLS13, k.Certificate
	}}})
}

// serve lets every operator answer, the leader and the others.
func (f *webhookFlags) serve(m ctrl.Manager, k *inject.Keeper, region, image string) error {
	if f.host == "" || f.namespace == "" || f.secret == "" {
		return fmt.Errorf("--webhook-configuration is given; give --webhook-host, --webhook-namespace and --webhook-secret as well")
	}
	k.Client, k.Uncached = m.GetClient(), m.GetAPIReader()
	injections := inject.NewInjections()
	if err := metrics.Registry.Register(injections); err != nil {
		return err
	}
	m.GetWebhookServer().Register(inject.Path, &webhook.Admission{Handler: admission.Handler(&inject.Webhook{
		Client: m.GetClient(), Events: m.GetEventRecorder(plan.ManagedBy), Region: region, Image: image, ClusterDomain: f.clusterDomain, Injections: injections})})
	return m.Add(k)
}

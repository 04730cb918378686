package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/eventnote"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/controllers/trust"
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
		"folder with tls.crt and tls.key that something else, such as cert-manager, creates and renews; instead of "+
			"--webhook-secret")
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
		return errors.New(
			"--webhook-configuration needs either --webhook-secret with --webhook-namespace, or " +
				"--webhook-cert-dir, not both")
	case f.certDir == "" && f.namespace == "":
		return errors.New("--webhook-secret needs --webhook-namespace")
	}
	return nil
}

func (f *webhookFlags) server(certificate *inject.ServingCertificate) webhook.Server {
	return inject.NewServer(f.port, certificate)
}

// certificateSource returns what keeps the served certificate up to date.
func (f *webhookFlags) certificateSource(m ctrl.Manager, certificate *inject.ServingCertificate) manager.Runnable {
	if f.certDir != "" {
		return &inject.Watcher{ServingCertificate: certificate, Uncached: m.GetAPIReader(), Dir: f.certDir,
			Host:          f.host,
			Configuration: f.configuration, Now: time.Now}
	}
	return &inject.Rotator{ServingCertificate: certificate, Client: m.GetClient(), Uncached: m.GetAPIReader(),
		Namespace: f.namespace,
		Secret:    f.secret, Host: f.host,
		Configuration: f.configuration, Now: time.Now}
}

// serve registers the webhook, which every replica serves, leader or not, the copier, and the count of pods that lack a
// sidecar.
func (f *webhookFlags) serve(m ctrl.Manager, certificate *inject.ServingCertificate, operator *operatorFlags,
	keeper *trust.Keeper,
	expiries *trust.Expiries) error {
	injections := inject.NewInjections()
	census := &inject.Census{Client: m.GetClient(), Uncached: m.GetAPIReader(), Namespaces: operator.namespaces,
		Interval: inject.CensusInterval}
	if err := errors.Join(metrics.Registry.Register(injections), metrics.Registry.Register(census),
		m.Add(census)); err != nil {
		return err
	}
	copier := &inject.Copier{Client: m.GetClient(), Uncached: m.GetAPIReader(), Scheme: m.GetScheme(),
		Region:     operator.region,
		Namespaces: operator.namespaces, Trust: keeper, Expiries: expiries, Now: time.Now}
	if err := copier.SetupWithManager(m); err != nil {
		return err
	}
	for path, required := range map[string]bool{inject.Path: false, inject.PathRequired: true} {
		m.GetWebhookServer().Register(path,
			&webhook.Admission{Handler: &inject.Webhook{Client: m.GetClient(),
				Events: eventnote.Recorder{EventRecorder: m.GetEventRecorder(plan.ManagedBy)},
				Region: operator.region, Image: operator.image, ClusterDomain: f.clusterDomain, Limits: operator.limits,
				Namespaces: operator.namespaces, Injections: injections, Required: required}})
	}
	m.GetWebhookServer().Register(inject.PathBind,
		&webhook.Admission{Handler: &inject.Binder{Client: m.GetClient(), Uncached: m.GetAPIReader(),
			Region:     operator.region,
			Namespaces: operator.namespaces}})
	if err := cacheForWebhook(m); err != nil {
		return err
	}
	return m.Add(f.certificateSource(m, certificate))
}

// cacheForWebhook makes the cache hold from the start what the webhook reads. The controllers of a replica that is not
// the leader do not run, so that it would be filled at the first request, and that request would run out of time.
func cacheForWebhook(m ctrl.Manager) error {
	all := []client.Object{&v1alpha1.CausalStore{}, &corev1.ConfigMap{}, &corev1.Service{}, &appsv1.StatefulSet{}}
	for _, kind := range []string{"Namespace", "Node"} {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		all = append(all, o)
	}
	for _, o := range all {
		if _, err := m.GetCache().GetInformer(context.Background(), o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
	}
	return nil
}

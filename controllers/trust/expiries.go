package trust

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Owner is a Secret with certificates of a store.
type Owner struct{ Namespace, Secret, StoreNamespace, Store, DataCenter string }

// Expiries exports when the certificates in each Secret expire. Only the replica that renews them, the leader, knows. A
// nil Expiries exports nothing.
type Expiries struct {
	mu  sync.Mutex
	all map[Owner]time.Time
}

var expiry = prometheus.NewDesc("causalstore_certificate_expiry_timestamp_seconds",
	"When the first certificate in a Secret expires, in seconds since 1970; 0 if one is missing. Of the operator "+
		"that renews them.",
	[]string{"certificate_namespace", "secret", "store_namespace", "store", "data_center"}, nil)

// Set notes when the first certificate of a Secret expires.
func (e *Expiries) Set(of Owner, at time.Time) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[Owner]time.Time{}
	}
	e.all[of] = at
}

// Forget removes all Secrets of a store.
func (e *Expiries) Forget(namespace, store string) {
	e.forget(func(o Owner) bool { return o.StoreNamespace == namespace && o.Store == store })
}

// ForgetSecret removes a Secret.
func (e *Expiries) ForgetSecret(namespace, secret string) {
	e.forget(func(o Owner) bool { return o.Namespace == namespace && o.Secret == secret })
}

func (e *Expiries) forget(which func(Owner) bool) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for o := range e.all {
		if which(o) {
			delete(e.all, o)
		}
	}
}

// Describe implements prometheus.Collector.
func (e *Expiries) Describe(ch chan<- *prometheus.Desc) { ch <- expiry }

// Collect implements prometheus.Collector.
func (e *Expiries) Collect(ch chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for o, at := range e.all {
		value := 0.0
		if !at.IsZero() {
			value = float64(at.Unix())
		}
		ch <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, value, o.Namespace, o.Secret,
			o.StoreNamespace, o.Store, o.DataCenter)
	}
}

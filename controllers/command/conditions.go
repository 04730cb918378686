package command

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// conditionsTimeout bounds one scrape: until the operator's cache is filled, a list waits for it.
const conditionsTimeout = 2 * time.Second

// conditionMetrics exports the conditions of all stores in the cluster. The operator knows what each store should run,
// so they also report processes that are gone, of which Prometheus has no target.
type conditionMetrics struct {
	stores client.Reader
	desc   *prometheus.Desc
}

// NewConditionMetrics returns a collector that reads the stores at every scrape. Every replica of the operator exports
// the same values; the labels do not say which replica wrote the status.
func NewConditionMetrics(stores client.Reader) prometheus.Collector {
	return &conditionMetrics{stores, prometheus.NewDesc("causalstore_store_condition",
		"Condition in the status of a CausalStore: 1 if it is True, else 0.",
		[]string{"store_namespace", "store", "condition", "reason"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *conditionMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector. If the stores cannot be listed it exports none, and the other metrics of the
// operator are still served.
func (c *conditionMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), conditionsTimeout)
	defer cancel()
	var list v1alpha1.CausalStoreList
	if err := c.stores.List(ctx, &list); err != nil {
		return
	}
	for _, s := range list.Items {
		for _, condition := range s.Status.Conditions {
			value := 0.0
			if condition.Status == metav1.ConditionTrue {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, value, s.Namespace, s.Name, condition.Type,
				condition.Reason)
		}
	}
}

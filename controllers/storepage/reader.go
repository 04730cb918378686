package storepage

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/partmetrics"
	"github.com/causalstore/causalstore/topology"
)

// Bounds of the requests for one snapshot: the time of one, and how many there are at a time.
const (
	readTimeout = 1500 * time.Millisecond
	readAtOnce  = 16
)

// The metrics that are shown, besides those of package contract.
const (
	metricBuild       = "causalstore_build_info"
	metricReads       = "causalstore_sidecar_reads_total"
	metricPuts        = "causalstore_sidecar_puts_total"
	metricUnavailable = "causalstore_sidecar_unavailable_total"
	metricUnknown     = "causalstore_sidecar_unknown_outcomes_total"
	metricSessions    = "causalstore_sidecar_sessions"
	metricBound       = "causalstore_sidecar_bound_sessions"
	metricCutAge      = "causalstore_sidecar_stability_lag_seconds"
	metricConnections = "causalstore_redis_connections"
	metricBuffer      = "causalstore_coordinator_incomplete_bytes"
	metricBufferLimit = "causalstore_coordinator_write_buffer_limit_bytes"
	metricEntries     = "causalstore_cache_entries"
	metricCached      = "causalstore_cache_bytes"
	metricHomeKeys    = "causalstore_coordinator_home_keys"
	metricHomeBytes   = "causalstore_coordinator_home_bytes"
	metricHomeWaiting = "causalstore_coordinator_home_waiting_reads"
	metricPeerBytes   = "causalstore_peer_bytes_total"
)

// wanted has the metrics that are parsed.
var wanted = map[string]bool{metricBuild: true, metricReads: true, metricPuts: true, metricUnavailable: true,
	metricUnknown: true, metricSessions: true,
	metricBound: true, metricCutAge: true, metricConnections: true, metricBuffer: true, metricBufferLimit: true,
	metricEntries: true, metricCached: true,
	metricPeerBytes: true, contract.MetricIncompleteWrites: true, contract.MetricStabilityLag: true,
	contract.MetricRingLag: true, contract.MetricRoundTrip: true,
	contract.MetricServes(topology.Coordinator): true, contract.MetricServes(topology.Middleman): true}

// reader reads the metrics of processes over HTTP.
type reader struct{ client *http.Client }

// readAll reads all processes.
func (r *reader) readAll(ctx context.Context, all []process) []reading {
	out := make([]reading, len(all))
	slots := make(chan struct{}, readAtOnce)
	var running sync.WaitGroup
	for i, p := range all {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			m, err := r.read(ctx, p)
			out[i] = reading{p, m, err}
		})
	}
	running.Wait()
	return out
}

func (r *reader) read(ctx context.Context, p process) (partmetrics.Families, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	url := "http://" + net.JoinHostPort(p.pod.Status.PodIP, strconv.Itoa(p.port)) + contract.PathMetrics
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return partmetrics.ParseOnly(answer.Body, wanted)
}

package metrics

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/register"
)

var _ register.Metrics = (*Register)(nil)

func TestRequestsToTheRegisterAreCountedByOutcome(t *testing.T) {
	m, r := NewRegister(), NewRegistry()
	r.MustRegister(m)
	if got := values(t, r)[`causalstore_register_last_success_timestamp_seconds{}`]; got != 0 {
		t.Errorf("the last success is at %v before the first", got)
	}
	m.RequestDone(false, group.Done, time.Millisecond)
	m.RequestDone(true, group.Unknown, 2*time.Second)
	m.RequestDone(true, group.Failed, time.Second)
	m.Connected()
	m.Connected()
	m.Disconnected()
	got := values(t, r)
	for series, want := range map[string]float64{
		`causalstore_register_requests_total{operation="read",outcome="done"}`:    1,
		`causalstore_register_requests_total{operation="swap",outcome="unknown"}`: 1,
		`causalstore_register_requests_total{operation="swap",outcome="failed"}`:  1,
		`causalstore_register_request_duration_seconds{operation="swap"}`:         2,
		`causalstore_register_connections{}`:                                      1,
		`causalstore_register_watches_started_total{}`:                            2,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v, %v; want %v", series, v, ok, want)
		}
	}
	if got[`causalstore_register_last_success_timestamp_seconds{}`] == 0 {
		t.Error("there was a success, and the time of the last one is 0")
	}
}
